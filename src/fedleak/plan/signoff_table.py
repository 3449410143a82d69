"""The table [signoff]: who signs the sign-off document, and when the audit is due for review."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from msgspec import Meta

__all__ = ["SignoffPlan"]

_LONGEST = 200
Person: TypeAlias = Annotated[str, Meta(min_length=1, max_length=_LONGEST)] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SignoffPlan:
    """Who signs the document of `fedleak report --signoff`; what is absent is left blank, to be written by hand."""

    tester: Annotated[Person, Meta(description="who ran the audit")] = None
    reviewer: Annotated[Person, Meta(description="who checks the audit")] = None
    approver: Annotated[Person, Meta(description="who decides about the deployment")] = None
    system: Annotated[Person, Meta(description="the audited system and its version")] = None
    contact: Annotated[Person, Meta(description="whom to tell about an incident")] = None
    review_months: (
        Annotated[int, Meta(ge=1, le=120, description="months after which the audit is due for review")] | None
    ) = None
