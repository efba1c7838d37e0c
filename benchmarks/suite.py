"""Show the suite of flow-control tasks: table of the README, gallery of docs/index.md, and curves of docs/tasks.md.

`python benchmarks/suite.py` writes them from the stored results of baselines and trainings.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from matplotlib.figure import Figure
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)

from benchmarks.learning.baselines import of_seeds  # noqa: E402
from benchmarks.pages import fill_in, save_plot  # noqa: E402
from benchmarks.studies import RESULTS, Row, read, read_by_method  # noqa: E402
from coupling.run.aggregate import interquartile_mean  # noqa: E402

__all__ = ["curves", "durations", "gallery", "table"]

PROBES = "V-RACER, wake"
LONG = "V-RACER + centred advantages, state-dependent std, LSTM, sequences, 4 base, 96,000 actions"
"""Methods of square_jets_learners.parquet that the README shows besides the preset."""


class Task(NamedTuple):
    """A task of the suite.

    ``evaluation`` is the file of its baselines; ``measure`` the quantity in which controllers are compared, "return"
    for the cost; ``film`` the name of its film in docs/images.
    """

    title: str
    page: str
    control: str
    evaluation: str
    measure: str
    film: str


TASKS = {
    "cylinder_jets": Task(
        "Jets on a cylinder", "cylinder_jets.md", "two jets, no net flow",
        "drag_tasks/cylinder_jets_evaluate.json", "net power", "jets",
    ),
    "square_jets": Task(
        "Jets on a square", "square_jets.md", "jets, observing base pressure",
        "drag_tasks/square_jets_evaluate.json", "net power", "square_jets",
    ),
    "rotating_cylinder": Task(
        "Rotating cylinder", "rotating_cylinder.md", "rotation",
        "drag_tasks/rotating_cylinder_evaluate.json", "net power", "rotating_cylinder",
    ),
    "fluidic_pinball": Task(
        "Fluidic pinball", "pinball.md", "rotation of three cylinders",
        "drag_tasks/fluidic_pinball_evaluate.json", "net power", "pinball",
    ),
    "pitching_foil": Task(
        "Pitching foil", "pitching_foil.md", "pitch of a foil in gusts", "pitching_foil/evaluate.json", "C_L",
        "pitching_foil",
    ),
    "backward_step": Task(
        "Backward-facing step", "backward_step.md", "a jet, against amplified noise",
        "backward_step/evaluate.json", "return", "backward_step",
    ),
    "open_cavity": Task(
        "Open cavity", "open_cavity.md", "a jet, against oscillations", "open_cavity/evaluate.json", "return",
        "open_cavity",
    ),
    "rayleigh_benard": Task(
        "Convection", "rayleigh_benard.md", "ten heaters, against convection",
        "rayleigh_benard/evaluate.json", "Nu", "rayleigh_benard",
    ),
}  # fmt: skip
NAMES = {"boat_tailing": "boat tailing", "linear_feedback": "linear feedback", "pd": "PD"}
"""Names of baselines in the table, if they differ."""


def baselines(task: str) -> dict[str, Any]:
    """Return the results of the baselines of a task, by name."""
    kept = json.loads((RESULTS / TASKS[task].evaluation).read_text())
    return dict(kept["found"])


def trainings(task: str) -> list[Row]:
    """Return the trainings of the preset `quick` of a task."""
    return read(RESULTS / f"{task}_quick.parquet")


def value(result: dict[str, Any], measure: str) -> float:
    """Return the quantity in which controllers are compared, of which less is better."""
    if measure == "return":
        return -float(result["mean_return"])
    return float(result["measures"][measure]["rms" if measure == "C_L" else "mean"])


def best_baseline(task: str) -> str:
    """Return the name of the best simple controller."""
    found = baselines(task)
    simple = [name for name in found if name not in ("zero", "random")]
    return min(simple, key=lambda name: value(found[name], TASKS[task].measure))


def _seeds(rows: list[Row]) -> str:
    return f"{len(rows)} seed{'s' if len(rows) > 1 else ''}"


def cells(task: str) -> tuple[str, str, str]:
    """Return the values without control, with the best simple controller and with trained agents."""
    measure, found, best = TASKS[task].measure, baselines(task), best_baseline(task)
    zero, trained = found["zero"], of_seeds(trainings(task))
    name, seeds = NAMES.get(best, best), _seeds(trainings(task))
    none, simple, agent = (value(each, measure) for each in (zero, found[best], trained))
    if measure == "C_L":
        return f"rms of C_L {none:.3f}", f"{name}: {simple:.3f}", f"{agent:.3f}, {seeds}"
    if measure == "return":
        energy = zero["measures"]["energy"]["mean"]
        changes = [f"{100 * (each / none - 1):+.0f} %" for each in (simple, agent)]
        return (
            f"energy {1e3 * energy:.1f}e-3",
            f"{name}: cost {changes[0]}",
            f"{changes[1]}, {seeds}",
        )
    simply, learned = (f"{100 * (each / none - 1):+.1f} %" for each in (simple, agent))
    if measure == "Nu":
        return f"Nu {none:.2f}", f"{name}: Nu {simply}", f"{learned}, {seeds}"
    without, file = f"C_D {none:.2f}", RESULTS / "drag_tasks" / f"{task}_steady.json"
    if file.exists():
        without += f" (steady flow {json.loads(file.read_text())['measures']['C_D']:.2f})"
    if task == "square_jets":
        others = read_by_method(RESULTS / "square_jets_learners.parquet")
        probes, lstm = (
            f"{100 * (value(of_seeds(others[method]), measure) / none - 1):+.1f} % ({_seeds(others[method])})"
            for method in (PROBES, LONG)
        )
        agents = f"{learned} ({seeds}); probes {probes}; LSTM, longer {lstm}"
        return without, f"{name}: net power {simply}", agents
    return without, f"{name}: net power {simply}", f"{learned}, {seeds}"


def wake() -> str:
    """Return the row of the wake, whose controllers are compared by the share of episodes in which they stay in it."""
    survival = [
        100 * row["evaluation"]["after"]["survival"] for row in read(RESULTS / "demo_seeds.parquet")
    ]
    demo = next(row for row in read(RESULTS / "demo_trials.parquet") if row["name"] == "make_demo")
    zero = demo["evaluation"]["after"]["baselines"]["zero"]["mean_length"]
    searched = json.loads((RESULTS / "linear_feedback" / "evaluation.json").read_text())
    feedback = 100 * searched["searched, narrow starts, at 16"]["survival"]
    each = (
        f"leaves after {zero:.1f} actions, on average",
        f"linear feedback: stays in {feedback:.0f} % of episodes",
        f"{min(survival):.0f} to {max(survival):.0f} %, {len(survival)} seeds",
    )
    return (
        f"| `d_cylinder_wake/quick` | force and torque on a drafting ellipse | {' | '.join(each)} |"
    )


def table() -> str:
    """Return the Markdown table of the README, with a row for each task."""
    lines = [
        "| `flowsim train ...` | control by | without control | best simple controller | trained agent |",
        "| --- | --- | --- | --- | --- |",
        wake(),
    ]
    for task, shown in TASKS.items():
        each = " | ".join(cells(task))
        lines.append(f"| [`{task}/quick`](docs/{shown.page}) | {shown.control} | {each} |")
    return "\n".join(lines)


def gallery() -> str:
    """Return a Markdown table of the films, two a row, with the values of the README above them."""
    lines = ["| | |", "| --- | --- |"]
    for pair in zip(*[iter(TASKS)] * 2, strict=True):
        captions, films = [], []
        for task in pair:
            shown, (without, _, trained) = TASKS[task], cells(task)
            kind = {"net power": "net power ", "return": "cost ", "Nu": "Nu "}.get(
                shown.measure, ""
            )
            captions.append(
                f"[{shown.title}]({shown.page}): {without} without control; trained agents: {kind}{trained}"
            )
            films.append(
                f"![{shown.title}: a trained agent and the flow without control](images/{shown.film}.webp)"
            )
        lines += [f"| {' | '.join(each)} |" for each in (captions, films)]
    return "\n".join(lines)


def durations() -> str:
    """Return a Markdown table of the trainings' actions and durations."""
    lines = [
        "| preset | seeds | actions | minutes, with evaluation | commit |",
        "| --- | --: | --: | --: | --- |",
    ]
    for task in TASKS:
        rows = trainings(task)
        minutes = sorted(row["wall_seconds"] / 60 for row in rows)
        between = f"{minutes[0]:.0f} to {minutes[-1]:.0f}" if len(rows) > 1 else f"{minutes[0]:.0f}"
        commits = ", ".join(
            sorted({f"`{run['commit'][:8]}`" for row in rows for run in row["runs"]})
        )
        lines.append(
            f"| `{task}/quick` | {len(rows)} | {steps_of(rows[0]):,} | {between} | {commits} |"
        )
    return "\n".join(lines)


def steps_of(row: Row) -> int:
    """Return the number of actions of a training."""
    return int(yaml.safe_load(row["config"])["run"]["steps"])


def training_curve(row: Row, most: int = 24) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return actions and the mean return of as many successive training episodes, at most so many points.

    The parallel environments end their episodes together, so a point is the mean over whole rounds of them.
    """
    at = np.array([episode["environment_steps"] for episode in row["episodes"]])
    returns = np.array([episode["return"] for episode in row["episodes"]])
    rounds = len(returns) // int(yaml.safe_load(row["config"])["workers"]["agents"])
    parts = np.array_split(np.argsort(at, kind="stable"), min(rounds, most))
    return np.array([at[part].max() for part in parts]), np.array(
        [returns[part].mean() for part in parts]
    )


def curves() -> Figure:
    """Plot the training returns of every task, beside the returns without control and of the best baseline."""
    figure = Figure(figsize=(12.0, 5.6), layout="constrained")
    for axis, (task, shown) in zip(figure.subplots(2, 4).flat, TASKS.items(), strict=True):
        rows, found, best = trainings(task), baselines(task), best_baseline(task)
        each = [training_curve(row) for row in rows]
        for actions, returns in each:
            axis.plot(actions / 1e3, returns, color="C0", alpha=0.3, linewidth=0.8)
        shortest = min(len(returns) for _, returns in each)
        middle = [
            interquartile_mean(at) for at in np.array([curve[:shortest] for _, curve in each]).T
        ]
        axis.plot(
            each[0][0][:shortest] / 1e3, middle, color="C0", label=f"training, {_seeds(rows)}"
        )
        zero, simple = (found[name]["mean_return"] for name in ("zero", best))
        axis.axhline(zero, color="0.5", linestyle=":", label="no control")
        axis.axhline(simple, color="C1", linestyle="--", label=NAMES.get(best, best))
        axis.set(title=shown.title, xlabel="1,000 actions", ylabel="return")
        axis.legend(frameon=False, fontsize=8)
    return figure


def main() -> None:
    """Write the tables and the picture."""
    fill_in(ROOT / "README.md", "suite", "tasks", table())
    fill_in(ROOT / "docs" / "index.md", "suite", "gallery", gallery())
    fill_in(ROOT / "docs" / "tasks.md", "suite", "durations", durations())
    save_plot(curves(), ROOT / "docs" / "images" / "suite.png")


if __name__ == "__main__":
    main()
