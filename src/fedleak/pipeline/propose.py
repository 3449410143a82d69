"""Look at data, and propose a plan for it: a table, a folder of images, or a recorded run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Protocol

from PIL import Image

from fedleak.core import counted
from fedleak.errors import DataError, PlanError
from fedleak.pipeline.first_plan import Choice, FirstPlan, federation_like, title_of
from fedleak.pipeline.trace_facts import facts_of, open_folder
from fedleak.plan.toml_text import toml_value
from fedleak.population.datasets.image_files import ENDINGS
from fedleak.population.datasets.rows import KINDS
from fedleak.population.look import Guess, look_at_table

__all__ = ["Ask", "propose"]

_OFTEN = 20  # clients of a run, with fewer of which there may be no verdict
_SIDES = (8, 16, 32, 64)  # pixels
_DEFENCE = (
    "Defences to compare: each is one more federation to train. `fedleak sweep` tries several strengths.",
    'For an epsilon, also set weighting = "equal" in [federation]: counts of examples are not protected by the noise.',
    "[[defence]]",
    'name = "dp-fedavg"',
    "clip = 0.5",
    "noise = 0.3",
)


class Ask(Protocol):
    """Settles one choice: from a flag, from a guess that is sure, or by asking."""

    def __call__(self, flag: str, question: str, guess: Guess, among: Sequence[str] | None = None) -> str | None:
        """The value of a choice; None where there is none. `among` are the possible ones."""
        ...


def propose(path: Path, ask: Ask) -> FirstPlan:
    """Look at what is there."""
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    if not path.is_dir():
        return _table(path, ask)
    if (path / "trace").is_dir() or (path / "header.json").is_file():
        return _recorded(path, ask)
    return _images(path, ask)


def _table(path: Path, ask: Ask) -> FirstPlan:
    look = look_at_table(path)
    names = list(look.columns)
    user = ask("user", "Which column says whose row it is?", look.user(), names)
    if user is None:
        raise PlanError(f"{path}: no column says whose row it is; name it with --user")
    time = ask("time", "Which column says when?", look.time([user]), names)
    taken = [name for name in (user, time) if name is not None]
    text = ask("text", "Which column holds what users wrote?", look.text(taken), names)
    taken += [text] if text else []
    label = ask("label", "Which column shall the model predict?", look.label(user, taken, text=text is not None), names)
    guess = look.task(label, text=text is not None)
    task = ask("task", "What shall the model learn?", guess, ["classify", "next-token", "regress"])
    if task == "next-token":
        label = None
    taken += [label] if label else []
    document = look.document(user, taken)
    attributes = look.attributes(user, [*taken, document.value or ""])
    dataset = {
        "name": Choice("table"),
        "path": Choice(str(path), f"{look.rows} rows; relative to the folder in which you start fedleak"),
        "task": Choice(task, guess.why if task == guess.value else ""),
        "user": Choice(user, look.columns[user].shown),
    }
    if look.decimal == "comma":
        dataset["decimal"] = Choice("comma", "numbers are written like 1,5")
    notes: list[str] = []
    required = [name for name in (user, label, text) if name]
    if text is None:
        used = [*taken, *attributes, *filter(None, [document.value])]
        features, left = look.features(used)
        if not features:
            raise PlanError(f"{path}: no column of numbers is left for features, and none holds text; name it: --text")
        dataset["features"] = Choice(features, f"{counted(len(features), 'column')} of numbers")
        notes += [f"column '{name}' is not used: {why}" for name, why in left.items()]
        missing = look.missing(features, required)
    else:
        dataset["text"] = Choice(text, f"{look.columns[text].words:.0f} words on average")
        missing = look.missing([], required)
    if label is not None:
        dataset["label"] = Choice(label, look.columns[label].shown)
    if time is not None:
        dataset["time"] = Choice(time)
    if document.value is not None:
        dataset["document"] = Choice(document.value, document.why)
    if attributes:
        dataset["attributes"] = Choice(attributes, "the same in all rows of a user; for attacks on attributes")
    if missing.value is not None:
        dataset["missing"] = Choice(missing.value, missing.why)
    users = look.columns[user].distinct
    population, federation = federation_like(users, text=task == "next-token")
    undated = [] if time is not None else look.undated([user])
    population["prior"] = _prior(ask, timed=time is not None, undated=undated)
    model = "mlp" if text is None else "rating" if task == "regress" else "word-lm"
    tables = {"dataset": dataset, "population": population, "model": {"name": Choice(model)}, "federation": federation}
    notes += [
        f"column '{name}' is named like a time but holds no dates; to divide the data by it, write it as dates or years"
        for name in undated
    ]
    notes += _few(users)
    return FirstPlan(
        title=title_of(path, users),
        tables=tables,
        attacks=_attacks(labels=task != "regress"),
        notes=notes,
        optional=(*_DEFENCE, *(_on_attribute(attributes[0]) if attributes else ())),
    )


def _prior(ask: Ask, *, timed: bool, undated: Sequence[str] = ()) -> Choice:
    """What the adversary knows already: nobody but the user can say."""
    if not timed:
        why = "no column holds dates" if undated else "there are no times to go by"
        random = Guess("random", f"a random half of each user's data: {why}")
        if ask("prior", "What does the adversary have of each user already?", random, ["chrono", "random"]) == "chrono":
            raise PlanError("--prior chrono needs times; name a column of dates with --time, or take --prior random")
        return Choice("random", f"the adversary knows a random half of each user's data; {why}")
    guess = Guess("chrono", "there are times: the older half of each user's data, or a random half", sure=False)
    chosen = ask("prior", "What does the adversary have of each user already?", guess, ["chrono", "random"])
    told = {"chrono": "the adversary knows the older half of each user's data"}
    return Choice(chosen, told.get(chosen or "", "the adversary knows a random half of each user's data"))


def _few(users: int) -> list[str]:
    if users >= _OFTEN:
        return []
    return [f"{counted(users, 'user')} are few: intervals will be wide, and there may be no verdict"]


def _attacks(*, labels: bool = True) -> list[dict[str, Choice]]:
    attacks = [{"name": Choice("reid-strong", "whose update is it? the strongest attack of an honest server")}]
    if labels:
        attacks.append({"name": Choice("reid-labels", "the same from label counts alone, to compare with")})
    return attacks


def _on_attribute(name: str) -> tuple[str, ...]:
    """An attack on an attribute of users."""
    return (
        "",
        "Can the attribute of a user be told from their updates?",
        "[[attack]]",
        'name = "attribute-mlp"',
        "[[game]]",
        'name = "attribute"',
        f"attribute = {toml_value(name)}",
    )


def _images(path: Path, ask: Ask) -> FirstPlan:
    users = sorted(entry for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    files = [file for user in users for file in sorted(user.rglob("*")) if file.suffix.lower() in ENDINGS]
    if not users or not files:
        tables = [entry.name for entry in path.iterdir() if entry.suffix.lower() in KINDS]
        other = f"; did you mean the file {path / sorted(tables)[0]}?" if tables else ""
        raise DataError(
            f"{path}: neither a recorded run (trace/) nor images in a folder per user (<user>/<class>/image.png){other}"
        )
    sample = files[:: max(1, len(files) // 50)]
    sides, coloured = zip(*(_image(file) for file in sample), strict=True)
    side = median(sides)
    size = min(_SIDES, key=lambda pixels: abs(pixels - min(side, 32)))
    timed = "time" in _header(path / "labels.csv")
    population, federation = federation_like(len(users), text=False)
    population["prior"] = _prior(ask, timed=timed)
    colour = sum(coloured) > len(coloured) / 2
    dataset = {
        "name": Choice("image-folder"),
        "path": Choice(str(path), f"{len(files)} images of {len(users)} users"),
        "size": Choice(size, f"pixels; the images have {side:.0f} (median of the shorter side)"),
        "colour": Choice(colour, "most images are in colour" if colour else "most images are shades of grey"),
    }
    return FirstPlan(
        title=title_of(path, len(users)),
        tables={
            "dataset": dataset,
            "population": population,
            "model": {"name": Choice("cnn")},
            "federation": federation,
        },
        attacks=_attacks(),
        notes=_few(len(users)),
        optional=_DEFENCE,
    )


def _image(file: Path) -> tuple[int, bool]:
    """The shorter side of an image, and whether it has colours."""
    try:
        with Image.open(file, formats=("PNG", "JPEG", "PPM")) as opened:
            if opened.mode in ("L", "1", "I", "I;16", "F"):
                return min(opened.size), False
            opened.draft("RGB", (64, 64))
            small = opened.convert("RGB").resize((16, 16))
            channels = [band.tobytes() for band in small.split()]
            return min(opened.size), len(set(channels)) > 1
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"{file}: not a readable PNG, JPEG or PGM image ({error}); replace or remove it") from error


def _header(file: Path) -> list[str]:
    if not file.is_file():
        return []
    return list(look_at_table(file).columns)


def _recorded(path: Path, ask: Ask) -> FirstPlan:
    """A recorded run says how it was trained, not with which code nor what the auditor knows."""
    facts = facts_of(open_folder(path))
    nothing = Guess(None, "the trace does not say", sure=False)
    model = ask("model", "Which code builds the model? (module:callable)", nothing)
    prior = ask("data", "Which callable returns the auditor's data, {user: (x, y)}? (module:callable)", nothing)
    if model is None or prior is None:
        raise PlanError(f"{path}: a recorded run needs --model and --data (module:callable)")
    known = "partitions" if facts.partitions else "node ids"
    guess = Guess("key", f"the folder says which client is which, by {known}")
    if not facts.key:
        guess = Guess(None, "a CSV file with the columns client and user, or key", sure=False)
    owners = ask("owners", "Which file says whose client is whose?", guess)
    if owners is None:
        raise PlanError(f"{path}: whose client is whose? Name a CSV file with the columns client and user: --owners")
    tables = {
        "trace": {"path": Choice(str(path), f"{facts.rounds} rounds, {facts.clients} clients")},
        "truth": {"owners": Choice(owners, guess.why if owners == guess.value else "columns client and user")},
        "prior": {"data": Choice(prior, "data of the users that their clients did not train on")},
        "model": {"name": Choice(model, f"{facts.parameters:,} parameters in {len(facts.layers)} layers")},
        "federation": {
            "epochs": Choice(1, "how clients train, so that the auditor can imitate them: set to what they do"),
            "batch": Choice(20),
            "lr": Choice(0.05),
        },
    }
    strong = not (facts.sums_only or not facts.updates)
    if not strong:
        raise PlanError(
            f"{path}: no single updates were recorded, so attacks on them cannot be run; "
            f"`fedleak trace check {path}` says which can"
        )
    return FirstPlan(
        title=f"{path.name}: what does this run give away?",
        tables=tables,
        attacks=_attacks(labels=False),
        notes=[f"`fedleak trace check {path} --plan PLAN` says which other attacks can be run"],
        optional=(),
    )
