"""What an audit will take, in words: for `fedleak check`, and before an audit that takes minutes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from fedleak.core import counted, data_size, duration
from fedleak.pipeline.calibrate import Calibration
from fedleak.pipeline.estimate import Estimate
from fedleak.report.formatting import printable

__all__ = ["about_data", "about_time", "headline", "too_large"]


def about_data(found: Calibration) -> Iterator[str]:
    """What was read and built."""
    ready = found.prepared
    shares, layout = ready.population.shares, ready.model.layout
    private, prior = sum(len(share.private) for share in shares), sum(len(share.prior) for share in shares)
    users, test = counted(len(shares), "user"), len(ready.population.test)
    yield f"Data: {users}; {private:,} private, {prior:,} prior and {test:,} test examples"
    yield f"  - {printable(ready.population.source)}"
    for finding in ready.population.findings:
        yield f"  - {printable(finding.text)}"
    yield f"Model: {sum(layer.size for layer in layout):,} parameters in {counted(len(layout), 'layer')}"


def headline(found: Estimate) -> str:
    """Time, memory and disk of the whole audit."""
    least = "at least " if found.unknown else "about "
    return (
        f"Estimate: {least}{duration(found.seconds)} on {counted(found.processes, 'core')} that nothing else uses, "
        f"up to {data_size(found.memory)} of memory, {data_size(found.disk)} of disk"
    )


def about_time(found: Estimate) -> Iterator[str]:
    """The estimate, with each attack in a line; computing time is on all cores together."""
    yield headline(found)
    yield f"  {'training':<24} {duration(found.training):>8} of computing"
    for one in found.attacks:
        took = "not known" if one.seconds is None else duration(one.seconds)
        each = f", {data_size(one.memory)} each" if one.memory else ""
        yield f"  {one.attack:<24} {took:>8} of computing, {counted(one.runs, 'run')}{each}"
    yield f"  {'scoring':<24} {duration(found.scoring):>8} of computing"
    for what in found.unknown:
        yield f"  not in the estimate: {printable(what)}"


def too_large(found: Estimate, out: Path) -> Iterator[str]:
    """Warnings where this machine has not got what an audit will need."""
    there = next(folder for folder in (out.absolute(), *out.absolute().parents) if folder.is_dir())
    free = shutil.disk_usage(there).free
    if found.disk > free:
        yield f"Warning: {data_size(free)} of disk are free at {there}, {data_size(found.disk)} are needed"
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if found.memory > memory:
            yield (
                f"Warning: this machine has {data_size(memory)} of memory, {data_size(found.memory)} may be needed; "
                "use --jobs 1, or lower memory in [audit]"
            )
