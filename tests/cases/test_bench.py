"""`flowsim bench tasks`: rows that add up."""

from pathlib import Path

import numpy as np
import pytest

import cases
from cases import bench


def test_row_reports_actions_steps_and_time_shares(monkeypatch) -> None:
    monkeypatch.setattr(bench, "ALWAYS", ("d_cylinder_wake/sketch",))
    monkeypatch.setattr(bench, "AGENTS", 2)
    monkeypatch.setattr(bench, "cores", lambda: 1)
    said = []
    (row,) = bench.bench_tasks(said.append, seconds=0.0)
    assert said == ["2 agents in d_cylinder_wake/sketch, 1 threads"]
    assert (row["task"], row["threads"]) == ("d_cylinder_wake/sketch", 1)
    assert row["actions_per_second"] > 0
    # an action of half a D/U at CFL 0.5 and 8 cells per D: no fewer steps than at the speed of the stream
    assert row["steps_per_action"] >= 8
    assert row["cells_per_second"] == pytest.approx(
        row["actions_per_second"] * row["steps_per_action"] * 64 * 32
    )
    assert {"predict", "penalize", "correct", "transform", "other"} <= set(row["stages"])
    assert np.isclose(sum(row["stages"].values()), 1.0)
    assert min(row["stages"].values()) >= 0
    assert bench.printed(row)["stages"].startswith(max(row["stages"], key=row["stages"].get))


def test_presets_that_are_measured_exist() -> None:
    for name in (*bench.ALWAYS, *bench.ONLY_FULL):
        assert (Path(cases.__file__).parent / f"{name}.yaml").exists(), name
