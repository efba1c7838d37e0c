"""Analyse what an agent has learned on the wake: its position, its effort, the effort saved, and its phase.

    python benchmarks/learning/learned.py watch runs/figure6/SUITE/JOB --cells 32  # 24 episodes
    python benchmarks/learning/learned.py watch wake                    # a shipped agent
    python benchmarks/learning/learned.py page                          # docs/studies/learned.md and its picture

The agent acts with the mean of its policy in the evaluation episodes. For comparison, at the same resolution: the
velocity deficit of the wake of the cylinder alone at the agent's position, and the drag of the ellipse held in the
free stream at the agent's angles and along the stream.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.signal import hilbert

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

from benchmarks.pages import fill_in, save_plot  # noqa: E402
from benchmarks.physics.resolution import agent_of, flow, record  # noqa: E402
from benchmarks.studies import RESULTS as STUDIES  # noqa: E402
from benchmarks.studies import current_origin, pack, read  # noqa: E402
from cases.baselines import Controller  # noqa: E402
from cases.d_cylinder_wake.env import CYLINDER, STREAM  # noqa: E402
from cases.ellipse_agent import ASPECT_RATIO  # noqa: E402
from coupling.evaluation.result import bootstrap_interval  # noqa: E402
from coupling.worker.environments import make_vector  # noqa: E402
from flowsim import Ellipse, Grid, Sides, Simulation  # noqa: E402
from flowsim.render.fields import EFFORT, component_colour, component_names  # noqa: E402
from flowsim.validation.cylinder import disturb_wake  # noqa: E402
from rl_agent.rollout.seeds import EVALUATION_SEED, Purpose, episode_seed  # noqa: E402

RESULTS = STUDIES / "learned.parquet"
PAGE = ROOT / "docs" / "studies" / "learned.md"
STARTS = 24
SETTLED = 50
"""Actions after which an agent has settled at its position."""
ACROSS, ALONG = np.linspace(-1.5, 1.5, 31), np.linspace(0.5, 3.5, 31)
DEVELOPMENT, MEASURED = 100.0, 30.0
ANGLES = np.linspace(0.0, np.pi / 2, 7)
PHASES = 8
FORCE = 0.5
"""Force of an action of 1, in rho U^2 D."""
NAMES = {
    "sac": "SAC",
    "vracer": "V-RACER",
    "vracer_a_horizon_that_grows_separate_trunks_half_by_episodes": "vracer, V-RACER",
}
"""Display names of the learners in the policies' names; the last is a shipped agent."""

AGENTS = {"wake": "wake, SAC + ReF-ER-1"}
"""Display names of shipped agents that are evaluated by name."""

FloatArray = NDArray[np.float64]


# --- measurements ------------------------------------------------------------------------------------------------


def watch(
    env: str, options: dict[str, Any], controller: Controller, actions: int
) -> dict[str, FloatArray]:
    """Run the evaluation episodes and record them, with NaN after an agent has left the box.

    Returns
    -------
    dict
        ``place`` (x, y, angle), shape (n, actions, 3), ``action``, shape (n, actions, 3), and ``lift`` of the cylinder,
        shape (n, actions, 1).
    """
    vector: Any = make_vector(env, options, STARTS)
    observations, _ = vector.reset(
        seed=[episode_seed(Purpose.EVALUATION, EVALUATION_SEED, number) for number in range(STARTS)]
    )
    controller.reset(STARTS)
    alive = np.ones(STARTS, bool)
    seen: dict[str, FloatArray] = {
        name: np.full((STARTS, actions, size), np.nan)
        for name, size in (("place", 3), ("action", 3), ("lift", 1))
    }
    for n in range(actions):
        chosen = np.clip(controller(np.asarray(observations, np.float32)), -1.0, 1.0)
        seen["place"][alive, n] = observations[alive, :3]
        observations, _, terminated, truncated, infos = vector.step(chosen.astype(np.float32))
        alive &= ~(terminated | truncated)
        seen["action"][alive, n] = chosen[alive]
        seen["lift"][alive, n, 0] = infos["lift"][alive, 0]
        if not alive.any():
            break
    vector.close()
    return seen


def mean_wake(cells: int) -> FloatArray:
    """Return the mean streamwise velocity behind the cylinder alone, shape (ALONG, ACROSS)."""
    sim = flow(cells)
    disturb_wake(sim)
    sim.advance(DEVELOPMENT)
    x, y = np.meshgrid(CYLINDER[0] + ALONG, CYLINDER[1] + ACROSS, indexing="ij")
    points = np.stack([x.ravel(), y.ravel()], axis=-1)[None]
    rows = record(sim, MEASURED, lambda sim: sim.sample_velocity(points)[0, :, 0])
    return np.asarray(rows[:, 1:].mean(axis=0).reshape(x.shape))


def drag_in_the_stream(cells: int) -> FloatArray:
    """Return the mean drag of the ellipse alone, held in the free stream at each of the angles, in rho U^2 D."""
    drags = []
    for angle in ANGLES:
        body = Ellipse(major=1.0, aspect=ASPECT_RATIO, center=(1.8, 2.0), angle=float(angle))
        sim = Simulation(Grid(8 * cells, 4 * cells, 1.0 / cells), Sides(), [body], viscosity=1.0 / 400.0,
                         stream=STREAM, dtype="float32")  # fmt: skip
        disturb_wake(sim)
        sim.advance(40.0)
        drags.append(record(sim, 20.0, lambda sim: (sim.body_state.force[0, 0, 0],))[:, 1].mean())
    return np.array(drags)


def study(policy: Path, cells: int) -> dict[str, Any]:
    """Return all data of the page."""
    env, env_options, controller = agent_of(policy)
    options = {**env_options, "cells_per_diameter": cells}
    seen = watch(env, options, controller, int(options.get("episode_actions", 400)))
    return {
        "policy": policy.name,
        "trained_at": env_options["cells_per_diameter"],
        "cells_per_diameter": cells,
        **{name: np.round(values, 4).tolist() for name, values in seen.items()},
        "wake": mean_wake(cells).tolist(),
        "drag_in_the_stream": drag_in_the_stream(cells).tolist(),
    }


# --- evaluation --------------------------------------------------------------------------------------------------


def by_phase(lift: FloatArray, action: FloatArray) -> FloatArray:
    """Return the mean action in each phase of the cylinder's lift, shape (PHASES, 3).

    A period begins where the lift crosses zero upwards.
    """
    phases, actions = [], []
    for each, taken in zip(lift, action, strict=True):
        signal = each[SETTLED:-1]  # the last action of an episode is not recorded
        if np.isfinite(signal).all():
            phases.append(np.angle(hilbert(signal - signal.mean())) + np.pi / 2)
            actions.append(taken[SETTLED:-1])
    if not phases:
        return np.full((PHASES, 3), np.nan)
    part = (np.concatenate(phases) % (2 * np.pi) / (2 * np.pi) * PHASES).astype(int) % PHASES
    together = np.concatenate(actions)
    return np.array([together[part == n].mean(axis=0) for n in range(PHASES)])


def numbers(found: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers of the table."""
    place, action, lift = (np.array(found[name], float) for name in ("place", "action", "lift"))
    settled, pushes = place[:, SETTLED:].reshape(-1, 3), action[:, SETTLED:].reshape(-1, 3)
    settled, pushes = (rows[np.isfinite(rows).all(axis=1)] for rows in (settled, pushes))
    wake = np.array(found["wake"])
    i = np.clip(np.searchsorted(ALONG, settled[:, 0]), 0, len(ALONG) - 1)
    j = np.clip(np.searchsorted(ACROSS, settled[:, 1]), 0, len(ACROSS) - 1)
    # an ellipse turned by pi is the same ellipse
    tilt = abs((settled[:, 2] + np.pi / 2) % np.pi - np.pi / 2)
    free = np.interp(tilt, ANGLES, found["drag_in_the_stream"])
    mean, stays = pushes.mean(axis=0), np.isfinite(place[:, -1, 0])
    # the last action of an episode is not recorded: the effort of the one before stands in for it
    cost = np.nansum((action**2).sum(axis=2), axis=1) + np.where(
        stays, (action[:, -2] ** 2).sum(axis=1), 0.0
    )
    returns = np.where(stays, 0.0, -100.0) - np.nan_to_num(cost)
    return {
        "survival": float(stays.mean()),
        "return": (float(returns.mean()), *bootstrap_interval(returns)),
        "place": settled.mean(axis=0)[:2],
        "spread": settled.std(axis=0)[:2],
        "tilt": float(np.degrees(tilt.mean())),
        "deficit": float(1.0 - wake[i, j].mean()),
        "effort": float((pushes**2).sum(axis=1).mean()),
        "effort_of_the_mean": float((mean**2).sum()),
        "mean_action": mean,
        "stream_effort": float(((free / FORCE) ** 2).mean()),
        "stream_effort_along": (found["drag_in_the_stream"][0] / FORCE) ** 2,
        "by_phase": by_phase(lift[..., 0], action),
    }


def table(studies: list[dict[str, Any]]) -> str:
    """Return a Markdown table with a row for each policy and resolution."""
    lines = [
        "| policy | trained at | evaluated at | survival rate | return | mean x, y | std of x, y | tilt | "
        "wake deficit | effort per action | effort of the mean action | mean action | "
        "effort in the free stream, at these angles | effort in the free stream, along it |",
        "| --- |" + " --: |" * 13,
    ]
    for found in studies:
        n = numbers(found)
        pair = "{:.2f}, {:.2f}".format
        cells = [
            _who(found).partition("\n")[0], found["trained_at"], found["cells_per_diameter"],
            f"{100 * n['survival']:.0f} %",
            "{:.1f} [{:.1f}, {:.1f}]".format(*n["return"]),
            pair(*n["place"]), pair(*n["spread"]), f"{n['tilt']:.0f} degrees", f"{n['deficit']:.2f}",
            f"{n['effort']:.3f}", f"{n['effort_of_the_mean']:.3f}", ", ".join(f"{a:.2f}" for a in n["mean_action"]),
            f"{n['stream_effort']:.2f}", f"{n['stream_effort_along']:.3f}",
        ]  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def _who(found: dict[str, Any]) -> str:
    """Return a policy's label in two lines: ``SAC, seed 0`` and ``16 cells per D``."""
    who = AGENTS.get(found["policy"])
    if who is None:
        learner, seed = re.fullmatch(r".*?_(.*)_seed(\d+)", found["policy"]).groups()  # type: ignore[union-attr]
        who = f"{NAMES.get(learner, learner)}, seed {seed}"
    return f"{who}\n{found['cells_per_diameter']} cells per D"


def draw(studies: list[dict[str, Any]], file: Path) -> None:
    """Plot each agent's positions over the mean wake, its mean action in each phase, and its effort over time."""
    figure = Figure(figsize=(11, 2.2 * len(studies) + 0.8), layout="constrained")
    FigureCanvasAgg(figure)
    grid = {"width_ratios": (0.9, 1, 1)}
    rows = figure.subplots(
        len(studies), 3, squeeze=False, sharex="col", sharey="col", gridspec_kw=grid
    )
    for (left, middle, right), found in zip(rows, studies, strict=True):
        place, action = np.array(found["place"], float), np.array(found["action"], float)
        shown = left.pcolormesh(
            ALONG, ACROSS, np.array(found["wake"]).T, cmap="RdBu", vmin=-1.0, vmax=1.0
        )
        left.plot(*place[:, SETTLED::5, :2].reshape(-1, 2).T, "k.", markersize=2, alpha=0.4)
        left.set(ylabel=f"{_who(found)}\ny / D", aspect="equal")
        phases = (np.arange(PHASES) + 0.5) / PHASES
        for column, name in enumerate(component_names(3)):
            colour = np.array(component_colour(column)) / 255
            middle.plot(
                phases, numbers(found)["by_phase"][:, column], "o-", color=colour, label=name
            )
        middle.axhline(0.0, color="0.8", zorder=0)
        middle.set(ylabel="action a")
        effort = np.nanmean((action[:, :-1] ** 2).sum(axis=2), axis=0)
        right.plot(effort, linewidth=1, color=np.array(EFFORT) / 255)
        right.set(ylabel="effort $|a|^2$")
    highest = max(
        np.max(np.asarray(line.get_ydata())) for row in rows for line in row[2].get_lines()
    )
    # rows share the y axis, so set the limits once, from all rows
    rows[0, 2].set_ylim(0.0, 1.05 * highest)
    figure.colorbar(
        shown,
        ax=rows[:, 0],
        label="mean u / U without the agent",
        location="bottom",
        shrink=0.8,
        aspect=40,
        fraction=0.04 / len(studies),
        pad=0.06 / len(studies),
    )
    figure.legend(*rows[0, 1].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    for axis, title, label in zip(
        rows[0],
        (
            f"places after {SETTLED} actions",
            "mean action in the phase of the cylinder's lift",
            "effort, mean over surviving agents",
        ),
        ("x / D from the flat side", "part of the period", "action"),
        strict=True,
    ):
        axis.set_title(title)
        rows[-1, list(rows[0]).index(axis)].set_xlabel(label)
    save_plot(figure, file)


def main() -> None:
    """Parse the command line and run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=("watch", "page"))
    parser.add_argument(
        "policies",
        nargs="*",
        type=Path,
        help="folders of trainings, such as runs/figure6/narrow/JOB",
    )
    parser.add_argument("--cells", nargs="+", type=int, default=[16, 32])
    options = parser.parse_args()
    if options.command == "page":
        found = read(RESULTS)
        fill_in(PAGE, "learning/learned", "table", table(found))
        draw(found, PAGE.parent / "images" / "learned.png")
        return
    for policy in options.policies:
        for cells in options.cells:
            name = {"name": f"{policy.name}_{cells}"}
            result = name | study(policy, cells) | current_origin()
            pack(RESULTS, [result], replace=True)
            print(table([result]), flush=True)


if __name__ == "__main__":
    main()
