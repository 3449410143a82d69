"""What is special about `mgan-weighted` and `mgan-linked-paper`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedleak.attacks.context import AttackContext
from fedleak.attacks.link.siamese import LinkRepresentatives
from fedleak.attacks.reconstruct.linked import MganLinkedPaper
from fedleak.attacks.reconstruct.weighted import MganWeighted, _Auxiliary
from fedleak.core import Observation, rng_for
from fedleak.games.reconstruct import ImageQuestions, Reconstruct
from fedleak.games.traces.portraits import write_images
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth
from fedleak.views.adversaries import ANONYMOUS_SERVER, SERVER, Adversary
from fedleak.views.view import View


def look(folder: Path, adversary: Adversary) -> tuple[View, Prior, ImageQuestions]:
    trace, truth, prior = Trace.open(folder / "trace"), Truth.load(folder / "truth"), Prior.load(folder / "prior")
    asked = Reconstruct(victims=3, samples=4).ask(trace, truth, prior, rng_for(3, "game"))
    view, questions = asked.look(trace.folder, adversary)
    assert isinstance(questions, ImageQuestions)
    return view, asked.prior, questions


def test_auxiliary_images_are_weighted_within_their_class() -> None:
    auxiliary = _Auxiliary(np.zeros((6, 1, 2, 2), dtype=np.float32), np.array([0, 0, 0, 0, 1, 1]))
    auxiliary.weigh(np.array([0.9, 0.1, 0.0, 0.0, 0.01, 0.03]))
    assert np.allclose(auxiliary.share, [0.6, 0.2 / 3, 0, 0, 1 / 12, 1 / 4])
    assert set(auxiliary.draw(50, rng_for(0))[1].tolist()) == {0, 1}


def test_without_the_identity_task_no_update_of_the_victim_is_used(tmp_path: Path) -> None:
    view, prior, questions = look(write_images(tmp_path, 0, leak=True), SERVER)
    quick = {"pretraining": 2, "steps": 1, "rounds": 1, "iterations": 1, "width": 0.05, "batch": 4}
    drawn = {
        identity: MganWeighted(identity=identity, **quick).run(view, prior, questions, AttackContext(rng_for(0)))  # type: ignore[arg-type]
        for identity in (True, False)
    }
    assert np.asarray(drawn[True]).shape == (3, 4, 1, 8, 8)
    assert not np.array_equal(drawn[True], drawn[False])


def test_anonymous_updates_get_identities_by_the_papers_vote(tmp_path: Path) -> None:
    folder = write_images(tmp_path, 0, leak=True)
    view, prior, questions = look(folder, ANONYMOUS_SERVER)
    assert Observation.LINKS not in MganLinkedPaper.needs
    attack = MganLinkedPaper(shadows=8)
    scene = attack.scene(view, prior, questions, rng_for(0))
    first = view.updates.round == 1
    assert len(set(scene.handle[first].tolist())) == first.sum(), "every update of the first round is an identity"
    for row in questions.updates:
        same = (scene.handle == scene.handle[row]) & (view.updates.round == view.updates.round[row])
        assert same.sum() == 1, "the update that is asked about has no twin in its round"
    assert LinkRepresentatives.k == attack.k == 3
