"""Find what a module imports of the truth, under whatever name and from wherever it comes.

Ruff bans importing the module of the truth, but any module that uses the truth re-exports it. So every imported name,
and every attribute of an imported module, is followed to the object that it stands for.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from fedleak.games.game import Answers, GameInstance

__all__ = ["truth_imports"]

_MODULES = frozenset({"fedleak.trace.truth", "fedleak.trace.evidence", "fedleak.trace.members"})
_OBJECTS = (GameInstance, Answers)  # what a game keeps back from attacks
_NAMES = frozenset({"Truth", "Evidence", "MemberRecords", *(kind.__name__ for kind in _OBJECTS)})
_MISSING = object()


def truth_imports(module: ModuleType, kind: type | None = None) -> list[str]:
    """What a module takes of the truth, one sentence each; empty where it takes nothing, or has no source.

    With `kind`, only what this class of the module uses: a plugin may have a game and an attack in one file.
    """
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, TypeError):
        return []
    package = module.__name__ if hasattr(module, "__path__") else module.__name__.rpartition(".")[0]
    bound = {name: value for node in ast.walk(tree) for name, _, value in _imported(node, package)}
    parts = [tree] if kind is None else [node for node in ast.walk(tree) if _defines(node, kind)]
    found = [
        f"line {node.lineno} of {module.__name__} {what}"
        for part in parts
        for node in ast.walk(part)
        if isinstance(node, ast.stmt | ast.expr)
        for what in _taken(node, bound, package, names=kind is not None)
    ]
    return list(dict.fromkeys(found))


def _defines(node: ast.AST, kind: type) -> bool:
    return isinstance(node, ast.ClassDef) and node.name == kind.__name__


def _taken(node: ast.AST, bound: Mapping[str, Any], package: str, *, names: bool) -> Iterator[str]:
    """What one node takes of the truth; a name that was imported elsewhere counts only with `names`."""
    for _, path, value in _imported(node, package):
        if _forbidden(value, path.rpartition(".")[2]):
            yield f"imports {path}"
    if isinstance(node, ast.Attribute) and _forbidden(_follow(_dotted(node), bound), node.attr):
        yield f"reads {_dotted(node)}"
    if names and isinstance(node, ast.Name) and _forbidden(bound.get(node.id), node.id):
        yield f"uses {node.id}"
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.partition(":")[0] in _MODULES:
        yield f"names {node.value}"


def _imported(node: ast.AST, package: str) -> Iterator[tuple[str, str, Any]]:
    """Names bound by a statement, the full path of each, and the object behind it."""
    if isinstance(node, ast.Import):
        for name in node.names:
            whole = _module(name.name)
            yield name.name, name.name, whole
            bound = name.asname or name.name.partition(".")[0]
            yield bound, name.name if name.asname else bound, whole if name.asname else _module(bound)
    elif isinstance(node, ast.ImportFrom):
        origin = "." * node.level + (node.module or "")
        if node.level:
            origin = importlib.util.resolve_name(origin, package)
        source = _module(origin)
        for name in node.names:
            names = [name.name] if name.name != "*" else [n for n in dir(source) if not n.startswith("_")]
            for each in names:
                yield name.asname or each, f"{origin}.{each}", _attribute(source, each)


def _module(name: str) -> Any:
    if name.partition(".")[0] != "fedleak":
        return sys.modules.get(name)  # imported with the module in question, or of no use to it
    try:
        return importlib.import_module(name)
    except ImportError:
        return _MISSING


def _attribute(value: Any, name: str) -> Any:
    if not isinstance(value, ModuleType):
        return value if value is _MISSING else None
    found = getattr(value, name, _MISSING)
    return _module(f"{value.__name__}.{name}") if found is _MISSING else found


def _dotted(node: ast.expr) -> str:
    """`a.b.c` as text; empty if it does not start with a name."""
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return node.id if isinstance(node, ast.Name) else ""


def _follow(path: str, bound: Mapping[str, Any]) -> Any:
    first, *rest = path.split(".")
    value = bound.get(first)
    for name in rest:
        if not isinstance(value, ModuleType):
            return None
        value = _attribute(value, name)
    return value


def _forbidden(value: Any, name: str) -> bool:
    """Whether an object is of the truth; a name that only a type checker finds counts by its name."""
    if value is _MISSING:
        return name in _NAMES
    if isinstance(value, ModuleType):
        return value.__name__ in _MODULES
    return any(value is kind for kind in _OBJECTS) or getattr(value, "__module__", None) in _MODULES
