"""The 26 rows: every system and figure of the papers, what the papers report of it, and what a name stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedleak.errors import FedleakError, did_you_mean
from fedleak.reproduce.summary import Summary, Verdict, plan_name

__all__ = ["Row", "ROWS", "chosen", "deciding", "verdict"]

_WEAKEST: Sequence[Verdict] = ("not reproduced", "direction only", "reproduced")


@dataclass(frozen=True, slots=True)
class Row:
    """One row."""

    name: str
    title: str
    paper: str  # its figures, as they are printed there
    page: str  # of docs/results, on which it is discussed


_GRADIENT_LEAKS = (
    Row(
        "G1",
        "Data, models and utility (Table 2)",
        "federated / one machine / k-NN / chance: PIPA AP 45.1 / 49.7 / 14.9 / 9.5; Blog top-5 28.0 / 28.6 / - / 0.09; "
        "Yelp MAE 0.716 / 0.576 / - / 1.472",
        "gradient-leaks.md#table-2-utility",
    ),
    Row(
        "G2",
        "Re-identification (Table 3)",
        "MLP AP, random / chronological prior: PIPA 91.0 / 42.2, OpenImages 53.7 / 32.5, Blog 52.9 / 44.8, "
        "Yelp 23.5 / 16.0; IID control about 1.5 times 1/U",
        "gradient-leaks.md#table-3-who-sent-this-update",
    ),
    Row(
        "G3",
        "Matching two updates (Table 3)",
        "AP, random / chronological prior: PIPA 99.5 / 91.2, OpenImages 98.2 / 94.8, Blog 95.3 / 91.9, "
        "Yelp 83.4 / 79.3; chance 50",
        "gradient-leaks.md#table-3-matching-are-these-two-updates-from-one-user",
    ),
    Row(
        "G4",
        "Cross-modal matching of updates and text",
        "AP 76.3, chance 50",
        "gradient-leaks.md#cross-modal-which-text-matches-this-update-fedleak-audit-gradient-leakscross-modal-writers",
    ),
    Row(
        "G5",
        "Profile prior: which clients fit?",
        "images of the clients ranked first; no figure",
        "gradient-leaks.md#profile-which-clients-fit-fedleak-audit-gradient-leaksprofile-writers",
    ),
    Row(
        "G6",
        "Priors, prior examples, labelled updates (Figures 7, 8)",
        "one prior example up to 7 times 1/U; one labelled update 3 to 22 times 1/U; random above chronological",
        "gradient-leaks.md#figure-7-how-many-prior-examples-fedleak-audit-gradient-leaksfig7-writers",
    ),
    Row(
        "G7",
        "Open world (Figure 6)",
        "re-identification 3 to 14 times 1/U as more users are seen; matching 1.5 to 1.8 times chance with none seen",
        "gradient-leaks.md#figure-6-the-adversary-knows-only-some-of-the-users-fedleak-audit-gradient-leaksfig6-writers",
    ),
    Row(
        "G8",
        "Attributes, alone and with identity (Table 4)",
        "alone 85.2 to 98.5%, with identity 0 to 3.5 points more; identity 87.6% alone, 2.5 to 4 points more",
        "gradient-leaks.md#table-4-attributes",
    ),
    Row(
        "G9",
        "Analyses: layers, stage of training, bias, distances, raw data",
        "Blog, AP by layer: embedding 15.7, LSTM 46.0, output 38.8; the stage of training has little influence",
        "gradient-leaks.md#table-5-and-figure-9-which-layer",
    ),
    Row(
        "G10",
        "Countermeasures (Figure 12)",
        "AP on OpenImages at alpha 0.5: mm-aug -75%, bkg-repl -67%, rand-aug -45%; noise and dp-fedavg cost utility",
        "countermeasures.md#figure-12-on-handwriting-fedleak-sweep-countermeasuresfig12-writers",
    ),
)
_RECORDS = (
    Row(
        "R1",
        "Exposure of a record; utility in BPC",
        "the exposure of an inserted record rises as it is memorised; BPC 1.44 (PTB)",
        "record-level.md",
    ),
    Row(
        "R2",
        "Baseline, eavesdropping, watermark; attribution (Figures 2, 3)",
        "the right client has the highest correlation; top-1 on PTB .25 / .98 / .80",
        "record-level.md",
    ),
    Row(
        "R3",
        "Top-K accuracy and edit distance (Tables I to VI)",
        "top-1, baseline / eavesdropping / watermark: PTB .25 / .98 / .80, WikiText-2 .25 / .58 / .30, "
        "enwik8 .25 / .50 / .10",
        "record-level.md",
    ),
    Row(
        "R4",
        "Insertions, local epochs, clients (Figures 4, 5)",
        "more insertions leak more, local epochs matter little, more clients leak less",
        "record-level.md",
    ),
    Row(
        "R5",
        "Countermeasures (Tables VII to XI)",
        "eavesdropping, top-1: embedding noise 0.01 .00 at BPC 3.62; embedding dropout 50% .65; adversarial .88; LSTM "
        "dropout 50% .05; DP-SGD 0.1 .03; secure aggregation no effect",
        "countermeasures.md#tables-vii-to-xi-fedleak-sweep-countermeasurestables7-11-ptb",
    ),
)
_RECONSTRUCTION = (
    Row("U1", "Client representatives", "images of a client's digits; no figure", "user-level.md"),
    Row(
        "U2",
        "mGAN-AI, passive",
        "the victim's rotation is visible in what the generator draws; inception score 1.42",
        "user-level.md",
    ),
    Row(
        "U3",
        "mGAN-AI, active",
        "the best images of all; inception score 1.61",
        "user-level.md",
    ),
    Row(
        "U4",
        "Baselines: model inversion, Hitaj's GAN",
        "no victim-specific images; inception score 1.01 and 1.18",
        "user-level.md",
    ),
    Row(
        "U5",
        "Inception score (Table IV) and side effect (Figure 10)",
        "real 1.55, passive 1.42, active 1.61, GAN 1.18, MI 1.01; side effect: passive none, active slight, GAN large",
        "user-level.md",
    ),
)
_LINKING = (
    Row(
        "L1",
        "Siamese network on representatives",
        "matching accuracy MNIST .925, AT&T .927",
        "user-level.md",
    ),
    Row(
        "L2",
        "Shadow federation for labelled pairs",
        "no client of the target is needed; matching accuracy as in Table III",
        "user-level.md",
    ),
    Row(
        "L3",
        "Algorithm 2: majority vote of three past representatives",
        "precision on adjacent rounds MNIST .995, AT&T .991",
        "user-level.md",
    ),
    Row(
        "L4",
        "Table III, Figure 6: representatives and updates",
        "matching accuracy, representatives / updates: MNIST .925 / .917, AT&T .927 / .905; precision, next round: "
        ".995 / .981, .991 / .943",
        "user-level.md",
    ),
    Row(
        "L5",
        "Linking first, then mGAN-AI",
        "expected to work as with known links; no figure",
        "user-level.md",
    ),
    Row(
        "L6",
        "Defences against linking",
        "discussed, not measured: secure aggregation and trusted execution hide updates; dynamic participation makes "
        "linking harder",
        "countermeasures.md#linking-on-mnist-fedleak-sweep-countermeasureslink-mnist",
    ),
)

ROWS: Mapping[str, Row] = {row.name: row for row in (*_GRADIENT_LEAKS, *_RECORDS, *_RECONSTRUCTION, *_LINKING)}


def chosen(name: str, summaries: Mapping[str, Summary]) -> dict[str, Summary]:
    """What NAME stands for: a row, a summary, a plan, or all plans in a folder of the shipped plans."""
    wanted = name.removeprefix("plans/").removesuffix(".toml").rstrip("/")
    row = wanted.upper()
    if row in ROWS and not any(summary.row == row for summary in summaries.values()):
        raise FedleakError(f"{row}: a row of the papers, but no summary says which plan is behind it")
    for fits in (
        lambda stem, summary: summary.row == row,
        lambda stem, summary: stem.lower() == wanted.lower(),
        lambda stem, summary: plan_name(summary) == wanted,
        lambda stem, summary: plan_name(summary).startswith(f"{wanted}/"),
    ):
        found = {stem: summary for stem, summary in summaries.items() if fits(stem, summary)}
        if found:
            return found
    plans = {plan_name(summary) for summary in summaries.values()}
    known = {*ROWS, *summaries, *plans, *(plan.split("/")[0] for plan in plans)}
    hint = did_you_mean(wanted, known)
    raise FedleakError(
        f"{name}: neither a row of the papers nor a summary or plan behind one"
        + (hint if "mean" in hint else "; `fedleak reproduce --list` shows them")
    )


def deciding(summaries: Mapping[str, Summary]) -> dict[str, Summary]:
    """The summaries of a row that decide its verdict: those of today's rules, if there are any."""
    decides = {stem: one for stem, one in summaries.items() if one.decides and one.fedleak is not None}
    return {stem: one for stem, one in decides.items() if not one.older} or decides


def verdict(summaries: Mapping[str, Summary]) -> Verdict | None:
    """The weakest verdict of those that decide; None where one of them has not been judged."""
    found = [summary.verdict for summary in deciding(summaries).values()]
    return next((weakest for weakest in _WEAKEST if weakest in found), None) if None not in found else None
