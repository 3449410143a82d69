"""fedleak list: every name that a plan can use."""

from __future__ import annotations

import click

from fedleak import registry
from fedleak.plan import shipped
from fedleak.views.adversaries import everyone
from fedleak.views.matrix import matrix

__all__ = ["command"]

_KINDS: dict[str, registry.Kind] = {
    "attacks": "attack",
    "games": "game",
    "defences": "defence",
    "datasets": "dataset",
    "models": "model",
    "adversaries": "adversary",
    "analyses": "analysis",
}


@click.command("list")
@click.argument("kind", required=False, type=click.Choice([*_KINDS, "plans"]))
@click.option("--matrix", "show_matrix", is_flag=True, help="Show which adversary can run which attack.")
def command(kind: str | None, show_matrix: bool) -> None:
    """List attacks, games, defences, data sets, models, adversaries, analyses and shipped plans.

    \b
    Examples:
      fedleak list
      fedleak list attacks
      fedleak list --matrix
    """
    if show_matrix:
        return show()
    for name in [kind] if kind else [*_KINDS, "plans"]:
        click.echo(f"{name}:")
        entries = plans() if name == "plans" else summaries(_KINDS[name])
        for entry, text in entries:
            click.echo(f"  {entry:<20} {text}")


def summaries(kind: registry.Kind) -> list[tuple[str, str]]:
    """Names with a one-line summary each."""
    rows = []
    for name in registry.names(kind):
        found = registry.load(kind, name)
        text = getattr(found, "summary", None) or (found.__doc__ or "").splitlines()[0]
        rows.append((name, str(text)))
    return rows


def plans() -> list[tuple[str, str]]:
    """Shipped plans with their titles."""
    return [(name, shipped.title(name)) for name in shipped.names()]


def show() -> None:
    """Print which adversary can run which attack, derived from what both declare."""
    adversaries = everyone()
    rows = matrix({name: registry.load("attack", name) for name in registry.names("attack")}, adversaries)
    name = 2 + max(len(row.attack) for row in rows)
    needs = 2 + max(len(row.needs) for row in rows)
    click.echo(f"{'attack':<{name}}{'needs':<{needs}}" + "".join(f"{adversary.name:<21}" for adversary in adversaries))
    for row in rows:
        marks = ["yes" if not row.lacks[adversary.name] else "-" for adversary in adversaries]
        click.echo(f"{row.attack:<{name}}{row.needs:<{needs}}" + "".join(f"{mark:<21}" for mark in marks))
    click.echo(
        "-: the adversary lacks an observation or a capability that the attack needs, so the two are not paired."
    )
