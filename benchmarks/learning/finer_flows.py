"""Evaluate the shipped agents, trained in coarse flows, in finer flows.

    python benchmarks/learning/finer_flows.py evaluate          # all missing evaluations
    python benchmarks/learning/finer_flows.py evaluate jets     # those of one agent
    python benchmarks/learning/finer_flows.py page              # docs/studies/finer_flows.md and its picture

At each resolution the agent, a baseline of its task and no control run the same held-out episodes, starting
from states of the flow that develops at that resolution. The agents are not retrained. Raw results:
benchmarks/results/finer_flows/.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

from benchmarks.pages import fill_in, save_plot  # noqa: E402
from benchmarks.studies import RESULTS as STUDIES  # noqa: E402
from benchmarks.studies import current_origin, write_json  # noqa: E402
from coupling.evaluation.evaluate import baselines_of  # noqa: E402
from coupling.evaluation.pool import EvaluationPool  # noqa: E402
from coupling.run.folder import RunFolder  # noqa: E402
from coupling.run.policies import load_controller  # noqa: E402
from rl_agent.rollout.seeds import EVALUATION_SEED  # noqa: E402

RESULTS = STUDIES / "finer_flows"
PAGE = ROOT / "docs" / "studies" / "finer_flows.md"
AGENTS = ROOT / "coupling" / "agents"
EPISODES = 10


class Study(NamedTuple):
    """Resolutions at which an agent is evaluated, and its baseline.

    ``cells`` are values of the option ``resolution``, the number of cells per ``length``, of which the first is that
    of the training; ``counts`` is the quantity compared: the name of a measure, or ``return``.
    """

    cells: tuple[int, ...]
    baseline: str
    counts: str
    length: str = "D"
    resolution: str = "cells_per_diameter"


PLAN = {
    "rotating": Study((12, 18, 24), "feedback", "net power"),
    "pinball": Study((12, 18, 24), "boat_tailing", "net power"),
    "jets": Study((20, 40), "opposition", "net power"),
    "foil": Study((32, 48, 64), "linear_feedback", "return", "c"),
    "square": Study((20, 40), "harmonic", "net power"),
    "pressure": Study((20, 40), "harmonic", "net power"),
    "step": Study((20, 40), "linear_feedback", "return", "h"),
    "cavity": Study((80, 120), "linear_feedback", "return", "L"),
    "heaters": Study((32, 48, 64), "pd", "Nu", "H", "cells_per_height"),
}


def value(found: dict[str, Any], counts: str) -> float:
    """Return the compared quantity of an evaluation: the mean return or the mean of a measure."""
    return float(found["mean_return"] if counts == "return" else found["measures"][counts]["mean"])


def evaluate(name: str) -> None:
    """Run the episodes at each missing resolution and store the results."""
    file = RESULTS / f"{name}.json"
    found: dict[str, Any] = json.loads(file.read_text())["found"] if file.exists() else {}
    folder, study = RunFolder(AGENTS / name), PLAN[name]
    config = folder.config()
    for cells in study.cells:
        if str(cells) in found:
            continue
        options = config.env_options | {study.resolution: cells}
        shipped = baselines_of(config.env, options, EVALUATION_SEED)
        controllers = {
            "zero": shipped["zero"],
            study.baseline: shipped[study.baseline],
            "trained": load_controller(folder, deterministic=True, seed=EVALUATION_SEED),
        }
        played = {}
        with EvaluationPool(config.env, options) as pool:
            for who, controller in controllers.items():
                played[who] = pool.play(controller, EPISODES, EVALUATION_SEED).summary()
                counted = value(played[who], study.counts)
                print(f"{name}, {cells} cells, {who}: {study.counts} {counted:.4f}", flush=True)
        found[str(cells)] = played | current_origin()
        kept = {"agent": name, "env": config.env, "episodes": EPISODES, "found": found}
        write_json(file, kept)


def read_kept() -> dict[str, dict[str, Any]]:
    """Return the stored results of each agent by resolution."""
    files = {name: RESULTS / f"{name}.json" for name in PLAN}
    return {
        name: json.loads(file.read_text())["found"] for name, file in files.items() if file.exists()
    }


def change(played: dict[str, Any], who: str, counts: str) -> float:
    """Return the change of the compared quantity from no control, in percent."""
    return 100.0 * (value(played[who], counts) / value(played["zero"], counts) - 1.0)


def table(kept: dict[str, dict[str, Any]]) -> str:
    """Return a Markdown table with a row for each agent and resolution."""
    lines = [
        "| agent | cells per length | metric | no control | baseline | change | trained | change |",
        "| --- | --: | --- | --: | --: | --: | --: | --: |",
    ]
    for name, by_cells in kept.items():
        study = PLAN[name]
        for cells, played in by_cells.items():
            numbers = [f"{value(played['zero'], study.counts):.3f}"]
            for who in (study.baseline, "trained"):
                changed = change(played, who, study.counts)
                numbers += [f"{value(played[who], study.counts):.3f}", f"{changed:+.1f} %"]
            resolution = f"{cells} per {study.length}"
            lines.append(f"| `{name}` | {resolution} | {study.counts} | {' | '.join(numbers)} |")
    return "\n".join(lines)


def table_of_loads(kept: dict[str, dict[str, Any]]) -> str:
    """Return a Markdown table of drag, lift and actuation power of every controller whose task measures them."""
    lines = [
        "| agent | cells per length | controller | C_D | C_L | actuation power |",
        "| --- | --: | --- | --: | --: | --: |",
    ]
    for name, by_cells in kept.items():
        for cells, played in by_cells.items():
            for who, result in played.items():
                found = result.get("measures", {}) if isinstance(result, dict) else {}
                shown = [found[key] for key in ("C_D", "C_L", "actuation power") if key in found]
                if len(shown) < 3:
                    continue
                each = (
                    f"{one['mean']:.3f} +- {one['rms']:.3f}".replace("-0.000 ", "0.000 ")
                    for one in shown
                )
                lines.append(
                    f"| `{name}` | {cells} per {PLAN[name].length} | {who} | {' | '.join(each)} |"
                )
    return "\n".join(lines)


def picture(kept: dict[str, dict[str, Any]]) -> Figure:
    """Plot the saving against the resolution, one panel per agent."""
    columns = min(len(kept), 4)
    rows = -(-len(kept) // columns)
    figure = Figure(figsize=(2.4 * columns, 2.6 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat[len(kept) :]:
        axis.remove()
    for axis, (name, by_cells) in zip(axes.flat, kept.items(), strict=False):
        study, cells = PLAN[name], [int(key) for key in by_cells]
        for who, style in (("trained", "o-"), (study.baseline, "s--")):
            saved = [-change(played, who, study.counts) for played in by_cells.values()]
            axis.plot(cells, saved, style, label=who.replace("_", " "), clip_on=False)
        axis.set(title=name, xlabel=f"cells per {study.length}", xticks=cells)
        axis.set_ylim(bottom=0.0)
        axis.legend(frameon=False, fontsize="small")
    for axis in axes[:, 0]:
        axis.set_ylabel("saved against no control, %")
    return figure


def main() -> None:
    """Parse the command line and run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=("evaluate", "page"))
    parser.add_argument("agents", nargs="*", metavar="agent", help=", ".join(PLAN))
    options = parser.parse_args()
    if unknown := set(options.agents) - set(PLAN):
        parser.error(f"no study of {', '.join(unknown)}; there are {', '.join(PLAN)}")
    if options.command == "evaluate":
        for name in options.agents or PLAN:
            evaluate(name)
        return
    kept = read_kept()
    fill_in(PAGE, "learning/finer_flows", "results", table(kept))
    fill_in(PAGE, "learning/finer_flows", "loads", table_of_loads(kept))
    save_plot(picture(kept), PAGE.parent / "images" / "finer_flows.png")


if __name__ == "__main__":
    main()
