"""Speed of the flow tasks: actions per second, and the share of each sweep of the solver in the time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from flowsim.backend.bench import stages, timed_programs
from flowsim.backend.cpu import cores

TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "d_cylinder_wake/sketch": ("flowsim/DCylinderWake-v0", {"preset": "sketch"}),
    "d_cylinder_wake/quick": ("flowsim/DCylinderWake-v0", {"preset": "quick"}),
    "d_cylinder_wake/default": ("flowsim/DCylinderWake-v0", {"preset": "default"}),
    "elliptical_swimmer/quick": ("flowsim/EllipticalSwimmer-v0", {"preset": "quick"}),
    "elliptical_swimmer/default": ("flowsim/EllipticalSwimmer-v0", {"preset": "default"}),
    "d_cylinder_wake/fine": ("flowsim/DCylinderWake-v0", {"preset": "fine"}),
    "rotating_cylinder/quick": ("flowsim/RotatingCylinder-v0", {"preset": "quick"}),
    "fluidic_pinball/quick": ("flowsim/FluidicPinball-v0", {"preset": "quick"}),
    "cylinder_jets/quick": ("flowsim/CylinderJets-v0", {"preset": "quick"}),
    "square_jets/quick": ("flowsim/SquareJets-v0", {"preset": "quick"}),
    "pitching_foil/quick": ("flowsim/PitchingFoil-v0", {"preset": "quick"}),
    "backward_step/quick": ("flowsim/BackwardStep-v0", {"preset": "quick"}),
    "open_cavity/quick": ("flowsim/OpenCavity-v0", {"preset": "quick"}),
}
ONLY_FULL = {
    "elliptical_swimmer/default",
    "d_cylinder_wake/fine",
    "rotating_cylinder/quick",
    "fluidic_pinball/quick",
    "cylinder_jets/quick",
    "square_jets/quick",
    "pitching_foil/quick",
    "backward_step/quick",
    "open_cavity/quick",
}
AGENTS = 24
EFFORT = 0.1
"""Standard deviation of the random actions, whose range is [-1, 1]."""


def bench_tasks(
    say: Callable[[str], None], *, full: bool = False, seconds: float = 8.0
) -> list[dict[str, Any]]:
    """Measure batches of 24 agents with small random actions, as in one process of a run.

    Parameters
    ----------
    say
        Called with a description of what is measured, before each row.
    full
        Whether to measure all tasks; by default those in ``ONLY_FULL`` are left out.
    seconds
        Minimum time spent on each row; a row takes at least three actions of all agents.

    Returns
    -------
    list of dict
        ``task``, ``threads``, ``actions_per_second`` of all agents together, including the starts of episodes,
        ``steps_per_action`` of the solver (median), ``cells_per_second``, and ``stages``, the share of each sweep in
        the time (``other`` is Python, the starts of episodes and the sensors).
    """
    tasks = {name: task for name, task in TASKS.items() if full or name not in ONLY_FULL}
    rows = []
    for name, (identifier, options) in tasks.items():
        for threads in sorted({1, cores()}):
            say(f"{AGENTS} agents in {name}, {threads} threads")
            env = gymnasium.make_vec(
                identifier, num_envs=AGENTS, **(options | {"threads": threads})
            )
            rows.append({"task": name, "threads": threads} | _measure(env, seconds))
    return rows


def _measure(env: Any, seconds: float) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    env.reset(seed=0)
    env.step(np.zeros(env.action_space.shape, np.float32))  # compiles what is not compiled yet
    spent: dict[str, float] = {}
    steps: list[Any] = []
    actions, begin = 0, time.perf_counter()
    with timed_programs(spent):
        while time.perf_counter() < begin + seconds or actions < 3:
            _, _, _, _, info = env.step(
                EFFORT * generator.standard_normal(env.action_space.shape).astype(np.float32)
            )
            steps.append(info["solver_steps"])
            actions += 1
    whole = time.perf_counter() - begin
    rate, steps_per_action = AGENTS * actions / whole, float(np.median(np.concatenate(steps)))
    simulation = env.unwrapped.task.simulation
    grid, share = simulation.grid, spent["_take_step"] / whole
    shares = {sweep: share * part for sweep, part in stages(simulation).items()}
    return {
        "actions_per_second": rate,
        "steps_per_action": steps_per_action,
        "cells_per_second": rate * steps_per_action * grid.nx * grid.ny,
        "stages": shares | {"other": 1.0 - share},
    }


def printed(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row formatted for printing."""
    stages = sorted(row["stages"].items(), key=lambda stage: -stage[1])
    return {
        "task": row["task"],
        "threads": row["threads"],
        "actions/s": f"{row['actions_per_second']:.1f}",
        "steps per action": f"{row['steps_per_action']:.0f}",
        "M cells/s": f"{row['cells_per_second'] / 1e6:.0f}",
        "stages": ", ".join(
            f"{name} {100 * share:.0f} %" for name, share in stages if share >= 0.02
        ),
    }
