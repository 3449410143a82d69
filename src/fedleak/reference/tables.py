"""The tables of the threat models: adversaries, attacks, who can play which, and defences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fedleak import registry
from fedleak.federation.hooks import Defence
from fedleak.views.adversaries import describe, everyone
from fedleak.views.matrix import matrix

__all__ = ["adversaries", "attacks", "attack_matrix", "defences", "table"]

_ACTS_ON: Mapping[str, str] = {
    "on_data": "the client's data, before training",
    "on_participation": "who takes part",
    "on_loss": "local steps",
    "on_step": "local steps",
    "on_update": "the update, on the client",
    "on_aggregation": "the channel",
    "on_aggregate": "the mean, on the server",
}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])


def by_hand(now: str, place: int) -> dict[str, str]:
    r"""One column of a table as it stands on the page, by the first, its title included.

    >>> by_hand("| what | why |\n| --- | --- |\n| `noise` | it hides |", 1)
    {'what': 'why', '---': '---', '`noise`': 'it hides'}
    """
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in now.splitlines() if line.startswith("|")]
    return {row[0]: row[place] for row in rows if len(row) > place}


def adversaries(now: str) -> str:
    """What each adversary sees and can do, beside what is written by hand of who that is in real life."""
    written = by_hand(now, 1)
    rows = [
        [
            f"`{one.name}`",
            written.get(f"`{one.name}`", "?"),
            describe(one.observations),
            describe(one.capabilities) if one.capabilities else "-",
        ]
        for one in everyone()
    ]
    return table(["adversary", written.get("adversary", "in real life"), "sees", "can also"], rows)


def attacks() -> str:
    """The game that each attack plays, and what it does."""
    found = {name: registry.load("attack", name) for name in registry.names("attack")}
    return table(
        ["attack", "game", "what it does"],
        [[f"`{name}`", f"`{attack.game}`", attack.summary] for name, attack in found.items()],
    )


def attack_matrix() -> str:
    """Which adversary can play which attack, as it follows from what both declare."""
    rows = matrix({name: registry.load("attack", name) for name in registry.names("attack")}, everyone())
    names = list(rows[0].lacks)
    return table(
        ["attack", "needs", *names],
        [[f"`{row.attack}`", row.needs, *("-" if row.lacks[name] else "yes" for name in names)] for row in rows],
    )


def defences(now: str) -> str:
    """Where each defence acts, beside what is written by hand of whom it is meant against and what it does not do."""
    against, limits = by_hand(now, 2), by_hand(now, 3)
    rows: list[tuple[int, list[str]]] = []
    for name in registry.names("defence"):
        cls = registry.load("defence", name)
        hooks = [hook for hook in _ACTS_ON if getattr(cls, hook) is not getattr(Defence, hook)]
        hooks += ["on_aggregation"] if cls.hides and not hooks else []
        acts = dict.fromkeys(_ACTS_ON[hook] for hook in hooks)
        written = [column.get(f"`{name}`", "?") for column in (against, limits)]
        rows.append((list(_ACTS_ON).index(hooks[0]), [f"`{name}`", "; ".join(acts), *written]))
    rows.sort(key=lambda row: row[0])  # in the order in which they act
    titles = [against.get("defence", "meant against"), limits.get("defence", "what it does not do")]
    return table(["defence", "acts on", *titles], [cells for _, cells in rows])
