"""Does the identity head of mGAN-AI, trained on representatives alone, know the victim's angle on real digits?

    python benchmarks/identity_head.py [--out FOLDER]

One factor at a time, without a generator (docs/results/user-level.md): the discriminator is overwritten by the victim's
model in every round or kept, and sees the representatives of the round or of all rounds so far. Printed is, for each
victim, the AUC of other people's digits of the victim's classes: those at its angle against those at another. About two
minutes of CPU.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from scipy.stats import rankdata

from fedleak.attacks.reconstruct.discriminator import Discriminator
from fedleak.attacks.reconstruct.mgan import _should
from fedleak.attacks.reconstruct.representatives import PaperInversion
from fedleak.attacks.reconstruct.victim_context import Portraits, Scene
from fedleak.core import FloatArray
from fedleak.pipeline import stages
from fedleak.pipeline.attack_runner import build_questions
from fedleak.pipeline.runs import runs
from fedleak.plan import shipped
from fedleak.plan.read import load_plan, parse
from fedleak.trace.truth import Truth
from fedleak.views.adversaries import SERVER

SEED, STEPS, BATCH = 20, 50, 32
FACTORS = (  # overwritten, representatives of the round alone, learning rate
    (True, True, 2e-4),
    (True, True, 1e-3),
    (True, False, 1e-3),
    (False, True, 1e-3),
)


class Silent:
    """Progress that nobody watches."""

    def stage(self, text: str, units: float) -> None: ...

    def tick(self, units: float) -> None: ...


def trained(
    scene: Scene,
    victim: int,
    portraits: Portraits,
    overwritten: bool,
    alone: bool,
    rate: float,
    rng: np.random.Generator,
) -> Discriminator:
    """A discriminator that has learnt to tell the victim's representatives from the others'."""
    critic = Discriminator(scene.view, np.random.default_rng(2))
    adam = torch.optim.Adam(critic.weights.values(), rate, (0.5, 0.999))
    rows = dict(zip(scene.view.updates.round[scene.rows(victim)].tolist(), scene.rows(victim).tolist(), strict=True))
    for number in range(1, scene.view.rounds + 1):
        if overwritten or number == 1:
            critic.begin(scene.local(rows[number]))
        seen = (portraits.round == number) if alone else (portraits.round <= number)
        mine = torch.from_numpy(portraits.images[seen & (portraits.who == victim)])
        others = torch.from_numpy(portraits.images[seen & (portraits.who != victim)])
        for _ in range(int(STEPS * (1 + (number - 1) / (scene.view.rounds - 1)))):
            one, other = (torch.from_numpy(rng.integers(len(part), size=BATCH)) for part in (mine, others))
            identity = critic(torch.cat([mine[one], others[other]]))[2]
            adam.zero_grad()
            torch.autograd.backward(_should(identity[:BATCH], 1.0) + _should(identity[BATCH:], 0.0))
            adam.step()
    return critic


def auc(right: FloatArray, wrong: FloatArray) -> float:
    ranks = rankdata(np.concatenate([right, wrong]))[: len(right)]
    return float((ranks.sum() - len(right) * (len(right) + 1) / 2) / len(right) / len(wrong))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder of the federation; default: a temporary one")
    out = parser.parse_args().out or Path(tempfile.mkdtemp())
    torch.set_num_threads(1)
    shown = load_plan(shipped.folder() / "user-level/reconstruct-weighted.toml")
    plan = parse(shown.text, shown.source, {"seeds": [SEED]})
    stages.train(plan, out, Silent(), 1)
    [run] = runs(plan, out)
    given = build_questions(run, plan.games[0])
    view, questions = given.look(run.attacked / "trace", SERVER)
    scene, evidence = Scene(view, questions), Truth.load(run.attacked / "truth").evidence
    assert evidence is not None
    strangers = evidence.bystanders
    portraits = scene.portraits(PaperInversion(iterations=30), range(1, view.rounds + 1), np.random.default_rng(1))
    rng = np.random.default_rng(0)
    for overwritten, alone, rate in FACTORS:
        found = []
        for place, victim in enumerate(scene.victims):
            critic = trained(scene, victim, portraits, overwritten, alone, rate, rng)
            angle = given.answers.judged[1 + given.answers.right[place]]
            scores: dict[bool, list[FloatArray]] = {True: [], False: []}
            for examples, about in zip(strangers.examples, strangers.attributes, strict=True):
                kept = np.isin(np.asarray(examples.y), scene.classes(victim))
                if kept.any():
                    with torch.no_grad():
                        logits = critic(torch.from_numpy(examples.x[kept].astype(np.float32)))[2].numpy()
                    scores[about["rotation"] == angle].append(logits)
            found.append(f"{angle} degrees {auc(np.concatenate(scores[True]), np.concatenate(scores[False])):.2f}")
        kind = "overwritten" if overwritten else "kept", "of the round" if alone else "of all rounds so far"
        print(f"D {kind[0]}, representatives {kind[1]}, rate {rate:g}: {', '.join(found)}", flush=True)


if __name__ == "__main__":
    main()
