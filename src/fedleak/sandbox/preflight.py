"""Build a user's own model once where attacks will build it, so that what fails there is known before training."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping
from multiprocessing.connection import Connection
from pathlib import Path

from fedleak import registry
from fedleak.core import Layout
from fedleak.errors import PlanError
from fedleak.federation.model import Signature
from fedleak.federation.models.own import Own
from fedleak.sandbox.confine import confine
from fedleak.sandbox.fork_server import fork_server, single_threaded, without_main
from fedleak.sandbox.own_code import FindByFile, installation, loaded_code

__all__ = ["require_buildable"]

_LONGEST = 2000  # characters of an error message


def require_buildable(own: Own, signature: Signature, layout: Layout, withheld: Collection[str] = ()) -> None:
    """Reject a model that an attack's process cannot build, most likely because it may not read a file."""
    registry.resolve_own(own.target)  # loads its modules, whose files the process may read
    modules = {name: file for name, file in loaded_code().items() if name not in withheld}
    context = fork_server()
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_build, args=(theirs, own, signature, layout, modules), daemon=True)
    with without_main():
        process.start()
    theirs.close()
    try:
        told = mine.recv_bytes(_LONGEST * 4).decode(errors="replace")
    except (EOFError, OSError):
        told = "its process ended"
    process.join()
    if told:
        raise PlanError(
            f"attacks cannot build your model in their own process, which reads code and no other files: {told}. Build "
            "it without them (weights come from the run), or set rebuild = false in [model]: attacks then do "
            "without the model, and reid-strong does not retrain"
        )


def _build(connection: Connection, own: Own, signature: Signature, layout: Layout, modules: Mapping[str, str]) -> None:
    """Run in the process: it confines itself first, as an attack's does."""
    single_threaded()
    confine([*installation(), *map(Path, modules.values())], [Path(os.devnull)])
    sys.meta_path.insert(0, FindByFile(dict(modules)))
    told = ""
    try:
        own.imitated(signature, layout)
    except Exception as error:
        told = f"{type(error).__name__}: {error}" if not isinstance(error, PlanError) else str(error)
    connection.send_bytes(told[:_LONGEST].encode())
