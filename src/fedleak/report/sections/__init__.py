"""The sections of the report, one file and one partial each; `fedleak.registry` has their order."""
