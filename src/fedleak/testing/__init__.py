"""The contract that every attack is held to, for Fedleak's own tests and for those of plugin authors."""

from fedleak.testing.contract import ContractBroken, check_attack, null_trace, planted_trace

__all__ = ["ContractBroken", "check_attack", "null_trace", "planted_trace"]
