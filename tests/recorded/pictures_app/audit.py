"""What the auditor knows: the clients' own images, and those of other people."""

from __future__ import annotations

from typing import Any

from pictures_app.data import CLIENTS, EXAMPLES, others, pictures


def held() -> dict[str, Any]:
    """What clients trained on, and some who took no part, to be told apart from."""
    x, y = others()
    spare = {f"spare {n}": (x[n * EXAMPLES :][:EXAMPLES], y[n * EXAMPLES :][:EXAMPLES]) for n in range(4)}
    return {**{str(client): pictures(client) for client in range(CLIENTS)}, **spare}


def background() -> Any:
    x, y = others()
    return x[200:700], y[200:700]
