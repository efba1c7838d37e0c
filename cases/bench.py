"""Speed of the flow tasks: actions per second, and the share of each sweep of the solver in the time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from flowsim.backend.bench import stages, timed_programs
from flowsim.backend.cpu import cores

ALWAYS = (
    "d_cylinder_wake/sketch",
    "d_cylinder_wake/quick",
    "d_cylinder_wake/default",
    "elliptical_swimmer/quick",
)
ONLY_FULL = (
    "d_cylinder_wake/fine",
    "elliptical_swimmer/default",
    "cylinder_jets/quick",
    "square_jets/quick",
    "rotating_cylinder/quick",
    "fluidic_pinball/quick",
    "pitching_foil/quick",
    "backward_step/quick",
    "open_cavity/quick",
    "rayleigh_benard/quick",
)
"""Presets that are measured, always or with ``--full``."""
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
        Whether to measure the presets in ``ONLY_FULL`` as well.
    seconds
        Minimum time spent on each row; a row takes at least three actions of all agents.

    Returns
    -------
    list of dict
        ``task``, ``threads``, ``actions_per_second`` of all agents together, including the starts of episodes,
        ``steps_per_action`` of the solver (median), ``cells_per_second``, and ``stages``, the share of each sweep in
        the time (``other`` is Python, the starts of episodes and the sensors).
    """
    rows = []
    for name in (*ALWAYS, *(ONLY_FULL if full else ())):
        task, _, preset = name.partition("/")
        identifier = f"flowsim/{task.title().replace('_', '')}-v0"
        for threads in sorted({1, cores()}):
            say(f"{AGENTS} agents in {name}, {threads} threads")
            env = gymnasium.make_vec(identifier, num_envs=AGENTS, preset=preset, threads=threads)
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
