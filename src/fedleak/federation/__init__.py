"""Federated averaging: client step, server step, selection, and the hooks at which defences and tampering act."""
