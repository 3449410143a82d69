"""What an audit gives: the structures that `results.json` holds, and the only thing that the reports read."""
