"""Finding data sets: the named folder first, then the cache, then instructions."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedleak.errors import DataError
from fedleak.population import sources


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("FEDLEAK_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "fedleak"


def put(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"12345")
    return folder


def test_the_named_folder_comes_before_the_cache(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cached = put(cache / "blog", "blogs.zip")
    assert sources.find("blog", ["blogs.zip"]) == cached
    named = put(tmp_path / "mine" / "blog", "blogs.zip")
    monkeypatch.setenv("FEDLEAK_DATA", str(tmp_path / "mine"))
    assert sources.find("blog", ["blogs.zip"]) == named


def test_the_cache_serves_what_the_named_folder_lacks(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = put(cache / "blog", "blogs.zip")
    monkeypatch.setenv("FEDLEAK_DATA", str(tmp_path / "empty"))
    assert sources.find("blog", ["blogs.zip"]) == cached


def test_without_xdg_the_cache_is_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = put(tmp_path / ".cache" / "fedleak" / "blog", "blogs.zip")
    assert sources.find("blog", ["blogs.zip"]) == folder


def test_only_what_is_missing_is_asked_for(cache: Path) -> None:
    put(cache / "mnist", "train-images-idx3-ubyte.gz")
    with pytest.raises(DataError) as caught:
        sources.find("mnist-writers", ["train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"])
    message = str(caught.value)
    assert "needs train-labels-idx1-ubyte.gz (" in message
    assert str(cache / "mnist") in message
    assert "FEDLEAK_DATA" in message


def test_status_tells_what_is_here_and_how_to_get_the_rest(cache: Path) -> None:
    before = {state.dataset: state for state in sources.status()}
    assert not any(state.present for state in before.values())
    assert "blogs.zip" in before["blog"].how
    folder = put(cache / "blog", "blogs.zip")
    after = {state.dataset: state for state in sources.status()}
    assert after["blog"].present
    assert after["blog"].how == ""
    assert ("blogs.zip", folder / "blogs.zip", 5) in after["blog"].files
    assert not after["mnist-writers"].present
