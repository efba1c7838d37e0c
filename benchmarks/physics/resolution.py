"""Resolution needed for the D-cylinder wake: the same simulations at several resolutions.

    python benchmarks/physics/resolution.py run   # the missing studies
    python benchmarks/physics/resolution.py evaluate NAME=runs/RUN ...  # agents (also shipped ones) at all resolutions
    python benchmarks/physics/resolution.py page  # docs/studies/resolution.md and its pictures

``run`` simulates the cylinder alone (forces, wake), the ellipse fixed in the wake (force and torque), and the free
ellipse under the same actions from the same initial conditions. These are given by the phase of the shedding rather
than the time, because the wakes of two resolutions drift apart. ``evaluate`` evaluates a policy's mean action. Both are
resumable. Raw results: benchmarks/results/resolution.parquet and resolution_policies.parquet, one row per resolution.

The study, the evaluation and the page are in one file because they share the flow and the names of the results.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

from benchmarks.pages import fill_in, save_plot  # noqa: E402
from benchmarks.studies import RESULTS as STUDIES  # noqa: E402
from benchmarks.studies import current_origin, pack, read  # noqa: E402
from cases.d_cylinder_wake.env import CYLINDER, STREAM, DCylinderWake, WakeOptions  # noqa: E402
from cases.ellipse_agent import ASPECT_RATIO  # noqa: E402
from coupling.evaluation.evaluate import PolicyController, evaluate  # noqa: E402
from coupling.evaluation.pool import EvaluationPool  # noqa: E402
from coupling.run.agents import find_agent  # noqa: E402
from coupling.run.policies import load_controller  # noqa: E402
from flowsim import Ellipse, HalfDisk, Sides, Simulation  # noqa: E402
from flowsim.validation.cylinder import disturb_wake  # noqa: E402
from rl_agent import Policy  # noqa: E402
from rl_agent.rollout.seeds import EVALUATION_SEED  # noqa: E402

RESULTS = STUDIES / "resolution.parquet"
POLICIES = STUDIES / "resolution_policies.parquet"
PAGE = ROOT / "docs" / "studies" / "resolution.md"
CELLS = (8, 12, 16, 24, 32, 48, 64)
DEVELOPMENT, PERIODS, PHASES = 100.0, 6, 8
PROBE = (CYLINDER[0] + 1.5, CYLINDER[1])
"""Point whose cross-stream velocity defines the phase of the shedding."""
BEHIND = np.linspace(0.75, 3.25, 11)
"""Distances behind the flat side, in D, at which the wake is measured on the axis."""
HELD = (1.75, 0.0)
STARTS = ((1.25, 0.25, 0.0), (1.75, 0.0, np.pi / 16), (2.25, -0.25, -np.pi / 16))
"""Initial conditions of the free ellipse: x, y (from the middle of the flat side) and angle."""
ACTIONS = 8
SEED = 7

FloatArray = NDArray[np.float64]
State = dict[str, NDArray[Any]]


# --- study at one resolution -------------------------------------------------------------------------------------


def options_of(cells: int) -> WakeOptions:
    """Return the options of the preset ``default`` at a resolution, with an impulsive start."""
    return WakeOptions.model_validate({"cells_per_diameter": cells, "start": "impulsive"})


def flow(cells: int, *others: Ellipse) -> Simulation:
    """Return the simulation of the task's box with the cylinder and other bodies."""
    options = options_of(cells)
    return Simulation(
        options.grid(), Sides(**options.sides.model_dump()), [HalfDisk(diameter=1.0, center=CYLINDER), *others],
        viscosity=1.0 / options.reynolds, stream=STREAM, cfl=options.cfl, penalty=options.penalty, dtype=options.dtype,
    )  # fmt: skip


def record(sim: Simulation, duration: float, look: Any) -> FloatArray:
    """Advance, and return a row with the time and the values of ``look`` after every step."""
    rows = []

    def note(_: Simulation) -> NDArray[np.bool_]:
        rows.append([float(sim.time[0]), *look(sim)])
        return np.zeros(1, bool)

    sim.advance(duration, stop=note)
    return np.array(rows)


def at_probe(sim: Simulation) -> float:
    """Return the cross-stream velocity at the probe."""
    return float(sim.sample_velocity(np.array([[PROBE]]))[0, 0, 1])


def rising(time: FloatArray, signal: FloatArray) -> FloatArray:
    """Return the times at which a signal crosses zero upwards, interpolated linearly."""
    at = np.flatnonzero((signal[:-1] < 0.0) & (signal[1:] >= 0.0))
    share = -signal[at] / (signal[at + 1] - signal[at])
    return np.asarray(time[at] + share * (time[at + 1] - time[at]))


def developed(cells: int) -> tuple[dict[str, Any], list[State]]:
    """Return measurements of the cylinder alone, and its states at equally spaced phases starting from zero."""
    sim = flow(cells)
    disturb_wake(sim)
    early = record(sim, DEVELOPMENT, lambda sim: (at_probe(sim),))
    late = early[early[:, 0] > 0.8 * DEVELOPMENT]
    period = float(np.diff(rising(late[:, 0], late[:, 1])).mean())
    points = np.stack([CYLINDER[0] + BEHIND, np.full_like(BEHIND, CYLINDER[1])], axis=-1)[None]

    def look(sim: Simulation) -> tuple[float, ...]:
        velocity = sim.sample_velocity(points)[0]
        return *(2.0 * sim.body_state.force[0, 0]), at_probe(sim), *velocity[:, 0], *velocity[:, 1]

    history = record(sim, PERIODS * period, look)
    zeros = rising(history[:, 0], history[:, 3])
    u, v = history[:, 4 : 4 + len(BEHIND)], history[:, 4 + len(BEHIND) :]
    found = {
        "period": float(np.diff(zeros).mean()),
        "drag": float(history[:, 1].mean()),
        "lift_rms": float(history[:, 2].std()),
        "behind": BEHIND.tolist(),
        "deficit": (1.0 - u.mean(axis=0)).tolist(),
        "u_rms": u.std(axis=0).tolist(),
        "v_rms": v.std(axis=0).tolist(),
    }
    # advance to phase zero, then in equal parts of a period
    ahead = (
        zeros[-1]
        + found["period"] * np.ceil((sim.time[0] - zeros[-1]) / found["period"])
        - sim.time[0]
    )
    states = []
    for phase in range(PHASES):
        sim.advance(float(ahead) if phase == 0 else found["period"] / PHASES)
        states.append(sim.get_state())
    return found, states


def put(task: DCylinderWake, index: int, wake: State, start: tuple[float, float, float]) -> None:
    """Place the ellipse at rest in a developed wake."""
    simulation, state = task.simulation, dict(wake)
    for name, array in wake.items():
        if name.startswith("body_"):
            state[name] = np.concatenate([array, np.zeros_like(array)])
        elif name in ("time", "steps"):
            state[name] = np.zeros_like(array)
    simulation.set_state(index, state)
    simulation.body_state.position[index, task.agent_bodies[0]] = (
        CYLINDER[0] + start[0],
        CYLINDER[1] + start[1],
    )
    simulation.body_state.angle[index, task.agent_bodies[0]] = start[2]


def held(cells: int, period: float) -> dict[str, float]:
    """Return the force and torque on an ellipse fixed in the wake, aligned with the stream."""
    place = CYLINDER[0] + HELD[0], CYLINDER[1] + HELD[1]
    sim = flow(cells, Ellipse(major=1.0, aspect=ASPECT_RATIO, center=place))
    disturb_wake(sim)
    record(sim, DEVELOPMENT, lambda sim: ())

    def look(sim: Simulation) -> tuple[float, ...]:
        return *sim.body_state.force[0, 1], sim.body_state.torque[0, 1]

    history = record(sim, PERIODS * period, look)
    return {
        "force_x": float(history[:, 1].mean()),
        "force_y_rms": float(history[:, 2].std()),
        "torque_rms": float(history[:, 3].std()),
    }


def actions_of(kind: str) -> FloatArray:
    """Return the actions of every free ellipse, shape (ACTIONS, 3)."""
    if kind == "none":
        return np.zeros((ACTIONS, 3))
    return np.random.default_rng(SEED).uniform(-0.4, 0.4, (ACTIONS, 3))


def free(cells: int, wakes: list[State], kind: str) -> dict[str, Any]:
    """Return the trajectories of free ellipses, shape (starts x phases, actions + 1, 3), and the torque of the flow."""
    places = [(wake, start) for start in STARTS for wake in wakes]
    task = DCylinderWake(options_of(cells), len(places))
    simulation, everyone = task.simulation, np.ones(len(places), bool)
    for index, (wake, start) in enumerate(places):
        put(task, index, wake, start)
    simulation.settle()
    simulation.fences[:, task.agent_bodies[0]] = -np.inf, np.inf, -np.inf, np.inf
    body = simulation.body_state
    path, torques = (
        [np.c_[body.position[:, task.agent_bodies[0]], body.angle[:, task.agent_bodies[0]]]],
        [],
    )
    for action in actions_of(kind):
        task.actuate(np.broadcast_to(action, (len(places), 3)))
        body.impulse[:] = 0.0
        simulation.advance(1.0, active=everyone)
        path.append(
            np.c_[body.position[:, task.agent_bodies[0]], body.angle[:, task.agent_bodies[0]]]
        )
        torques.append(body.impulse[:, task.agent_bodies[0], 2].copy())
    return {"path": np.stack(path, axis=1).tolist(), "torque": np.stack(torques, axis=1).tolist()}


def study(cells: int) -> dict[str, Any]:
    """Return the complete study at a resolution."""
    alone, wakes = developed(cells)
    return {
        "cells_per_diameter": cells,
        "alone": alone,
        "held": held(cells, alone["period"]),
        "free": {kind: free(cells, wakes, kind) for kind in ("none", "random")},
    }


# --- policies ----------------------------------------------------------------------------------------------------


def agent_of(place: Path) -> tuple[str, dict[str, Any], PolicyController]:
    """Return task, options and mean-action controller of a run, a shipped agent or a training of figure 6."""
    if not (place / "settings.json").exists():
        folder = find_agent(place)
        config = folder.config()
        return (
            config.env,
            config.env_options,
            load_controller(folder, deterministic=True, seed=EVALUATION_SEED),
        )
    settings = json.loads((place / "settings.json").read_text())["settings"]
    controller = PolicyController(
        Policy.load(place / "checkpoint"), deterministic=True, seed=EVALUATION_SEED
    )
    return settings["env"], settings["env_options"], controller


def evaluate_policy(
    name: str, place: Path, cells: Iterable[int], starts: str, episodes: int, results: Path
) -> None:
    """Evaluate the mean action of a policy at every missing resolution."""
    env, env_options, controller = agent_of(place)
    known = {row["name"] for row in read(results)}
    # recorded now, because the first result changes the working tree
    origin = current_origin()
    for count in cells:
        if f"{name}/{count}" in known:
            continue
        options = {**env_options, "cells_per_diameter": count, "start_range": starts}
        with EvaluationPool(env, options) as pool:
            result = evaluate(env, options, controller, episodes=episodes, pool=pool).summary()
        found = {
            "name": f"{name}/{count}",
            "env": env,
            "env_options": env_options,
            "starts": starts,
            "result": result,
        } | origin
        pack(results, [found])
        print(f"{name} at {count}: {result}", flush=True)


# --- page --------------------------------------------------------------------------------------------------------


def distances(
    found: dict[str, Any], finest: dict[str, Any], kind: str, column: slice = slice(0, 2)
) -> FloatArray:
    """Return the median distance, in D or rad, of the bodies from those in the finest flow after each action."""
    ours, theirs = (np.array(each["free"][kind]["path"])[..., column] for each in (found, finest))
    apart = ours - theirs
    if column.start == 2:
        apart = np.angle(np.exp(1j * apart))
    return np.asarray(np.median(np.linalg.norm(apart, axis=-1), axis=0))


def table(studies: list[dict[str, Any]]) -> str:
    """Return the Markdown table of the page."""
    lines = [
        "| cells per D | thickness of the ellipse, cells | C_D | rms C_L | period | wake deficit | rms v | "
        "fixed: F_x | fixed: rms F_y | fixed: rms torque | distance, no control | distance, random actions |",
        "| --: " * 12 + "|",
    ]
    at = int(np.argmin(abs(BEHIND - HELD[0])))
    for found in studies:
        alone, force = found["alone"], found["held"]
        apart = [
            "-"
            if found is studies[-1]
            else ", ".join(f"{distances(found, studies[-1], kind)[n]:.2f}" for n in (1, 2, 4))
            for kind in ("none", "random")
        ]
        cells = found["cells_per_diameter"]
        numbers = [
            str(cells), f"{ASPECT_RATIO * cells:.1f}", f"{alone['drag']:.2f}", f"{alone['lift_rms']:.2f}",
            f"{alone['period']:.2f}", f"{alone['deficit'][at]:.2f}", f"{alone['v_rms'][at]:.2f}",
            f"{force['force_x']:.3f}", f"{force['force_y_rms']:.3f}", f"{force['torque_rms']:.4f}", *apart,
        ]  # fmt: skip
        lines.append("| " + " | ".join(numbers) + " |")
    return "\n".join(lines)


def draw(studies: list[dict[str, Any]], file: Path) -> None:
    """Plot the wakes, the distances from the finest flow, and one trajectory."""
    figure = Figure(figsize=(11, 6.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 3)
    colours = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.9, len(studies)))
    finest, time = studies[-1], np.arange(ACTIONS + 1)
    for found, colour in zip(studies, colours, strict=True):
        style: dict[str, Any] = {"color": colour, "label": f"{found['cells_per_diameter']}"}
        alone = found["alone"]
        axes[0, 0].plot(alone["behind"], alone["deficit"], **style)
        axes[0, 1].plot(alone["behind"], alone["v_rms"], **style)
        for kind, line in (("none", "-"), ("random", "--")):
            if found is not finest:
                axes[0, 2].plot(time, distances(found, finest, kind), line, color=colour)
                axes[1, 2].plot(
                    time, distances(found, finest, kind, slice(2, 3)), line, color=colour
                )
        for axis, kind in ((axes[1, 0], "none"), (axes[1, 1], "random")):
            axis.plot(
                *np.array(found["free"][kind]["path"])[PHASES, :7, :2].T
                - np.array(CYLINDER)[:, None],
                "o-",
                **style,
            )
    for axis, title, x, y in (
        (axes[0, 0], "mean deficit on the axis", "x / D", "1 - u / U"),
        (axes[0, 1], "rms of v on the axis", "x / D", "rms of v / U"),
        (axes[0, 2], "distance from the finest flow", "actions", "distance / D"),
        (axes[1, 0], "one body without control, 6 actions", "x / D", "y / D"),
        (axes[1, 1], "the same with random actions", "x / D", "y / D"),
        (axes[1, 2], "angle from the finest flow", "actions", "angle / rad"),
    ):
        axis.set(title=title, xlabel=x, ylabel=y)
    axes[0, 2].set(ylim=(0, 2), xlim=(0, 6))
    axes[1, 2].set(xlim=(0, 6))
    for axis in axes[1, :2]:
        axis.set(xlim=(0.5, 7.0), ylim=(-0.5, 2.5))
    axes[0, 0].legend(title="cells per D", frameon=False, ncols=2)
    lines = [Line2D([], [], color="0.3", linestyle=line) for line in ("-", "--")]
    axes[0, 2].legend(lines, ["no control", "random actions"], frameon=False, loc="upper left")
    save_plot(figure, file)


def table_of_policies(policies: Path) -> str:
    """Return a Markdown table of the evaluation of each policy at each resolution."""
    lines = [
        "| policy | trained at | evaluated at | episodes | survival rate | return | episode length |",
        "| --- |" + " --: |" * 6,
    ]
    rows = {
        (name, int(cells)): row
        for row in read(policies)
        for name, _, cells in [row["name"].rpartition("/")]
    }
    for (name, cells), found in sorted(rows.items(), key=lambda item: item[0]):
        result, trained = found["result"], found["env_options"]["cells_per_diameter"]
        low, high = result["ci95"]
        lines.append(
            f"| {name} | {trained} | {cells} | {result['episodes']} | "
            f"{100 * result['survival']:.0f} % | {result['mean_return']:.0f} [{low:.0f}, {high:.0f}] | "
            f"{result['mean_length']:.0f} |"
        )
    return "\n".join(lines)


def write_page() -> None:
    """Fill in the tables of the page and plot the picture."""
    studies = sorted(read(RESULTS), key=lambda found: found["cells_per_diameter"])
    fill_in(PAGE, "physics/resolution", "table", table(studies))
    fill_in(PAGE, "physics/resolution", "policies", table_of_policies(POLICIES))
    draw(studies, PAGE.parent / "images" / "resolution.png")


# --- command -----------------------------------------------------------------------------------------------------


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["run", "evaluate", "page"])
    parser.add_argument("runs", nargs="*", metavar="NAME=RUN", help="policies to evaluate")
    parser.add_argument("--cells", nargs="+", type=int, default=list(CELLS), help="cells per D")
    parser.add_argument("--starts", choices=["narrow", "paper"], default="narrow")
    parser.add_argument("--episodes", type=int, default=24)
    return parser.parse_args()


def main() -> int:
    """Run the command."""
    options = parse()
    if options.command == "evaluate":
        for name, _, run in (word.partition("=") for word in options.runs):
            evaluate_policy(
                name, Path(run), options.cells, options.starts, options.episodes, POLICIES
            )
        return 0
    if options.command == "page":
        write_page()
        return 0
    known = {row["name"] for row in read(RESULTS)}
    origin = current_origin()
    for cells in options.cells:
        if str(cells) not in known:
            print(f"{cells} cells per D", flush=True)
            pack(RESULTS, [{"name": str(cells)} | study(cells) | origin])
    return 0


if __name__ == "__main__":
    sys.exit(main())
