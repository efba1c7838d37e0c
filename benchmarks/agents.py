"""Train the agents that come with the package, ship them, and write their cards.

    python benchmarks/agents.py train wake         # runs/agents/wake; goes on where it stopped, then ships it
    python benchmarks/agents.py page               # docs/agents.md between its marks

A clean commit is asked for, because the card names it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)

from benchmarks.evidence import clean_commit  # noqa: E402
from benchmarks.pages import fill_in  # noqa: E402
from coupling.errors import RunError  # noqa: E402
from coupling.run.agents import describe_agents  # noqa: E402
from coupling.run.folder import RunFolder  # noqa: E402
from rl_agent import Policy  # noqa: E402

AGENTS = ROOT / "coupling" / "agents"
FLOWSIM = str(Path(sys.executable).parent / "flowsim")
COMMANDS = {
    "wake": ("d_cylinder_wake/quick", "run.steps=60000", "run.evaluate_episodes=48"),
    "swimmer": ("elliptical_swimmer/quick", "run.evaluate_episodes=48"),
    "pendulum": ("mujoco/inverted_double_pendulum", "run.steps=200000", "run.evaluate_episodes=48"),
}
"""Preset and changes of each agent, seed 0."""


def ship(run: RunFolder, folder: Path) -> None:
    """Keep settings, policy, evaluation, episodes and origin of a finished run, in place of what lay in the folder.

    Raises
    ------
    RunError
        When the run has no evaluation.
    """
    if not run.evaluation.exists():
        raise RunError(f"run {run.path} was not evaluated: train it with run.evaluate_episodes")
    policy = Policy.load(run.checkpoint)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    kept = RunFolder(folder)
    policy.save(kept.checkpoint)
    for name in ("config_file", "evaluation", "episodes", "starts"):
        getattr(kept, name).write_bytes(getattr(run, name).read_bytes())


def train(name: str) -> int:
    """Train an agent, or go on with it, and ship it; return the exit code."""
    run = Path("runs") / "agents" / name
    if not (ROOT / run / "config.yaml").exists():
        words = ["train", *COMMANDS[name], f"run.name={name}", "run.folder=runs/agents"]
    else:
        words = ["resume", str(run)]
    ended = subprocess.run([FLOWSIM, *words], cwd=ROOT).returncode
    if ended == 0:
        ship(RunFolder.find(ROOT / run), AGENTS / name)
    return ended


def cards() -> str:
    """Return a card for each agent, in Markdown."""
    parts = []
    for row in describe_agents(AGENTS):
        name = str(row["agent"])
        folder = AGENTS / name
        start = json.loads((folder / "starts.jsonl").read_text().splitlines()[0])
        judged = json.loads((folder / "evaluation.json").read_text())
        lines = [
            f"## {name}\n",
            f"`flowsim train {' '.join(COMMANDS[name])}`, seed {row['seed']}, commit `{start['commit'][:12]}`, "
            f"{row['steps']:,} actions of {row['learner']} on `{row['env']}`.\n",
            "| over the same starts | return | survival | actions |",
            "| --- | --: | --: | --: |",
        ]
        contestants = {
            "mean of the policy": judged["after"], "drawing": judged["drawing"], "before training": judged["before"],
            **judged["after"]["baselines"],
        }  # fmt: skip
        for label, result in contestants.items():
            low, high = result["ci95"]
            lines.append(
                f"| {label} | {result['mean_return']:.1f} [{low:.1f}, {high:.1f}] | {100 * result['survival']:.0f} % | "
                f"{result['mean_length']:.0f} |"
            )
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def main() -> int:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=("train", "page"))
    parser.add_argument("names", nargs="*", choices=[*COMMANDS, []], help="all when left out")
    options = parser.parse_args()
    if options.command == "page":
        fill_in(ROOT / "docs" / "agents.md", "agents", "cards", cards())
        return 0
    clean_commit(ROOT)
    return max(train(name) for name in options.names or COMMANDS)


if __name__ == "__main__":
    sys.exit(main())
