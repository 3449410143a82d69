"""The rooms of the package, and which of the others each imports from, read from the sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from fedleak.reference.tables import by_hand, table

__all__ = ["imports", "rooms"]


def rooms(now: str) -> str:
    """What each room imports from, beside what is written by hand of it; a new room comes last."""
    found = imports(Path(__file__).parents[1])
    written = by_hand(now, 1)
    order = [name for name in (cell.strip("`") for cell in written) if name in found]
    order += sorted(set(found) - set(order))
    rows = [
        [
            f"`{room}`",
            written.get(f"`{room}`", "?"),
            ", ".join(f"`{other}`" for other in order if other in found[room]) or "-",
        ]
        for room in order
    ]
    return table(["room", "what is in it", "imports from"], rows)


def imports(package: Path) -> dict[str, set[str]]:
    """Every package or module directly below a package, and the others that it imports from anywhere in its files.

    Imports for type checkers only do not count: they are not there when the program runs.
    """
    files = {path: path.relative_to(package).parts[0].removesuffix(".py") for path in package.rglob("*.py")}
    found: dict[str, set[str]] = {room: set() for room in files.values() if room != "__init__"}
    for path, room in files.items():
        if room in found:
            targets = _imported(ast.parse(path.read_text(encoding="utf-8")))
            parts = [target.split(".") for target in targets]
            found[room] |= {part[1] for part in parts if part[0] == package.name and len(part) > 1} & found.keys()
            found[room].discard(room)
    return found


def _imported(tree: ast.Module) -> Iterator[str]:
    """The dotted names that a file imports."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            todo += node.orelse
        else:  # an expression holds no import
            todo += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr)]
