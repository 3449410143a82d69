"""Secrets in the data of a recorded run: found by attacks that never see them, and by nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from curious import ReadsTheSecrets
from letters import ATTACKS, PLAN, record_phones
from letters_app.data import PHONES, pin, received
from letters_app.task import ALPHABET, CharNet, Wider

from fedleak.api import Result, audit
from fedleak.attacks.records.language import Language
from fedleak.attacks.records.scoring import log_probabilities
from fedleak.cli.main import cli
from fedleak.core import Task
from fedleak.errors import AttackError, DataError, NotVisible
from fedleak.federation.model import Signature
from fedleak.federation.models.own import Own
from fedleak.games.extract import RecordQuestions
from fedleak.lazy import torch
from fedleak.pipeline.attack_runner import build_questions, predict
from fedleak.pipeline.runs import runs
from fedleak.pipeline.training import train_run
from fedleak.plan.plan import Plan
from fedleak.plan.read import parse
from fedleak.results.audit import Score
from fedleak.trace.prior import Prior
from fedleak.trace.truth import Truth
from fedleak.views.export import export_view

QUICK = PLAN.replace('controls = ["decoys", "shuffled-selection", "swapped-secrets"]', "controls = []")


@pytest.fixture(scope="session")
def phones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded run of eight phones."""
    return record_phones(tmp_path_factory.mktemp("phones") / "run")


@pytest.fixture(scope="session")
def searched(phones: Path) -> Result:
    """Its audit."""
    return audit(plan_of(phones, PLAN + ATTACKS), phones.parent / "out", jobs=1)


def plan_of(run: Path, text: str) -> Plan:
    return parse(text.replace('"run"', f'"{run}"'))


def score(result: Result, attack: str, metric: str, control: str | None = None) -> Score:
    [found] = [s for s in result.scores if (s.attack, s.metric, s.control) == (attack, metric, control)]
    return found


def test_secrets_are_extracted_and_attributed_and_the_controls_show_nothing(searched: Result) -> None:
    whose = score(searched, "eavesdrop", "top1")
    assert whose.leaks and whose.value >= 0.5 and whose.options == 10_000
    # The final model alone shows what was memorised, and cannot show whose it is.
    assert score(searched, "exposure-baseline", "extracted").leaks
    assert not score(searched, "exposure-baseline", "top1").leaks
    # By luck a control hits one of eight now and then, hardly ever three.
    for attack in ("eavesdrop", "exposure-baseline"):
        for control in ("decoys", "shuffled-selection", "swapped-secrets"):
            null = score(searched, attack, "top1", control)
            assert null.value <= 0.25 and not null.leaks
        assert score(searched, attack, "extracted", "decoys").value <= 0.25
    assert all("Landlock" in how for how in searched.audit.isolation.values()), searched.audit.isolation


def test_no_secret_is_in_anything_that_is_shown_or_given_to_an_attack(phones: Path, searched: Result) -> None:
    held = [pin(phone).encode() for phone in range(PHONES)]
    # Where secrets are: the truth; and where extracted ones are, spelt in token ids: the predictions.
    files = [path for path in searched.folder.rglob("*") if path.is_file()]
    assert {path.parent.name for path in files if any(secret in path.read_bytes() for secret in held)} == {"truth"}
    plan = plan_of(phones, PLAN + ATTACKS)
    [plain, *_] = runs(plan, searched.folder)
    for _, game, adversary in plain.variant.plays(plan):
        given = build_questions(plain, game)
        view, questions = given.look(plain.folder / "trace", adversary)
        folder = phones.parent / f"view-{adversary.name}-{len(list(phones.parent.iterdir()))}"
        told = repr((export_view(view, folder), questions, given.prior))
        assert "pin {d4}" in told and not any(secret.decode() in told for secret in held)
        shown = b"".join(path.read_bytes() for path in folder.iterdir())
        assert shown and not any(secret in shown for secret in held)


def test_an_attack_cannot_import_the_module_that_names_the_secrets(tmp_path: Path) -> None:
    plan = plan_of(record_phones(tmp_path / "run", rounds=3), QUICK + ATTACKS)
    [plain] = runs(plan, tmp_path / "out")
    train_run(plan, plain, lambda units: None)
    [(_, game, adversary), *_] = plain.variant.plays(plan)
    with pytest.raises(AttackError, match=r"No module named 'letters_app\.audit'"):
        predict(plain, ReadsTheSecrets(), game, adversary, build_questions(plain, game))


def test_the_stronger_attack_and_the_insider_work_too(phones: Path, tmp_path: Path) -> None:
    text = QUICK.replace('["eavesdropper"]', '["eavesdropper", "insider"]')
    text = text.replace("[model]", 'watermarks = "letters_app.audit:watermarks"\n[model]')
    text += '[[attack]]\nname = "eavesdrop-strong"\nsnapshots = 5\nwidth = 5\n[[attack]]\nname = "watermark"\n'
    result = audit(plan_of(phones, text), tmp_path / "out", jobs=1)
    for attack in ("eavesdrop-strong", "watermark"):
        assert score(result, attack, "top1").leaks and score(result, attack, "top1").value >= 0.375
    assert "8 clients trained on a record that the adversary had sent there." in [f.text for f in result.audit.findings]
    # Only the insider has the watermarks.
    plan = plan_of(phones, text)
    [plain] = runs(plan, tmp_path / "out")
    (_, game, eavesdropper), (_, _, insider) = plain.variant.plays(plan)
    given = build_questions(plain, game)
    mine, _ = given.look(plain.folder / "trace", insider)
    assert sorted(mine.injected.values()) == sorted(received(phone) for phone in range(PHONES))
    with pytest.raises(NotVisible):
        given.look(plain.folder / "trace", eavesdropper)[0].injected  # noqa: B018


def test_sums_and_a_padded_model_are_enough(tmp_path: Path) -> None:
    run = record_phones(tmp_path / "run", net=Wider, sums=True)
    text = QUICK.replace("CharNet", "Wider").replace("audit:characters", "audit:by_character")
    result = audit(plan_of(run, text + '[[attack]]\nname = "eavesdrop"\n'), tmp_path / "out", jobs=1)
    assert score(result, "eavesdrop", "top1").leaks
    known = Prior.load(tmp_path / "out/runs/plain/seed-0/prior").records
    assert known is not None and known.characters == (*ALPHABET, *(f"<{n}>" for n in range(17, 24)))


def test_a_restarted_client_is_asked_about_once(tmp_path: Path) -> None:
    run = record_phones(tmp_path / "run", rounds=8, present=PHONES, restarted=(3, 5))
    plan = plan_of(run, QUICK + ATTACKS)
    [plain] = runs(plan, tmp_path / "out")
    train_run(plan, plain, lambda units: None)
    truth = Truth.load(plain.folder / "truth")
    assert len(truth.client_user) == PHONES + 1 and len(truth.secrets) == PHONES
    [(_, game, _), *_] = plain.variant.plays(plan)
    asked = build_questions(plain, game).questions
    assert isinstance(asked, RecordQuestions)
    users = [truth.client_user[client] for client in asked.clients]
    assert sorted(users) == [str(phone) for phone in range(PHONES)]
    lines = [line.split('"') for line in (run / "key" / "clients.jsonl").read_text().splitlines()]
    names = {words[7]: words[3] for words in lines}  # node -> client
    assert names["node-3"] in asked.clients and names["node-3-again"] not in asked.clients  # five rounds, and three


def test_a_model_that_takes_whole_texts_reads_them_character_by_character() -> None:
    signature = Signature(Task.NEXT_TOKEN, (9,), len(ALPHABET))
    model = Own(target="letters_app.task:CharNet").imitated(signature)
    snapshots = [model.init(np.random.default_rng(seed)) for seed in (1, 2)]
    texts = ["pin 0042", "pin 0043", "ab"]
    found = log_probabilities(Language(model, tuple(ALPHABET)), snapshots, texts)
    for row, weights in zip(found, snapshots, strict=True):
        module = model.load(weights)
        assert isinstance(module, CharNet)
        for value, text in zip(row, texts, strict=True):
            ids = torch.tensor([[ALPHABET.index(character) for character in "\n" + text]])
            with torch.no_grad():
                logs = module(ids[:, :-1]).log_softmax(-1)
            assert value == pytest.approx(float(logs.gather(2, ids[:, 1:, None]).sum()), abs=1e-4)


def test_a_population_with_secrets_says_the_same_as_the_three_keys(tmp_path: Path) -> None:
    run = record_phones(tmp_path / "run", rounds=2, present=PHONES)
    keys = (
        'secrets = "letters_app.audit:secrets"',
        'secret = "pin {d4}"',
        'characters = "letters_app.audit:characters"',
    )
    whole = QUICK.replace(keys[0], 'data = "letters_app.audit:population"').replace(keys[1], "").replace(keys[2], "")
    answers = []
    for name, text in (("keys", QUICK), ("whole", whole)):
        plan = plan_of(run, text + ATTACKS)
        [plain] = runs(plan, tmp_path / name)
        train_run(plan, plain, lambda units: None)
        [(_, game, _), *_] = plain.variant.plays(plan)
        answers.append(build_questions(plain, game))
    assert np.array_equal(answers[0].answers.right, answers[1].answers.right)
    assert isinstance(answers[0].questions, RecordQuestions) and len(answers[0].questions) == PHONES
    (tmp_path / "plan.toml").write_text(whole.replace('"run"', f'"{run}"') + ATTACKS)
    said = CliRunner().invoke(cli, ["trace", "check", str(run), "--plan", str(tmp_path / "plan.toml")]).output
    assert "eavesdrop            extract        can be run as eavesdropper" in said
    both = QUICK.replace(keys[0], f'{keys[0]}\ndata = "letters_app.audit:population"')
    with pytest.raises(DataError, match="both secrets and data say"):
        train_run(plan_of(run, both + ATTACKS), runs(plan_of(run, both + ATTACKS), tmp_path)[0], lambda units: None)
