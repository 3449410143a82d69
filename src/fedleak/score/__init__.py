"""Score predictions against the truth: chance levels, intervals, and the result that all reports use."""
