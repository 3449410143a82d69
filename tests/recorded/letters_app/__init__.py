"""A federated keyboard as somebody would write it who has never heard of Fedleak."""
