"""The result in the terminal, as JSON, and as one self-contained HTML page."""
