"""Running an audit: `stages.py` shows the whole flow, the other files are its parts."""
