"""Cross-entropy search for linear feedback gains in a task with a scalar action, and the table of its baselines.

All candidates of a generation run the same validation episodes, each in its own flow.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

import cases  # noqa: F401
from benchmarks.learning.baselines import rows_of
from benchmarks.studies import Row, current_origin, write_json
from cases.baselines import LinearController
from coupling.evaluation.evaluate import baselines_of
from rl_agent.rollout.seeds import EVALUATION_SEED, Purpose, episode_seed

CANDIDATES, ELITE, STARTS = 12, 4, 2

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Search:
    """Settings of a search.

    Attributes
    ----------
    task, preset : str
    observed : tuple of int
        Indices of the observations that are fed back.
    mean, spread : tuple of float
        Mean and standard deviation of the gains in the first generation.
    actions : int
        Actions per episode.
    """

    task: str
    preset: str
    observed: tuple[int, ...]
    mean: tuple[float, ...]
    spread: tuple[float, ...]
    actions: int


def worth(search: Search, gains: FloatArray, seeds: list[int]) -> FloatArray:
    """Return the mean return of each candidate, shape (n,), over the episodes with the given seeds."""
    envs: Any = gymnasium.make_vec(
        search.task, num_envs=len(gains) * len(seeds), vectorization_mode="vector_entry_point", preset=search.preset,
        episode_actions=search.actions, autoreset_mode="SameStep",
    )  # fmt: skip
    controller = LinearController(search.observed, np.repeat(gains, len(seeds), axis=0))
    observations, _ = envs.reset(seed=seeds * len(gains))
    total = np.zeros(len(gains) * len(seeds))
    for _ in range(search.actions):
        observations, rewards, *_ = envs.step(controller(observations))
        total += rewards
    envs.close()
    return total.reshape(len(gains), -1).mean(axis=1)


def carry_on(search: Search, generations: int, file: Path) -> None:
    """Continue a search and store every generation."""
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"generations": []}
    for number in range(len(found["generations"]), generations):
        random = np.random.default_rng(number)
        last = found["generations"][-1] if number else vars(search)
        mean, spread = np.array(last["mean"]), np.array(last["spread"])
        gains = mean + spread * random.standard_normal((CANDIDATES, len(mean)))
        gains[0] = mean
        seeds = [episode_seed(Purpose.SELECTION, number, start) for start in range(STARTS)]
        values = worth(search, gains, seeds)
        elite = gains[np.argsort(values)[-ELITE:]]
        mean, spread = elite.mean(axis=0), 0.7 * elite.std(axis=0) + 0.3 * spread
        found["generations"].append(
            {"values": values.tolist(), "mean": mean.tolist(), "spread": spread.tolist()}
        )
        found |= current_origin() | {"preset": search.preset, "observed": search.observed}
        write_json(file, found)
        told = f"{values[0]:.3f}, best {values.max():.3f}, mean {mean}"
        print(f"generation {number + 1}: {told}", flush=True)


def beside_no_control(
    task: str, preset: str
) -> Iterator[tuple[Any, FloatArray, Mapping[str, FloatArray]]]:
    """Run the first test episode in a batch of two flows: the first without control, the second with linear feedback.

    Yields
    ------
    tuple
        The task, its observations and its measures: once at the start, without measures, and after every action.
    """
    envs: Any = gymnasium.make_vec(
        task, num_envs=2, vectorization_mode="vector_entry_point", preset=preset, autoreset_mode="Disabled",
    )  # fmt: skip
    shipped = baselines_of(task, {"preset": preset}, EVALUATION_SEED)["linear_feedback"]
    seen, _ = envs.reset(seed=[episode_seed(Purpose.EVALUATION, EVALUATION_SEED, 0)] * 2)
    yield envs.unwrapped.task, seen, {}
    for _ in range(envs.unwrapped.task.options.episode_actions):
        actions = shipped(seen)
        actions[0] = 0.0
        seen, _, _, _, info = envs.step(actions)
        yield envs.unwrapped.task, seen, info["measures"]
    envs.close()


def cost_table(kept: dict[str, Any], trained: dict[str, list[Row]], length: str) -> str:
    """Return a Markdown table with a row for each baseline and each learner.

    The task must measure `energy` and `flow rate`; `length` is the symbol of its unit of length.
    """
    zero = kept["found"]["zero"]["mean_return"]
    lines = [
        f"| controller | return | change in cost | energy, 1e-3 rho U^2 {length}^2 | "
        f"rms flow rate, 1e-3 U {length} |",
        "| --- |" + " --: |" * 4,
    ]
    for name, result in rows_of(kept["found"], trained).items():
        low, high = result["ci95"]
        energy, rate = (result["measures"][key] for key in ("energy", "flow rate"))
        change = 100.0 * (result["mean_return"] / zero - 1.0)
        lines.append(
            f"| {name} | {result['mean_return']:.1f} [{low:.1f}, {high:.1f}] | {change:+.0f} % | "
            f"{1e3 * energy['mean']:.2f} | {1e3 * rate['rms']:.3f} |"
        )
    return "\n".join(lines)
