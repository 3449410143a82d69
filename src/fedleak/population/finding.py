"""What reading and checking the data found: one structure for data sets, checks and the report."""

from __future__ import annotations

import msgspec

__all__ = ["Finding"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the checks found, and what was done about it."""

    kind: str  # split, sizes, twins, copies, few, untimed, background, injected, missing, extreme, ignored
    count: int
    action: str  # merge, drop, keep, mean, indicator; of a split, its name
    text: str
