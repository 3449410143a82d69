"""The questions, the options and the answers, fixed before any attack runs."""
