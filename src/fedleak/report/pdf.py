"""Print a page of Fedleak's own as PDF, with a Chromium that is installed on this machine; no network is used."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from fedleak.errors import FedleakError
from fedleak.trace.files import write_atomic

__all__ = ["find_browser", "print_pdf"]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
_MAC = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
_FLAGS = (
    "--headless",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # the page asks for nothing, and nothing else may either
    "--no-pdf-header-footer",  # the page has its own
)
_SECONDS = 180.0


def find_browser() -> Path | None:
    """The Chromium, or a browser built from it, of this machine."""
    found = next((path for name in _NAMES if (path := shutil.which(name))), None)
    return Path(found) if found else _MAC if _MAC.is_file() else None


def print_pdf(page: Path, path: Path, browser: Path | None = None) -> Path:
    """Print a page as its style asks; the file is readable only by its owner."""
    program = browser or find_browser()
    if program is None:
        raise FedleakError(
            f"no Chromium was found to print {page} with; install Chromium or Chrome, or open the file in a browser "
            "and print it from there"
        )
    sandbox = ("--no-sandbox",) if hasattr(os, "geteuid") and os.geteuid() == 0 else ()  # it refuses to run as root
    with tempfile.TemporaryDirectory(prefix="fedleak-print-") as folder:
        printed = Path(folder) / "page.pdf"
        command = [
            str(program),
            *_FLAGS,
            *sandbox,
            f"--user-data-dir={Path(folder) / 'profile'}",
            f"--print-to-pdf={printed}",
            Path(page).resolve().as_uri(),
        ]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False, text=True
            )
        except subprocess.TimeoutExpired as error:
            raise FedleakError(f"{program} did not print {page} within {_SECONDS:.0f} seconds") from error
        except OSError as error:
            raise FedleakError(f"{program} cannot be started: {error.strerror}") from error
        if not printed.is_file() or not printed.read_bytes().startswith(b"%PDF"):
            said = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "no message")
            raise FedleakError(f"{program} printed nothing (exit {done.returncode}: {said[:200]})")
        write_atomic(path, printed.read_bytes())
    return path
