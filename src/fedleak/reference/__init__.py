"""Reference pages that follow from the code: `python -m fedleak.reference docs` writes them anew."""
