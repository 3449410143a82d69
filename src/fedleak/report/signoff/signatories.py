"""Who signs, and when the audit is due for review: from the options, else from the plan, else left blank."""

from __future__ import annotations

import calendar
import datetime
from dataclasses import dataclass
from typing import Any

from fedleak.results.audit import Audit

__all__ = ["ROLES", "Signatories", "signatories", "months_later"]

ROLES = {"tester": "ran the audit", "reviewer": "checked it", "approver": "decides about the deployment"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Signatories:
    """What is known of the signatures; None is a blank line on paper."""

    tester: str | None = None
    reviewer: str | None = None
    approver: str | None = None
    system: str | None = None
    contact: str | None = None
    date: datetime.date | None = None
    review_months: int | None = None

    def name(self, role: str) -> str | None:
        """Who has a role."""
        found: str | None = getattr(self, role)
        return found

    @property
    def review(self) -> datetime.date | None:
        """The date of the next review."""
        if self.date is None or self.review_months is None:
            return None
        return months_later(self.date, self.review_months)


def signatories(audit: Audit, **given: Any) -> Signatories:
    """The signatures of an audit; `given` holds what the caller says, which counts before the plan."""
    planned = audit.resolved.get("signoff")
    known = dict(planned) if isinstance(planned, dict) else {}
    known = {key: value for key, value in known.items() if key in Signatories.__dataclass_fields__}
    said = {key: value for key, value in given.items() if value is not None}
    return Signatories(**{"date": tested_on(audit), **known, **said})


def tested_on(audit: Audit) -> datetime.date | None:
    """The day on which the results were computed."""
    try:
        return datetime.datetime.fromisoformat(audit.created).date()
    except ValueError:
        return None


def months_later(day: datetime.date, months: int) -> datetime.date:
    """The same day so many months later, or the last of that month.

    >>> months_later(datetime.date(2026, 1, 31), 1)
    datetime.date(2026, 2, 28)
    """
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return datetime.date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))
