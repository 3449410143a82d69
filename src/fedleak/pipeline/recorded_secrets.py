"""The secrets in a recorded run's data: what the auditor knows of them, and the little of it that is public."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedleak.core import UserId, counted, rng_for
from fedleak.errors import DataError, PlanError, TraceError
from fedleak.plan.code import is_code
from fedleak.plan.plan import Plan
from fedleak.population.data_quality import Finding
from fedleak.population.datasets.own import call
from fedleak.population.population import Records
from fedleak.population.secret_formats import Format, parse
from fedleak.population.secret_records import draw_secrets
from fedleak.record.owners import Owners
from fedleak.record.planted import Planted, planted_of
from fedleak.record.recording import Recording

__all__ = ["RecordedSecrets", "recorded_secrets"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSecrets:
    """Who holds which secret, and what the adversary knows."""

    records: Records  # public: the format, the alphabet, the text before a secret
    secrets: Mapping[str, str]  # by pseudonym
    decoys: Mapping[str, str]  # the same number, of the same format, in nobody's data
    watermarks: Mapping[str, str]  # by pseudonym; what the adversary got into clients' data
    findings: tuple[Finding, ...]

    @property
    def form(self) -> Format:
        """The format of a secret."""
        return parse(self.records.form, self.records.words)

    def public(self, outputs: int) -> Records:
        """What the adversary is given, with a name for every output of the model.

        Models are often made a little wider than their alphabet; what has no character is in no record.
        """
        known = self.records.characters
        if len(known) > outputs:
            raise PlanError(
                f"[prior] characters: {len(known)} characters, but the recorded model has {outputs} outputs; give the "
                "alphabet that the run was trained with, a character for each token id"
            )
        return replace(self.records, characters=(*known, *(f"<{n}>" for n in range(len(known), outputs))))

    def of_users(
        self, client_user: Mapping[str, UserId]
    ) -> tuple[dict[UserId, tuple[str, ...]], dict[UserId, tuple[str, ...]]]:
        """Secrets and decoys of the users behind clients; a user with two secrets cannot be asked for one."""
        secrets: dict[UserId, tuple[str, ...]] = {}
        decoys: dict[UserId, tuple[str, ...]] = {}
        for client, secret in self.secrets.items():
            if (user := client_user.get(client)) is None:
                continue
            if secrets.setdefault(user, (secret,)) != (secret,):
                raise TraceError(
                    f"[truth] secrets: two clients of user '{user}' have different secrets, and one is asked for; keep "
                    "one of them"
                )
            if client in self.decoys:
                decoys.setdefault(user, (self.decoys[client],))
        return secrets, decoys


def recorded_secrets(plan: Plan, recording: Recording, owners: Owners | None) -> RecordedSecrets | None:
    """Read what the plan says of secrets, or say what is wrong with it; None where it says nothing."""
    truth, prior = plan.truth, plan.prior
    if truth.secrets is None or prior.secret is None or prior.characters is None:
        return None
    try:
        form = parse(prior.secret, prior.words)
    except PlanError as error:
        raise PlanError(f"{plan.source} [prior] {error}") from None
    characters = _characters(call(prior.characters), prior.characters)
    _check_spelling(form, prior.context, characters, plan.source)
    absent = None if owners is None or truth.owners == "key" else owners.absent
    found, idle = _read(recording, truth.secrets, "secret", absent)
    _check_secrets(found, form)
    findings = []
    if idle:
        text = f"{counted(len(idle), 'client')} with a secret never took part in the recorded run."
        users = [[name] for name in idle]
        findings.append(Finding(kind="owners", count=len(idle), action="drop", text=text, users=users))
    if len(found) < 2:
        raise TraceError(
            f"{truth.secrets}: {counted(len(found), 'client')} that took part {'has' if len(found) == 1 else 'have'} a "
            f"secret{_unknown(idle)}; with fewer than two nobody can ask whose it is. Give the secrets of more clients"
        )
    watermarks = _watermarks(plan, recording, absent, characters)
    if watermarks:
        text = f"{counted(len(watermarks), 'client')} trained on a record that the adversary had sent there."
        findings.append(Finding(kind="injected", count=len(watermarks), action="keep", text=text))
    return RecordedSecrets(
        records=Records(form=prior.secret, words=prior.words, characters=characters, context=prior.context),
        secrets={client: one.record for one in found for client in one.clients},
        decoys=_decoys(plan, recording, form, found),
        watermarks=watermarks,
        findings=tuple(findings),
    )


def _unknown(idle: Sequence[str]) -> str:
    return f" ({counted(len(idle), 'other')} did not, or have another name: '{idle[0]}')" if idle else ""


def _read(
    recording: Recording, named: str, column: str, absent: Sequence[str] | None
) -> tuple[list[Planted], list[str]]:
    told = call(named) if is_code(named) else None
    if is_code(named) and told is None:
        raise DataError(f"{named} returned None; expected a dict {{client: {column}}}")
    return planted_of(recording, named, column, absent, told)


def _characters(told: Any, named: str) -> tuple[str, ...]:
    """The character of each token id."""
    if isinstance(told, Mapping):
        ids = list(told.values())
        if not all(isinstance(number, int) and 0 <= number < 2**20 for number in ids) or len(set(ids)) < len(ids):
            raise DataError(f"{named}: expected {{character: id}} with ids from 0, each once")
        by_id = {number: character for character, number in told.items()}
        told = [by_id.get(number, f"<{number}>") for number in range(max(ids, default=-1) + 1)]
    if not isinstance(told, (str, list, tuple)) or not all(isinstance(one, str) and one for one in told):
        raise DataError(f"{named}: expected the character of each token id, as a list of texts or {{character: id}}")
    known = tuple(told)
    twice = next((one for place, one in enumerate(known) if one in known[:place]), None)
    if twice is not None or len(known) < 2:
        what = f"{twice!r} stands for two token ids" if twice is not None else f"{len(known)} characters"
        raise DataError(f"{named}: {what}; give every token id a character of its own")
    return known


def _check_spelling(form: Format, context: str, characters: Sequence[str], source: str) -> None:
    """Reject text that the model cannot read, and a format with the token that marks the end of a record."""
    for key, text in (("secret", sorted(form.alphabet)), ("context", sorted(set(context)))):
        strange = [repr(one) for one in text if one not in characters]
        if strange:
            raise PlanError(
                f"{source} [prior] {key}: {' '.join(strange[:8])} is not in the alphabet of [prior] characters, so the "
                "model cannot have read it; write it as the clients' data is written"
            )
    if characters[0] in form.alphabet:
        raise PlanError(
            f"{source} [prior] secret: {characters[0]!r} has the token id 0, which here marks the end of a record; "
            "keep it out of the format: the text before the first slot can be given as context instead"
        )


def _check_secrets(found: Sequence[Planted], form: Format) -> None:
    holder: dict[str, Planted] = {}
    for one in found:
        if one.record not in form:
            raise TraceError(
                f"{one.where}: the secret of client '{one.client}' does not fit the format '{form.text}' of [prior] "
                f"secret: {_departure(one.record, form)}. Correct the secret or the format"
            )
        other = holder.setdefault(one.record, one)
        if other is not one:
            raise TraceError(
                f"{one.where}: client '{one.client}' has the same secret as client '{other.client}', so nobody can ask "
                "whose it is; leave out one of them"
            )


def _departure(record: str, form: Format) -> str:
    """Where a text leaves a format, without what it holds."""
    state = 0
    for place, character in enumerate(record, 1):
        if character not in form.steps[state]:
            return f"character {place} of {len(record)} cannot stand there"
        state = form.steps[state][character]
    return f"it ends after {counted(len(record), 'character')}, where more must follow"


def _decoys(plan: Plan, recording: Recording, form: Format, found: Sequence[Planted]) -> dict[str, str]:
    """A record for each secret, drawn by a seed that only the key gives; none where the format has too few."""
    held = {one.record for one in found}
    if form.size < 2 * len(held):
        if "decoys" in plan.audit.controls:
            raise PlanError(
                f"{plan.source} [audit] controls: 'decoys' needs as many records that nobody holds as there are "
                f"secrets ({len(held)}), but the format '{form.text}' has {form.size} in all; remove the control"
            )
        return {}
    drawn = draw_secrets(form, 2 * len(held), rng_for(recording.seed, "decoys"))
    free = iter([record for record in drawn if record not in held])
    return {client: decoy for one in found for decoy in [next(free)] for client in one.clients}


def _watermarks(
    plan: Plan, recording: Recording, absent: Sequence[str] | None, characters: Sequence[str]
) -> dict[str, str]:
    if plan.prior.watermarks is None:
        return {}
    found, _ = _read(recording, plan.prior.watermarks, "watermark", absent)
    for one in found:
        if not set(one.record) <= set(characters[1:]):
            raise TraceError(
                f"{one.where}: the watermark of client '{one.client}' has a character that is not in the alphabet of "
                "[prior] characters, or has the token id 0; give it as it is in the client's data"
            )
    if not found:
        raise TraceError(f"{plan.prior.watermarks}: no client that took part has a watermark; give one at least")
    return {client: one.record for one in found for client in one.clients}
