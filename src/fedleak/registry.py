"""The registry of names: one line per attack, game, defence, data set, model, adversary, analysis, ...

Names map to `module:attribute` and are imported only when they are looked up, so a plan is checked without loading
packages that it does not use. Other packages add names with an entry point, for instance

    [project.entry-points."fedleak.attack"]
    my-attack = "my_package.attacks:MyAttack"

The class of an object that was given from Python is registered too, in that process only.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import sys
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from fedleak.errors import PlanError, did_you_mean

if TYPE_CHECKING:
    from fedleak.analyses.analysis import Analyser
    from fedleak.attacks.attack import Attack
    from fedleak.federation.hooks import Defence
    from fedleak.federation.model import Architecture
    from fedleak.games.game import Game
    from fedleak.population.population import Dataset
    from fedleak.views.adversaries import Adversary

__all__ = ["Kind", "names", "load", "add", "has", "resolve"]

Kind: TypeAlias = Literal["attack", "game", "defence", "dataset", "model", "adversary", "analysis", "section"]

_BUILT_IN: Mapping[Kind, Mapping[str, str]] = {
    "attack": {
        "reid-mlp": "fedleak.attacks.deanonymize.mlp:ReidMlp",
        "reid-svm": "fedleak.attacks.deanonymize.svm:LinearSvm",
        "reid-knn": "fedleak.attacks.deanonymize.knn:NearestNeighbours",
        "reid-centroid": "fedleak.attacks.deanonymize.centroid:Centroid",
        "reid-strong": "fedleak.attacks.deanonymize.strong:Strong",
        "reid-labels": "fedleak.attacks.deanonymize.labels:LabelHistogram",
        "reid-joint": "fedleak.attacks.deanonymize.joint:Joint",
        "attribute-mlp": "fedleak.attacks.attribute.mlp:AttributeMlp",
        "attribute-joint": "fedleak.attacks.attribute.mlp:AttributeJoint",
        "attribute-words": "fedleak.attacks.attribute.words:AttributeWords",
        "profile-gradient": "fedleak.attacks.profile.gradient:ProfileGradient",
        "profile-proxy": "fedleak.attacks.profile.proxy:ProfileProxy",
        "match-mlp": "fedleak.attacks.match.mlp:MatchMlp",
        "match-siamese": "fedleak.attacks.match.siamese:Siamese",
        "match-strong": "fedleak.attacks.match.strong:MatchStrong",
        "match-cosine": "fedleak.attacks.match.cosine:Cosine",
        "match-text": "fedleak.attacks.match.text:MatchText",
        "exposure-baseline": "fedleak.attacks.records.baseline:ExposureBaseline",
        "eavesdrop": "fedleak.attacks.records.eavesdrop:Eavesdrop",
        "eavesdrop-strong": "fedleak.attacks.records.strong:EavesdropStrong",
        "watermark": "fedleak.attacks.records.watermark:Watermark",
        "representatives": "fedleak.attacks.reconstruct.gradient_inversion:Representatives",
        "representatives-paper": "fedleak.attacks.reconstruct.gradient_inversion:RepresentativesPaper",
        "model-inversion": "fedleak.attacks.reconstruct.inversion:ModelInversion",
        "model-inversion-paper": "fedleak.attacks.reconstruct.inversion:ModelInversionPaper",
        "mgan-prior": "fedleak.attacks.reconstruct.prior:MganPrior",
        "mgan-weighted": "fedleak.attacks.reconstruct.weighted:MganWeighted",
        "mgan-linked": "fedleak.attacks.reconstruct.linked:MganLinked",
        "mgan-linked-paper": "fedleak.attacks.reconstruct.linked:MganLinkedPaper",
        "mgan-passive": "fedleak.attacks.reconstruct.mgan_ai:MganPassive",
        "mgan-passive-paper": "fedleak.attacks.reconstruct.mgan_ai:MganPassivePaper",
        "mgan-active": "fedleak.attacks.reconstruct.mgan_ai:MganActive",
        "mgan-active-paper": "fedleak.attacks.reconstruct.mgan_ai:MganActivePaper",
        "gradient-inversion": "fedleak.attacks.recover.gradient_inversion:GradientInversion",
        "imprint": "fedleak.attacks.recover.imprint:ImprintReadOut",
        "hitaj-gan": "fedleak.attacks.reconstruct.hitaj:HitajGan",
        "link-rep": "fedleak.attacks.link.siamese:LinkRepresentatives",
        "link-update": "fedleak.attacks.link.siamese:LinkUpdates",
        "link-cosine": "fedleak.attacks.link.cosine:LinkCosine",
        "link-rep-cosine": "fedleak.attacks.link.cosine:LinkRepresentativesCosine",
        "disaggregate-ridge": "fedleak.attacks.disaggregate.ridge:DisaggregateRidge",
        "disaggregate-moves": "fedleak.attacks.disaggregate.moves:DisaggregateMoves",
        "token-rows": "fedleak.attacks.tokens.rows:TokenRows",
        "membership-loss": "fedleak.attacks.membership.loss:LossThreshold",
        "membership-lira": "fedleak.attacks.membership.lira:LiraOffline",
        "membership-lira-online": "fedleak.attacks.membership.lira:LiraOnline",
        "membership-rmia": "fedleak.attacks.membership.rmia:Rmia",
        "membership-strong": "fedleak.attacks.membership.strong:MembershipStrong",
        "membership-cosine": "fedleak.attacks.membership.updates:GradientCosine",
        "membership-drop": "fedleak.attacks.membership.updates:LossDrop",
        "source-loss": "fedleak.attacks.source.updates:SourceLoss",
        "source-cosine": "fedleak.attacks.source.updates:SourceCosine",
        "source-selection": "fedleak.attacks.source.selection:SourceSelection",
        "source-strong": "fedleak.attacks.source.strong:SourceStrong",
    },
    "game": {
        "identify": "fedleak.games.identify:Identify",
        "attribute": "fedleak.games.attribute:Attribute",
        "profile": "fedleak.games.profile:Profile",
        "match": "fedleak.games.match:Match",
        "cross-modal": "fedleak.games.cross_modal:CrossModal",
        "extract": "fedleak.games.extract:Extract",
        "link": "fedleak.games.link:Link",
        "reconstruct": "fedleak.games.reconstruct:Reconstruct",
        "recover": "fedleak.games.recover:Recover",
        "disaggregate": "fedleak.games.disaggregate:Disaggregate",
        "membership": "fedleak.games.membership:Membership",
        "tokens": "fedleak.games.tokens:Tokens",
        "source": "fedleak.games.source:Source",
    },
    "defence": {
        "clip": "fedleak.defences.clip:Clip",
        "bkg-repl": "fedleak.defences.bkg_repl:BackgroundReplacement",
        "sparsify": "fedleak.defences.sparsify:Sparsify",
        "quantise": "fedleak.defences.quantise:Quantise",
        "dp-fedavg": "fedleak.defences.dp_fedavg:DpFedAvg",
        "dp-sgd": "fedleak.defences.dp_sgd:DpSgd",
        "mm-aug": "fedleak.defences.mm_aug:ModeAugmentation",
        "embedding-noise": "fedleak.defences.embedding_noise:EmbeddingNoise",
        "embedding-dropout": "fedleak.defences.embedding_dropout:EmbeddingDropout",
        "embedding-adversarial": "fedleak.defences.embedding_adversarial:EmbeddingAdversarial",
        "lstm-dropout": "fedleak.defences.lstm_dropout:LstmDropout",
        "shuffle": "fedleak.defences.shuffle:Shuffle",
        "secure-aggregation": "fedleak.defences.secure_aggregation:SecureAggregation",
        "dynamic-participation": "fedleak.defences.dynamic_participation:DynamicParticipation",
        "noise": "fedleak.defences.noise:Noise",
        "rand-aug": "fedleak.defences.rand_aug:RandomAugmentation",
        "flower-client-side-fixed-clipping": "fedleak.defences.flower_fixed_clipping:FlowerClientSideFixedClipping",
        "flower-server-side-fixed-clipping": "fedleak.defences.flower_fixed_clipping:FlowerServerSideFixedClipping",
        "flower-local-dp": "fedleak.defences.flower_local_dp:FlowerLocalDp",
        "nvflare-percentile-privacy": "fedleak.defences.nvflare_percentile:NvflarePercentilePrivacy",
        "nvflare-svt-privacy": "fedleak.defences.nvflare_svt:NvflareSvtPrivacy",
        "nvflare-exclude-vars": "fedleak.defences.nvflare_exclude_vars:NvflareExcludeVars",
    },
    "dataset": {
        "digits": "fedleak.population.datasets.digits:Digits",
        "mnist-writers": "fedleak.population.datasets.mnist_writers:MnistWriters",
        "writers-canvas": "fedleak.population.datasets.writers_canvas:WritersCanvas",
        "mnist-clients": "fedleak.population.datasets.mnist_clients:MnistClients",
        "faces": "fedleak.population.datasets.faces:Faces",
        "blog": "fedleak.population.datasets.blog:Blog",
        "amazon": "fedleak.population.datasets.amazon:Amazon",
        "yelp": "fedleak.population.datasets.yelp:Yelp",
        "pipa": "fedleak.population.datasets.pipa:Pipa",
        "openimages": "fedleak.population.datasets.openimages:OpenImages",
        "image-folder": "fedleak.population.datasets.image_folder:ImageFolder",
        "table": "fedleak.population.datasets.table:TableDataset",
        "text-clients": "fedleak.population.datasets.clients_text:TextClients",
        "own": "fedleak.population.datasets.own:Own",
    },
    "model": {
        "mlp": "fedleak.federation.models.mlp:Mlp",
        "cnn": "fedleak.federation.models.cnn:Cnn",
        "strided-cnn": "fedleak.federation.models.strided:StridedCnn",
        "mobilenet": "fedleak.federation.models.mobilenet:MobileNet",
        "word-lm": "fedleak.federation.models.recurrent:WordLm",
        "rating": "fedleak.federation.models.recurrent:Rating",
        "char-lm": "fedleak.federation.models.char_lm:CharLm",
        "transformer": "fedleak.federation.models.transformer:Transformer",
        "own": "fedleak.federation.models.own:Own",
    },
    "adversary": {
        "server": "fedleak.views.adversaries:SERVER",
        "anonymous-server": "fedleak.views.adversaries:ANONYMOUS_SERVER",
        "model-user": "fedleak.views.adversaries:MODEL_USER",
        "global-model-client": "fedleak.views.adversaries:GLOBAL_MODEL_CLIENT",
        "eavesdropper": "fedleak.views.adversaries:EAVESDROPPER",
        "insider": "fedleak.views.adversaries:INSIDER",
        "aggregate-server": "fedleak.views.adversaries:AGGREGATE_SERVER",
        "enclave-server": "fedleak.views.adversaries:ENCLAVE_SERVER",
        "active-server": "fedleak.views.adversaries:ACTIVE_SERVER",
        "malicious-client": "fedleak.views.adversaries:MALICIOUS_CLIENT",
        "malicious-server": "fedleak.views.adversaries:MALICIOUS_SERVER",
        "malicious-aggregate-server": "fedleak.views.adversaries:MALICIOUS_AGGREGATE_SERVER",
    },
    "analysis": {
        "layers": "fedleak.analyses.layers:Layers",
        "rounds": "fedleak.analyses.rounds:Rounds",
        "bias": "fedleak.analyses.bias:Bias",
        "distances": "fedleak.analyses.distances:Distances",
        "raw-data": "fedleak.analyses.raw_data:RawData",
        "t-sne": "fedleak.analyses.t_sne:Map",
        "prior-size": "fedleak.analyses.priors:PriorSize",
        "priors": "fedleak.analyses.priors:Priors",
        "vary": "fedleak.analyses.vary:Vary",
        "representatives": "fedleak.analyses.representatives:RepresentativesLook",
        "exposure": "fedleak.analyses.exposure:Exposure",
        "labelled-updates": "fedleak.analyses.labelled:LabelledUpdates",
        "seen-users": "fedleak.analyses.open_world:SeenUsers",
        "attribute-record": "fedleak.analyses.attribute_record:AttributeRecord",
        "side-effect": "fedleak.analyses.side_effect:SideEffect",
    },
    "section": {  # of the report, in the order in which they are shown
        "verdicts": "fedleak.report.sections.verdicts:Verdicts",
        "tradeoffs": "fedleak.report.sections.tradeoffs:Tradeoffs",
        "users": "fedleak.report.sections.users:Users",
        "defence-effects": "fedleak.report.sections.defence_effects:DefenceEffects",
        "attacks": "fedleak.report.sections.attacks:Attacks",
        "analyses": "fedleak.report.sections.analyses:Analyses",
        "threat-model": "fedleak.report.sections.threat_model:ThreatModel",
        "population": "fedleak.report.sections.population:PopulationSection",
        "untested": "fedleak.report.sections.untested:UntestedClaims",
        "definitions": "fedleak.report.sections.definitions:Definitions",
        "repeat": "fedleak.report.sections.repeat:Repeat",
    },
}


@cache
def _entry_points() -> Any:
    return importlib.metadata.entry_points()  # looks into every installed package, so once is enough


@cache
def _table(kind: Kind) -> Mapping[str, str]:
    plugins = {entry.name: entry.value for entry in _entry_points().select(group=f"fedleak.{kind}")}
    return {**plugins, **_BUILT_IN[kind]}


def names(kind: Kind) -> tuple[str, ...]:
    """Every known name of a kind, built-in names first."""
    return tuple(_BUILT_IN[kind]) + tuple(sorted(set(_table(kind)) - set(_BUILT_IN[kind])))


_LOCAL: dict[tuple[Kind, str], type[Any]] = {}


def add(kind: Kind, cls: type[Any], where: str) -> None:
    """Make a class known by its name in this process; a class that was defined again replaces its older self."""
    if has(kind, cls):
        return
    if cls.name in _table(kind):
        raise PlanError(f"{where}: its name '{cls.name}' is that of a registered {kind}; choose another")
    _LOCAL[kind, cls.name] = cls


def has(kind: Kind, cls: type[Any]) -> bool:
    """Whether a class is registered under its name, built in or by a plugin, so that every process finds it."""
    target = _table(kind).get(getattr(cls, "name", ""))
    return target is not None and target == f"{cls.__module__}:{cls.__qualname__}"


@overload
def load(kind: Literal["attack"], name: str) -> type[Attack]: ...
@overload
def load(kind: Literal["game"], name: str) -> type[Game]: ...
@overload
def load(kind: Literal["defence"], name: str) -> type[Defence]: ...
@overload
def load(kind: Literal["dataset"], name: str) -> type[Dataset]: ...
@overload
def load(kind: Literal["model"], name: str) -> type[Architecture]: ...
@overload
def load(kind: Literal["adversary"], name: str) -> Adversary: ...
@overload
def load(kind: Literal["analysis"], name: str) -> type[Analyser]: ...
@overload
def load(kind: Kind, name: str) -> Any: ...
def load(kind: Kind, name: str) -> Any:
    """Import the class or object behind a name."""
    target = _table(kind).get(name)
    if target is None and (kind, name) in _LOCAL:
        return _LOCAL[kind, name]
    if target is None:
        raise PlanError(f"unknown {kind} '{name}'{did_you_mean(name, names(kind))}")
    return resolve(target)


def resolve_own(target: str) -> Any:
    """Import `module:attribute` of the user's own code, which may lie in the folder that Fedleak is started in."""
    if os.getcwd() not in sys.path:  # last, so that a file lying here cannot stand in for an installed module
        sys.path.append(os.getcwd())
    return resolve(target)


def resolve(target: str) -> Any:
    """Import `module:attribute`."""
    module, colon, attribute = target.partition(":")
    if not (module and colon and attribute):
        raise PlanError(f"{target}: expected module:callable")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise PlanError(f"{target} cannot be imported: {error}") from error
