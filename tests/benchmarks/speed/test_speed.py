"""The table of speeds tells what the bench measured, and compares it with the targets."""

import importlib
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def speed():
    return importlib.import_module("benchmarks.speed.speed")


def test_the_page_has_the_table_of_the_kept_results(speed):
    assert speed.table() in speed.PAGE.read_text()


@pytest.mark.parametrize(
    ("value", "answer"), [(2.9, "missed"), (3.0, "reached, barely"), (3.2, "reached")]
)
def test_speed_is_compared_with_its_target(speed, value, answer):
    assert speed.verdict(value, 3.0) == answer


def test_pick_requires_exactly_one_row(speed):
    rows = json.loads((speed.RESULTS / "solver.json").read_text())["rows"]
    assert speed.pick(rows, nx=512, threads=2)["ny"] == 256
    with pytest.raises(ValueError, match="0 rows of the bench"):
        speed.pick(rows, nx=511)
    with pytest.raises(ValueError, match="2 rows of the bench"):
        speed.pick(rows, nx=512)
