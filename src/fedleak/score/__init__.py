"""Claims against truth: metrics, chance levels, intervals, and the result that all reports are drawn from."""
