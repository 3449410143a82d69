"""What is wrong with the secrets that an auditor gives: named by its place, and never by what it holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from letters import ATTACKS, PLAN, record_phones

from fedleak.errors import FedleakError, PlanError
from fedleak.pipeline.runs import facts, runs
from fedleak.pipeline.training import train_run
from fedleak.plan.read import parse

TWO = "client,secret\n0,pin 1111\n1,pin 2222\n"


@pytest.fixture(scope="session")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded run of two rounds, in which every phone takes part."""
    return record_phones(tmp_path_factory.mktemp("phones") / "run", rounds=2, present=8)


def prepare(run: Path, out: Path, text: str) -> None:
    plan = parse(text.replace('"run"', f'"{run}"') + ATTACKS)
    train_run(plan, runs(plan, out)[0], lambda units: None)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("client,secret\n98,pin 1111\n99,pin 2222\n", r"\(2 others did not, or have another name: '98'\)"),
        (TWO + "c-00000000,pin 3333\n", "row 4: .* has no client 'c-00000000'"),
        ("client,secret\n0,pin 1111\n", "1 client that took part has a secret; with fewer than two"),
        ("client,secret\n", "0 clients that took part have a secret"),
        (TWO + "2,pin 33\n", "row 4: the secret of client '2' does not fit .* it ends after 6 characters"),
        (TWO + "2,pin 33a3\n", "row 4: .* does not fit the format 'pin {d4}' .* character 7 of 8 cannot stand there"),
        (TWO + "2,pin 33333\n", "character 9 of 9 cannot stand there"),
        (TWO + "2,pin 2222\n", "row 4: client '2' has the same secret as client '1'"),
        (TWO + "0,pin 3333\n", "row 4: client '0' has a secret already .*row 2"),
        (TWO + "node-1,pin 3333\n", "row 4: client 'node-1' has a secret already"),
        (TWO + "2,pin 3333,more\n", "row 4: expected a client and a secret, got 3 columns"),
        (TWO + "2,\n", "row 4: .* one of them empty"),
        ("client,user\n0,pin 1111\n", "the first line must be client,secret"),
        ("", "the first line must be client,secret"),
    ],
)
def test_a_file_of_secrets_that_makes_no_sense_is_refused(rows: str, said: str, short: Path, tmp_path: Path) -> None:
    (tmp_path / "secrets.csv").write_text(rows)
    text = PLAN.replace("letters_app.audit:secrets", str(tmp_path / "secrets.csv"))
    with pytest.raises(FedleakError, match=said) as error:
        prepare(short, tmp_path / "out", text)
    assert "secrets.csv" in str(error.value)
    assert not any(held in str(error.value) for held in ("1111", "2222", "pin 33"))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("audit:secrets", "audit:numbers", "the secret of client '0' is int; expected one text"),
        ("audit:secrets", "audit:characters", "returned list; expected a dict {client: secret}"),
        ('"letters_app.audit:secrets"', '"nowhere.csv"', "nowhere.csv: no such file"),
        ("audit:characters", "audit:too_many", "20 characters, but the recorded model has 17 outputs"),
        ("audit:characters", "audit:numbers", "expected {character: id} with ids from 0"),
        ("pin {d4}", "pin {d}", "unknown slot {d}"),
        ("pin {d4}", "PIN {d4}", r"\[prior\] secret: 'I' 'N' 'P' is not in the alphabet"),
        ("pin {d4}", "pin\\n{d4}", r"'\\n' has the token id 0, .* given as context instead"),
        ("[model]", 'context = "> "\n[model]', r"\[prior\] context: '>' is not in the alphabet"),
        ("[model]", 'watermarks = "letters_app.audit:in_capitals"\n[model]', "the watermark of client '0' has a char"),
        ('"letters_app.task:CharNet"', '"mlp"', "cannot learn the task"),
    ],
)
def test_what_does_not_fit_the_model_or_the_format_is_named(
    old: str, new: str, said: str, short: Path, tmp_path: Path
) -> None:
    assert old in PLAN
    with pytest.raises(FedleakError, match=said):
        prepare(short, tmp_path / "out", PLAN.replace(old, new))


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        ('secrets = "letters_app.audit:secrets"\n', r"the secrets: \[truth\] secrets"),
        ('secret = "pin {d4}"\n', r"their format: \[prior\] secret"),
        ('characters = "letters_app.audit:characters"\n', r"the alphabet: \[prior\] characters"),
        ('owners = "key"\n', "does not say whose client is whose"),
    ],
)
def test_what_a_plan_does_not_say_of_the_secrets_is_named(gone: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        parse(PLAN.replace(gone, "") + ATTACKS)


def test_the_attack_of_an_insider_needs_watermarks() -> None:
    insider = PLAN.replace("eavesdropper", "insider") + '[[attack]]\nname = "watermark"\n'
    with pytest.raises(PlanError, match=r"add watermarks to \[prior\]"):
        parse(insider)


def test_decoys_need_a_format_with_room_for_them(short: Path, tmp_path: Path) -> None:
    rows = "".join(f"{phone},pin {phone}\n" for phone in range(8))
    (tmp_path / "secrets.csv").write_text("client,secret\n" + rows)
    text = PLAN.replace("letters_app.audit:secrets", str(tmp_path / "secrets.csv")).replace("{d4}", "{d1}")
    with pytest.raises(PlanError, match=r"secrets \(8\), but the format 'pin {d1}' has 10 in all"):
        prepare(short, tmp_path / "out", text)
    prepare(short, tmp_path / "out", text.replace('"decoys", ', ""))


def test_owners_who_never_took_part_are_left_out_and_said(short: Path, tmp_path: Path) -> None:
    (tmp_path / "secrets.csv").write_text(TWO + "phone 77,pin 3333\n")
    owners = "".join(f"{n},user {n}\n" for n in range(8))
    (tmp_path / "owners.csv").write_text(f"client,user\n{owners}phone 77,z\n")
    text = PLAN.replace("letters_app.audit:secrets", str(tmp_path / "secrets.csv"))
    text = text.replace('"key"', f'"{tmp_path / "owners.csv"}"').replace('"run"', f'"{short}"') + ATTACKS
    plan = parse(text)
    [plain, *_] = runs(plan, tmp_path / "out")
    train_run(plan, plain, lambda units: None)
    found = facts(plain)
    assert found is not None
    told = " ".join(finding.text for finding in found.findings)
    assert "1 client with a secret never took part" in told and "3333" not in told
    # Whom neither the run nor the owners know is a mistake.
    (tmp_path / "secrets.csv").write_text(TWO + "phone 78,pin 3333\n")
    with pytest.raises(FedleakError, match=r"row 4: .* has no client 'phone 78'"):
        train_run(plan, runs(plan, tmp_path / "other")[0], lambda units: None)
    # Another file is another audit.
    (tmp_path / "secrets.csv").write_text(TWO)
    with pytest.raises(FedleakError, match="a file about its clients has changed"):
        facts(runs(parse(text), tmp_path / "out")[0])
