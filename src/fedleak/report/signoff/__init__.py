"""The sign-off document: what a privacy officer reads and signs, in the order of ISO/IEC 27559 (docs/sign-off.md)."""
