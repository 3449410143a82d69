"""Verbs that only read plans import no slow library, and neither does the module of anything that a plan can name."""

from __future__ import annotations

import subprocess
import sys

VERBS = """
import contextlib, io, sys
from fedleak.cli.main import main

for arguments in (["--version"], ["list"], ["list", "--matrix"], ["check", "demo", "--quick"]):
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()) as shown:
        main(arguments)
    print(*arguments, bool(shown.getvalue()), sorted({"torch", "sklearn", "scipy"} & set(sys.modules)))
"""

COMPONENTS = """
import sys
from typing import get_args
from fedleak import registry

class Refused:
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in ("torch", "sklearn", "scipy"):
            raise ImportError(f"imports {name} with its module; see fedleak.lazy")

sys.meta_path.insert(0, Refused())
for kind in get_args(registry.Kind):
    for name in registry.names(kind):
        try:
            registry.load(kind, name)
        except registry.PlanError as error:
            print(kind, name, error)
print("loaded")
"""


def printed(code: str) -> list[str]:
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return run.stdout.splitlines()


def test_no_verb_that_only_reads_imports_torch_sklearn_or_scipy() -> None:
    assert printed(VERBS) == [
        f"{verb} True []" for verb in ("--version", "list", "list --matrix", "check demo --quick")
    ]


def test_the_module_of_every_registered_component_is_imported_without_them() -> None:
    assert printed(COMPONENTS) == ["loaded"]
