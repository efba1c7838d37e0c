"""The scripts of benchmarks/ can be imported: they are no part of what is installed."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _benchmarks_can_be_imported(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
