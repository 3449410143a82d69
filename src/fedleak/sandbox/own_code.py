"""Which code a confined process may read: the installation, and single modules outside it, found by their files."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType

__all__ = ["installation", "loaded_code", "FindByFile"]

# What numerical libraries read of the system: shared objects, devices, the processor, and where they are loaded.
_SYSTEM = [
    *("/usr", "/lib", "/lib64", "/opt/intel", "/etc/ld.so.cache", "/etc/localtime", "/dev/urandom", "/dev/zero"),
    *("/proc/self/maps", "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu", "/sys/fs/cgroup"),
]


def installation() -> list[Path]:
    """Where Python, its packages and the libraries of the system lie: code that every process may read."""
    package = Path(__file__).resolve().parent.parent
    places = [sys.prefix, sys.base_prefix, sys.exec_prefix, *(path for path in sys.path if "site-packages" in path)]
    return [package, *(Path(path) for path in dict.fromkeys([*places, *_SYSTEM]))]


def loaded_code() -> dict[str, str]:
    """The files of the modules outside the installation that this process has loaded, by name."""
    files = {
        name: str(module.__file__)
        for name, module in list(sys.modules.items())
        if name != "__main__" and str(getattr(module, "__file__", None) or "").endswith(".py")
    }
    installed = [str(place) for place in installation()]
    return {name: file for name, file in files.items() if not file.startswith(tuple(installed))}


class FindByFile(MetaPathFinder):
    """Finds modules by their files: the folders that they lie in cannot be searched any more."""

    def __init__(self, files: dict[str, str]) -> None:
        self._files = files

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Where a module is, if it is one of them."""
        if name not in self._files:
            return None
        file = Path(self._files[name])
        within = [str(file.parent)] if file.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(name, file, submodule_search_locations=within)
