"""Search for the settings of the simple controllers of a drag task, on validation states.

    python benchmarks/learning/baseline_search.py square_jets              # some 50 controllers, three episodes each

Every kind of controller has one or two settings. The search evaluates a coarse grid of them, and then moves from the
best point to its best neighbour until no neighbour has a higher mean return. The result is therefore not at the edge
of the grid unless the setting has a limit there. `cases/baselines.py` ships the best controller of each kind. Raw
results: benchmarks/results/drag_tasks/TASK_search.json.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

from benchmarks.studies import RESULTS, current_origin, write_json  # noqa: E402
from cases.baselines import (  # noqa: E402
    ConstantController,
    Controller,
    FeedbackController,
    HarmonicController,
)
from coupling.evaluation.pool import EvaluationPool  # noqa: E402
from rl_agent.rollout.seeds import EVALUATION_SEED, Purpose  # noqa: E402

EPISODES = 3
Point = tuple[float, ...]


@dataclass(frozen=True)
class Setting:
    """A setting of a controller.

    Attributes
    ----------
    values : tuple of float
        Values of the coarse grid.
    limits : (float, float)
        Smallest and largest absolute value.
    ratio : float or None
        Ratio of a value to its neighbours; None: their distance is 1.
    """

    values: tuple[float, ...]
    limits: tuple[float, float]
    ratio: float | None = None

    def neighbours(self, value: float) -> list[float]:
        """Return the values next to one, within the limits."""
        ratio = self.ratio
        both = (value - 1, value + 1) if ratio is None else (value / ratio, value * ratio)
        low, high = self.limits
        inside = [math.copysign(min(max(abs(each), low), high), value) for each in both]
        return [round(each, 3) for each in inside if round(each, 3) != round(value, 3)]


@dataclass(frozen=True)
class Kind:
    """A kind of controller: how it is built from its settings, and these."""

    build: Callable[..., Controller]
    settings: tuple[Setting, ...]

    def grid(self) -> Iterator[Point]:
        """Return the points of the coarse grid."""
        return itertools.product(*(setting.values for setting in self.settings))

    def neighbours(self, point: Point) -> Iterator[Point]:
        """Return the points that differ from one in a single setting, by one step."""
        for axis, setting in enumerate(self.settings):
            for value in setting.neighbours(point[axis]):
                yield (*point[:axis], value, *point[axis + 1 :])


def constant(*shape: float) -> Kind:
    """Return a constant action of this shape; its amplitude may have either sign."""
    amplitude = Setting((-0.5, -0.25, 0.25, 0.5, 1.0), (0.1, 1.0), math.sqrt(2.0))
    return Kind(lambda a: ConstantController(tuple(a * each for each in shape)), (amplitude,))


def harmonic(*shape: float, periods: tuple[float, ...]) -> Kind:
    """Return a sine of this shape, with amplitude and period."""
    amplitude = Setting((0.25,), (0.1, 1.0), math.sqrt(2.0))
    return Kind(
        lambda a, period: HarmonicController(tuple(a * each for each in shape), period),
        (amplitude, Setting(periods, (2.0, 60.0))),
    )


def feedback(plus: int, minus: int) -> Kind:
    """Return feedback of the difference of two observations, with gain and delay."""
    gain = Setting((-1.0, 0.25, 1.0, 4.0), (0.01, 100.0), math.sqrt(2.0))
    delay = Setting((0, 2, 4), (0, 20))
    return Kind(lambda k, n: FeedbackController((k,), plus, minus, int(n)), (gain, delay))


KINDS: dict[str, tuple[str, dict[str, Kind]]] = {
    "rotating_cylinder": (
        "flowsim/RotatingCylinder-v0",
        {
            "constant_spin": constant(1.0),
            "harmonic": harmonic(1.0, periods=(6, 9, 12, 15, 20, 30)),
            "feedback": feedback(plus=2, minus=0),
        },
    ),
    "cylinder_jets": (
        "flowsim/CylinderJets-v0",
        {
            "suction": constant(1.0),
            "harmonic": harmonic(1.0, periods=(5, 7, 10, 14, 18, 24)),
            "opposition": feedback(plus=1, minus=0),
        },
    ),
    "square_jets": (
        "flowsim/SquareJets-v0",
        {
            "suction": constant(1.0),
            "harmonic": harmonic(1.0, periods=(7, 10, 14, 18, 24)),
            "opposition": feedback(plus=55, minus=8),
        },
    ),
    "fluidic_pinball": (
        "flowsim/FluidicPinball-v0",
        {
            "boat_tailing": constant(0.0, -1.0, 1.0),
            "magnus": constant(1.0, 1.0, 1.0),
            "forward_stagnation": constant(1.0, 0.0, 0.0),
            "harmonic": harmonic(0.0, 1.0, 1.0, periods=(4, 5, 7, 10, 14)),
        },
    ),
}
"""Environment and kinds of controllers of each task. A negative boat tailing is base bleed."""


def climb(kind: Kind, value: Callable[[Point], float]) -> Point:
    """Return the point of highest value: the best of the grid, then of its neighbours, until none is better."""
    best = max(kind.grid(), key=value)
    while (better := max((best, *kind.neighbours(best)), key=value)) != best:
        best = better
    return best


def search(env: str, options: dict[str, Any], kinds: dict[str, Kind], file: Path) -> None:
    """Search the settings of each kind of controller of a task and store every candidate."""
    found: dict[str, Any] = {}
    best: dict[str, str] = {}
    with EvaluationPool(env, options, processes=1, purpose=Purpose.SELECTION) as pool:

        def value(name: str, kind: Kind, point: Point) -> float:
            named = " ".join((name, *map(str, point)))
            if named not in found:
                played = pool.play(kind.build(*point), EPISODES, EVALUATION_SEED)
                found[named] = played.summary() | {"returns": played.returns.tolist()}
                means = [f"{key} {of['mean']:.4f}" for key, of in found[named]["measures"].items()]
                print(
                    f"{named}: return {found[named]['mean_return']:.3f}",
                    *means,
                    sep=", ",
                    flush=True,
                )
            return float(found[named]["mean_return"])

        for name, kind in kinds.items():
            point = climb(kind, lambda point, name=name, kind=kind: value(name, kind, point))  # type: ignore[misc]
            best[name] = " ".join((name, *map(str, point)))
            print(f"best: {best[name]}", flush=True)
    kept = {
        "task": env,
        "options": options,
        "purpose": Purpose.SELECTION.name,
        "best": best,
        "found": found,
    }
    write_json(file, kept | current_origin())


def main() -> None:
    """Parse the command line and search."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("task", choices=KINDS)
    task = parser.parse_args().task
    env, kinds = KINDS[task]
    search(env, {}, kinds, RESULTS / "drag_tasks" / f"{task}_search.json")


if __name__ == "__main__":
    main()
