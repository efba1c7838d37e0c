"""The search for simple controllers, and what it found."""

import itertools
import json
import math

import numpy as np
import pytest

from benchmarks.learning import rayleigh_benard
from benchmarks.learning.baseline_search import KINDS, Kind, Setting, climb
from benchmarks.studies import RESULTS
from cases.baselines import NAMED

GRID = Setting((-1.0, 1.0, 4.0), (0.1, 100.0), math.sqrt(2.0))
STEPS = Setting((0, 2, 4), (0, 6))


def test_search_leaves_the_grid_until_no_neighbour_is_better():
    """A gain of 13 and a delay of 5, outside the coarse grid, are best."""
    kind = Kind(lambda gain, delay: None, (GRID, STEPS))
    gain, delay = climb(
        kind, lambda at: -abs(math.log(abs(at[0] / 13.0))) - abs(at[1] - 5) - (at[0] < 0)
    )
    assert delay == 5
    assert 13.0 / math.sqrt(2.0) < gain < 13.0 * math.sqrt(2.0)


def test_search_ends_at_a_limit():
    kind = Kind(lambda gain, delay: None, (GRID, STEPS))
    assert climb(kind, lambda at: at[1] - abs(at[0]) - (at[0] < 0)) == (pytest.approx(0.1), 6)


def best_of(kept: dict, name: str, kind: Kind) -> tuple[tuple[float, ...], float]:
    """Return the best point of a kept search and its return, after checking that its neighbours were tried."""
    point = tuple(map(float, kept["best"][name].split()[1:]))
    found = {
        tuple(map(float, key.split()[1:])): result["mean_return"]
        for key, result in kept["found"].items()
        if key.split()[0] == name
    }
    assert found[point] == max(found.values())
    assert set(kind.neighbours(point)) <= set(found)
    return point, found[point]


@pytest.mark.parametrize("task", KINDS)
def test_shipped_baselines_are_the_best_of_the_search(task):
    env, kinds = KINDS[task]
    kept = json.loads((RESULTS / "drag_tasks" / f"{task}_search.json").read_text())
    for name, kind in kinds.items():
        point, _ = best_of(kept, name, kind)
        assert vars(NAMED[env][name]) == vars(kind.build(*point))
    assert set(itertools.chain(kinds, ["base_bleed"] if task == "fluidic_pinball" else [])) == set(
        NAMED[env]
    )


def test_shipped_pd_controller_of_convection_is_the_best_of_the_search():
    kinds = rayleigh_benard.KINDS
    kept = json.loads((rayleigh_benard.RESULTS / "search.json").read_text())
    best = {name: best_of(kept, name, kind) for name, kind in kinds.items()}
    name = max(best, key=lambda name: best[name][1])
    expected, shipped = kinds[name].build(*best[name][0]), NAMED[rayleigh_benard.TASK]["pd"]
    assert (shipped.gain, shipped.damping) == (expected.gain, expected.damping)
    np.testing.assert_array_equal(shipped.observations, expected.observations)
