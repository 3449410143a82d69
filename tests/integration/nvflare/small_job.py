"""A job without torch: ScatterAndGather, clients that may fail, and a server that may be killed.

Each client adds its own number to every weight, so a test knows what it sent without asking NVFlare.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

import numpy as np
from nvflare.apis.dxo import DXO, DataKind, MetaKey, from_shareable
from nvflare.apis.executor import Executor
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal
from nvflare.app_common.aggregators.intime_accumulate_model_aggregator import InTimeAccumulateWeightedAggregator
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType
from nvflare.app_common.np.np_model_persistor import NPModelPersistor
from nvflare.app_common.shareablegenerators.full_model_shareable_generator import FullModelShareableGenerator
from nvflare.app_common.workflows.scatter_and_gather import ScatterAndGather
from nvflare.job_config.api import FedJob

from fedleak.record.nvflare import FedleakRecorder

SITES = ("site-1", "site-2", "site-3")


class AddOwnNumber(Executor):
    """A client that adds its number to each weight, and fails in one round."""

    def __init__(self, number: int, fail_in: int = -1) -> None:
        super().__init__()
        self.number, self.fail_in = number, fail_in

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        """Train, so to speak."""
        if shareable.get_header(AppConstants.CURRENT_ROUND) == self.fail_in:
            raise RuntimeError("this client has no data today")
        sent = from_shareable(shareable).data
        weights = {name: np.asarray(value) + np.float32(self.number) for name, value in sent.items()}
        meta = {MetaKey.NUM_STEPS_CURRENT_ROUND: 10 * self.number}
        return DXO(DataKind.WEIGHTS, data=weights, meta=meta).to_shareable()


class KillServer(FLComponent):
    """Ends the server's process as a power failure would, at the start of a round."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Wait for the round."""
        if event_type == AppEventType.ROUND_STARTED and fl_ctx.get_prop(AppConstants.CURRENT_ROUND) == self.at:
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Define the job and run it in the simulator."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workspace", type=Path, required=True)
    parser.add_argument("--record", type=Path, required=True)
    parser.add_argument("--fail-in", type=int, default=-1)
    parser.add_argument("--kill-at", type=int, default=-1)
    options = parser.parse_args()
    job = FedJob(name="small", min_clients=len(SITES))
    job.to_server(NPModelPersistor(), id="persistor")
    job.to_server(FullModelShareableGenerator(), id="shareable_generator")
    job.to_server(InTimeAccumulateWeightedAggregator(expected_data_kind=DataKind.WEIGHTS), id="aggregator")
    controller = ScatterAndGather(
        min_clients=2, num_rounds=options.rounds, persistor_id="persistor", ignore_result_error=True
    )
    job.to_server(controller)
    for place, site in enumerate(SITES, start=1):
        job.to(AddOwnNumber(place, options.fail_in if place == len(SITES) else -1), site)
    if options.kill_at >= 0:
        job.to_server(KillServer(options.kill_at), id="kill")
    job.to_server(FedleakRecorder(str(options.record)), id="fedleak")
    sys.exit(job.simulator_run(str(options.workspace)))


if __name__ == "__main__":
    main()
