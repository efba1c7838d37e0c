"""Record how the drag of the square and the commands of trained agents change during their held-out episodes.

    python benchmarks/learning/square_drag.py record "64 probes=square" "4 base pressures, LSTM=runs/RUN"
    python benchmarks/learning/square_drag.py page      # the table and the plot in docs/square_jets.md

An agent is a run folder or the name of a shipped agent. Each acts with its mean action in the ten held-out episodes.
Raw results: benchmarks/results/square_drag.json.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

from benchmarks.pages import fill_in, save_plot  # noqa: E402
from benchmarks.studies import RESULTS as STUDIES  # noqa: E402
from benchmarks.studies import current_origin, write_json  # noqa: E402
from cases.square_jets.env import SquareJetsVectorEnv  # noqa: E402
from coupling.run.agents import find_agent  # noqa: E402
from coupling.run.policies import load_controller  # noqa: E402
from rl_agent.rollout.seeds import EVALUATION_SEED, Purpose, episode_seed  # noqa: E402

RESULTS = STUDIES / "square_drag.json"
STEADY = STUDIES / "drag_tasks" / "square_jets_steady.json"
PAGE = ROOT / "docs" / "square_jets.md"
EPISODES = 10
QUARTERS = 4


def record(run: str) -> dict[str, Any]:
    """Play the held-out episodes of a run; return the drag and the rms of the commands, one value for each action."""
    folder = find_agent(Path(run))
    config = folder.config()
    controller = load_controller(folder, deterministic=True, seed=EVALUATION_SEED)
    env: Any = SquareJetsVectorEnv(EPISODES, **config.env_options)
    seeds = [
        episode_seed(Purpose.EVALUATION, EVALUATION_SEED, n, states=EPISODES)
        for n in range(EPISODES)
    ]
    observations, _ = env.reset(seed=seeds)
    controller.reset(EPISODES)
    drag, commands = [], []
    for _ in range(env.task.options.episode_actions):
        actions = np.clip(controller(observations), -1.0, 1.0).astype(np.float32)
        observations, _, _, _, info = env.step(actions)
        drag.append(float(np.mean(info["measures"]["C_D"])))
        commands.append(float(np.sqrt(np.mean(actions**2))))
    env.close()
    return {"drag": drag, "commands": commands, "sensors": config.env_options["sensors"]}


def quarters(values: list[float]) -> list[float]:
    """Return the mean of each quarter of an episode."""
    return [float(part.mean()) for part in np.array_split(np.array(values), QUARTERS)]


def table(agents: dict[str, dict[str, Any]]) -> str:
    """Return a Markdown table with a row for each agent: drag and commands in each quarter of an episode."""
    names = ("first", "second", "third", "last")
    lines = [
        "| agent |" + "".join(f" C_D, {name} quarter |" for name in names) + " rms command, last quarter |",
        "| --- |" + " --: |" * (QUARTERS + 1),
    ]  # fmt: skip
    for name, found in agents.items():
        drag = " | ".join(f"{value:.3f}" for value in quarters(found["drag"]))
        last = np.sqrt(
            np.mean(np.array(found["commands"][-len(found["commands"]) // QUARTERS :]) ** 2)
        )
        lines.append(f"| {name} | {drag} | {last:.3f} |")
    return "\n".join(lines)


def picture(agents: dict[str, dict[str, Any]], steady: float) -> Figure:
    """Plot the drag against the number of actions, and the drag of the steady flow."""
    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    axis = figure.subplots()
    for name, found in agents.items():
        axis.plot(np.arange(1, len(found["drag"]) + 1), found["drag"], label=name)
    axis.axhline(steady, color="black", linestyle=":", label="steady flow")
    axis.set(xlabel="action", ylabel="C_D, mean of ten episodes", xlim=(0, None))
    axis.legend(frameon=False, fontsize="small")
    return figure


def main() -> None:
    """Record agents, or write the table and the plot."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=("record", "page"))
    parser.add_argument("agents", nargs="*", metavar="NAME=RUN")
    options = parser.parse_args()
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if options.command == "record":
        # taken now, because the first result changes the working tree
        origin = current_origin()
        for given in options.agents:
            name, equals, run = given.rpartition("=")
            if not equals:
                parser.error(f"'{given}' is not of the form NAME=RUN")
            kept[name] = record(run) | origin
            print(name, [round(value, 3) for value in quarters(kept[name]["drag"])], flush=True)
            write_json(RESULTS, kept)
        return
    steady = json.loads(STEADY.read_text())["measures"]["C_D"]
    fill_in(PAGE, "learning/square_drag", "drag", table(kept))
    save_plot(picture(kept, steady), PAGE.parent / "images" / "square_drag.png")


if __name__ == "__main__":
    main()
