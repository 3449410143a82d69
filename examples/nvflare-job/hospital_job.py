"""A job of NVFlare for four hospitals, run in its simulator or on a deployment. The two lines with Fedleak record it.

Run it in this folder: `python hospital_job.py --rounds 5 --workspace workspace --record fedleak-run`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hospital_task import HOSPITALS, Net
from nvflare.app_common.workflows.fedavg import FedAvg
from nvflare.app_opt.pt.job_config.base_fed_job import BaseFedJob
from nvflare.client.config import TransferType
from nvflare.job_config.script_runner import ScriptRunner

from fedleak.record.nvflare import FedleakRecorder


def main() -> None:
    """Define the job and run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workspace", type=Path, default=Path("workspace"))
    parser.add_argument("--record", type=Path, default=Path("fedleak-run"))
    parser.add_argument("--export", type=Path, help="write the job into this folder instead of running it")
    parser.add_argument("--differences", action="store_true", help="clients send differences instead of weights")
    options = parser.parse_args()

    job = BaseFedJob(name="hospitals", initial_model=Net(), min_clients=len(HOSPITALS))
    job.to_server(FedAvg(num_clients=len(HOSPITALS), num_rounds=options.rounds))
    transfer = TransferType.DIFF if options.differences else TransferType.FULL
    for hospital in HOSPITALS:
        # A relative path: the job takes the script along. An absolute one would have to exist at every hospital.
        runner = ScriptRunner(script="hospital_client.py", params_transfer_type=transfer)
        job.to(runner, hospital)

    job.to_server(FedleakRecorder(str(options.record.resolve())), id="fedleak")

    if options.export is not None:
        job.export_job(str(options.export.resolve()))
        return
    sys.exit(job.simulator_run(str(options.workspace.resolve())))


if __name__ == "__main__":
    main()
