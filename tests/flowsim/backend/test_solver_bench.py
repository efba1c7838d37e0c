"""`flowsim bench solver`: rows that add up."""

import numpy as np

from flowsim import Simulation
from flowsim.backend import bench


def test_rows_report_the_extra_cost_of_a_swimmer(monkeypatch) -> None:
    monkeypatch.setattr(bench, "CASES", ((64, 32, 2),))
    monkeypatch.setattr(bench, "SWIMMERS", (0, 5))
    monkeypatch.setattr(bench, "SCHOOL_CELLS", (160, 80))
    monkeypatch.setattr(bench, "MEMORY_BYTES", 2**20)
    simulations: list[Simulation] = []

    def noted(*words, **options) -> Simulation:
        simulations.append(Simulation(*words, **options))
        return simulations[-1]

    monkeypatch.setattr(bench, "Simulation", noted)
    said: list[str] = []
    rows = bench.bench_solver(said.append, seconds=0.0, threads=(1,))
    assert said == [
        "1/3: 2 x 64x32, 1 threads",
        "2/3: 0 swimmers, 1 threads",
        "3/3: 5 swimmers, 1 threads",
    ]
    assert [row["bodies"] for row in rows] == [bench.WAKE_BODIES, "0 swimmers", "5 swimmers"]
    assert [len(sim.bodies) for sim in simulations] == [2, 0, 5]
    for row, sim in zip(rows, simulations, strict=True):
        assert (row["nx"], row["ny"], row["batch"]) == (sim.grid.nx, sim.grid.ny, sim.batch)
        assert {"predict", "correct", "transform"} <= set(row["stages"])
        assert min(row["stages"].values()) >= 0
        assert (sim.time > 0).all()
        assert not sim.diverged.any()
    school = simulations[-1]
    assert not school.body_state.contact.any()  # neither each other nor a side
    assert np.ptp(school.body_state.position[0], axis=0).max() > 1.0
    assert ["ms_per_swimmer" in row for row in rows] == [False, False, True]
    assert [bench.printed(row)["ms per swimmer"] != "" for row in rows] == [False, False, True]
