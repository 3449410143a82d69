"""The contracts of attacks, data sets and splits, for Fedleak's own tests and for plugin authors."""

from fedleak.testing.contract import ContractBroken, check_attack, null_trace, planted_trace
from fedleak.testing.null import NullResult, check_null, play_null

__all__ = ["ContractBroken", "NullResult", "check_attack", "check_null", "null_trace", "planted_trace", "play_null"]
