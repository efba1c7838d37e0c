"""`flowsim bench tasks`: rows that add up."""

import numpy as np
import pytest

from cases import bench


def test_row_reports_actions_steps_and_time_shares(monkeypatch) -> None:
    monkeypatch.setattr(
        bench, "TASKS", {"a wake": ("flowsim/DCylinderWake-v0", {"start": "impulsive"})}
    )
    monkeypatch.setattr(bench, "AGENTS", 2)
    monkeypatch.setattr(bench, "cores", lambda: 1)
    said = []
    (row,) = bench.bench_tasks(said.append, seconds=0.0)
    assert said == ["2 agents in a wake, 1 threads"]
    assert (row["task"], row["threads"]) == ("a wake", 1)
    assert row["actions_per_second"] > 0
    # an action of half a D/U at CFL 0.5 and 16 cells per D: no fewer steps than at the speed of the stream
    assert row["steps_per_action"] >= 16
    assert row["cells_per_second"] == pytest.approx(
        row["actions_per_second"] * row["steps_per_action"] * 128 * 64
    )
    assert {"predict", "penalize", "correct", "transform", "other"} <= set(row["stages"])
    assert np.isclose(sum(row["stages"].values()), 1.0)
    assert min(row["stages"].values()) >= 0
    assert bench.printed(row)["stages"].startswith(max(row["stages"], key=row["stages"].get))
