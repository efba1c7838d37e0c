"""`flowsim bench solver`: rows that add up."""

import pytest

from flowsim import bench


def test_rows_tell_what_a_swimmer_costs_beside_none(monkeypatch) -> None:
    monkeypatch.setattr(bench, "CASES", ((64, 32, 2),))
    monkeypatch.setattr(bench, "SWIMMERS", (0, 5))
    monkeypatch.setattr(bench, "SCHOOL_CELLS", (160, 80))
    monkeypatch.setattr(bench, "MEMORY_BYTES", 2**20)
    said: list[str] = []
    wake, none, five = bench.bench_solver(said.append, seconds=0.0, threads=(1,))
    assert said == [
        "1/3: 2 x 64x32, 1 threads",
        "2/3: 0 swimmers, 1 threads",
        "3/3: 5 swimmers, 1 threads",
    ]
    assert [row["bodies"] for row in (wake, none, five)] == [
        "D-section and ellipse",
        "0 swimmers",
        "5 swimmers",
    ]
    for row in (wake, none, five):
        cells = row["nx"] * row["ny"] * row["batch"]
        assert row["cells_per_second"] == pytest.approx(1e3 * cells / row["ms_per_step"])
        assert row["times_floor"] == pytest.approx(row["ms_per_step"] / row["floor_ms"])
        assert sum(row["stages"].values()) == pytest.approx(1.0)
    longer = five["ms_per_step"] - none["ms_per_step"]
    assert five["ms_per_swimmer"] == pytest.approx(longer / 5)
    assert "ms_per_swimmer" not in none
    assert bench.printed(five)["bodies"] == "5 swimmers"
