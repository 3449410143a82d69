"""Records scored per second through a trie, beside scoring one by one; and the exact best of 10^9 records.

    python benchmarks/exposure.py               trains a small LSTM and a transformer on made-up text, then measures

A model that was trained is measured, because an untrained one has no likely records and nothing to search for. Two sets
of candidates: those that a search finds (`beam`), which share most of their characters, and random ones. Contestants
take turns on one thread, and figures are medians of processor time.
`in batches` is a fair peer too: whole records, many in one forward pass. Ends with 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch

from fedleak.attacks.records.format_search import Space, likeliest
from fedleak.attacks.records.language import Language
from fedleak.attacks.records.scoring import Scores, log_probabilities
from fedleak.core import Params, Task
from fedleak.federation.engines.embedded import one_thread, tensors
from fedleak.federation.federation import Client, train
from fedleak.federation.model import Architecture, Signature
from fedleak.federation.models.char_lm import CharLm
from fedleak.federation.models.transformer import Transformer
from fedleak.plan.plan import FederationPlan
from fedleak.population.datasets.clients_text import characters, windows
from fedleak.population.population import Examples
from fedleak.population.secret_formats import Format, parse
from fedleak.population.secret_records import draw_secrets, plant

MODELS: dict[str, Architecture] = {"LSTM 128": CharLm(), "transformer 64": Transformer()}
SSN = "my social security number is {d3}-{d2}-{d4}"
TARGETS = {"beam": 10.0, "random": 5.0}
SECONDS, AGREEMENT, BEST = 1.0, 1e-4, 200


def federation(architecture: Architecture, form: Format, rounds: int) -> tuple[Language, list[Params]]:
    """Four clients with a secret each, as in the paper; their text is made of made-up words."""
    rng = np.random.default_rng(0)
    known = characters("")
    words = ["".join(rng.choice(list("etaoinshrdlu"), rng.integers(2, 9))) for _ in range(300)]
    clients = []
    for number, secret in enumerate(draw_secrets(form, 4, rng)):
        text = "\n".join(" ".join(rng.choice(words, 9)) for _ in range(60))
        x = windows(plant(text, secret, 8, "lines", rng), known, 128)
        clients.append(Client(f"d-{number}", f"user-{number}", -1, Examples(x=x)))  # type: ignore[arg-type]
    model = architecture.build(Signature(Task.NEXT_TOKEN, (128,), len(known)))
    plan = FederationPlan(rounds=rounds, fraction=0.5, batch=8, lr=0.003, optimizer="adam", clip=1.0)
    return Language(model, known), [done.weights for done in train(model, clients, plan, (), None, 0)]


def in_batches(language: Language, snapshot: Params, records: Sequence[str], size: int) -> Scores:
    """Whole records in forward passes of `size`."""
    ids = torch.from_numpy(language.encode([language.context + record for record in records]))
    weights, first = tensors(language.model, snapshot), len(language.context)
    found = []
    with torch.inference_mode():
        for start in range(0, len(ids), size):
            x = ids[start : start + size]
            logs = torch.log_softmax(language.model.forward(weights, x[None, :, :-1])[0], -1)
            found.append(logs.gather(2, x[:, 1:, None])[:, first - 1 :].double().sum((1, 2)))
    return torch.cat(found).numpy()


def seconds(work: Callable[..., object], *arguments: object) -> float:
    """Processor time: everything runs on one thread, and the clock would count what else the machine does."""
    started = time.process_time()
    work(*arguments)
    return time.process_time() - started


def measure_scoring(name: str, language: Language, snapshots: Sequence[Params], form: Format, turns: int) -> bool:
    """Compare on both sets of candidates."""
    space, met = Space(form, language), True
    beam = sorted({record for at in snapshots[-1::-20] for record in likeliest(space, at, BEST).records})
    last = snapshots[-8:]
    for kind, records in {"beam": beam, "random": draw_secrets(form, 5000, np.random.default_rng(1))}.items():
        few = records[:: max(1, len(records) // 100)]
        alone: list[float] = []
        batches: list[float] = []
        trie: list[float] = []
        for _ in range(turns):
            alone.append(seconds(in_batches, language, last[-1], few, 1) / len(few))
            batches.append(seconds(in_batches, language, last[-1], records, 256) / len(records))
            trie.append(seconds(log_probabilities, language, last, records) / len(records) / len(last))
        gap = np.abs(log_probabilities(language, last, few)[-1] - in_batches(language, last[-1], few, 1)).max()
        ours, theirs, peer = (1 / statistics.median(taken) for taken in (trie, alone, batches))
        good = ours / theirs >= TARGETS[kind] and gap <= AGREEMENT
        met &= bool(good)
        print(
            f"| {name} | {kind}, {len(records)} | {theirs:,.0f} | {peer:,.0f} | {ours:,.0f} | {ours / theirs:.1f} "
            f"| {ours / peer:.1f} | {gap:.1e} | {TARGETS[kind]:g}x: {'met' if good else 'MISSED'} |",
            flush=True,
        )
    return met


def measure_search(name: str, language: Language, snapshots: Sequence[Params], form: Format, turns: int) -> bool:
    """Find the best of the whole format at several snapshots, early ones too."""
    space, met = Space(form, language), True
    for share in (0.1, 0.25, 0.5, 0.75, 1.0):
        number = round(share * len(snapshots))
        snapshot = snapshots[number - 1]
        taken = statistics.median(seconds(likeliest, space, snapshot, BEST) for _ in range(turns))
        found = likeliest(space, snapshot, BEST)
        good = found.exact and taken < SECONDS
        met &= good or share < 0.5  # a model that has learnt little yet has no best records to be proved
        print(
            f"| {name} | {number} | {'yes' if found.exact else 'no'} | {found.read:,} | {taken:.2f} "
            f"| {found.logs[0]:.1f} to {found.logs[-1]:.1f} | {'met' if good else 'not met'} |",
            flush=True,
        )
    return met


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the scoring of records.")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    form, met = parse(SSN), True
    with one_thread():
        runs = {name: federation(architecture, form, options.rounds) for name, architecture in MODELS.items()}
        print("Records per second, one thread, 8 snapshots\n")
        print("| model | candidates | one by one | in batches | trie | x one by one | x batches | differs | target |")
        print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
        for name, (language, snapshots) in runs.items():
            met &= measure_scoring(name, language, snapshots, form, options.turns)
        print(f"\nThe best {BEST} of {form.size:,} records, one snapshot, one thread\n")
        print("| model | round | exact | beginnings read | seconds | log-probabilities | under a second, exact |")
        print("| --- | ---: | --- | ---: | ---: | --- | --- |")
        for name, (language, snapshots) in runs.items():
            met &= measure_search(name, language, snapshots, form, options.turns)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
