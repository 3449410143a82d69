"""The rows of the papers: what each reports, what Fedleak measured of it, and how to measure it again.

The summaries in docs/results/data hold both: which plan is behind a figure and which score it is, and what that score
was when it was last measured. `fedleak reproduce` runs the plan and rewrites the summary; pages are rendered from it.
"""
