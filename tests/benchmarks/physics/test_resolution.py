"""A policy that is evaluated at several resolutions: what is kept, and that it is kept once."""

import importlib
from pathlib import Path

import pytest

AGENT = Path(__file__).parents[3] / "coupling" / "agents" / "sketch"


@pytest.fixture
def resolution():
    return importlib.import_module("benchmarks.physics.resolution")


def test_each_resolution_is_evaluated_once(resolution, tmp_path, capsys):
    results = tmp_path / "policies.parquet"
    resolution.evaluate_policy("sketch", AGENT, [8], "narrow", 1, results)
    (before,) = resolution.read(results)
    assert "sketch at 8" in capsys.readouterr().out
    resolution.evaluate_policy("sketch", AGENT, [8, 6], "narrow", 1, results)
    assert "sketch at 8" not in capsys.readouterr().out
    found = {row["name"]: row for row in resolution.read(results)}
    assert found.keys() == {"sketch/6", "sketch/8"}
    assert found["sketch/8"] == before
    assert found["sketch/6"]["env_options"]["cells_per_diameter"] == 8  # where it was trained
    assert found["sketch/6"]["result"] != before["result"]
    rows = resolution.table_of_policies(results).splitlines()[2:]
    assert [row.split(" | ")[2] for row in rows] == ["6", "8"]
