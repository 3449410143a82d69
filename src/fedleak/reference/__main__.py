"""Rewrite what is generated in the folder of the documentation."""

from __future__ import annotations

import sys
from pathlib import Path

from fedleak.reference.pages import generate

for path, text in generate(Path(sys.argv[1] if len(sys.argv) > 1 else "docs")).items():
    if path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
        print(f"{path}: written")
