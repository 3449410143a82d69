"""What reading and checking the data found: one structure for data sets, checks and the report."""

from __future__ import annotations

import msgspec

__all__ = ["UNBALANCED", "Finding"]

UNBALANCED = (
    "Users' class counts are more similar than chance would make them, and there is too little data to balance the "
    "sides: a class that is frequent on one side is rare on the other, so that scores can fall below chance and hide "
    "leaks."
)

_MOST_NAMED = 8  # users or groups
_MOST_TWINS = 5  # of one group


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the checks found, and what was done about it."""

    kind: str  # split, sizes, twins, copies, few, untimed, background, injected, missing, extreme, ignored
    count: int
    action: str  # merge, drop, keep, mean, indicator; of a split, its name
    text: str  # names no user: results show users by their pseudonyms
    users: list[list[str]] = []  # of whom it is about; twins are one group

    def with_users(self) -> str:
        """The text, and the users it is about.

        >>> Finding(kind="twins", count=1, action="drop", text="2 users are one.", users=[["a", "b"]]).with_users()
        '2 users are one. Users: a = b.'
        """
        if not self.users:
            return self.text
        more = len(self.users) - _MOST_NAMED
        named = ", ".join(map(_group, self.users[:_MOST_NAMED]))
        return f"{self.text} Users: {named}{f' and {more} more' if more > 0 else ''}."


def _group(users: list[str]) -> str:
    """One user, or users who may be one.

    >>> _group(["a", "b"]), _group(list("abcdefgh"))
    ('a = b', 'a = b = c = d = e = 3 more')
    """
    named = users if len(users) <= _MOST_TWINS + 1 else [*users[:_MOST_TWINS], f"{len(users) - _MOST_TWINS} more"]
    return " = ".join(named)
