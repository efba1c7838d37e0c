"""Train the demo's agent with several seeds and settings, and write the tables of these trainings.

    python benchmarks/learning/demo_seeds.py run   # the missing trainings of five seeds and of the trials
    python benchmarks/learning/demo_seeds.py page  # docs/results.md and docs/decisions/tasks.md

Results are in benchmarks/results/demo_seeds.parquet and benchmarks/results/demo_trials.parquet.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

import yaml  # noqa: E402

from benchmarks.pages import fill_in  # noqa: E402
from benchmarks.studies import Row, read  # noqa: E402
from rl_agent.config.old_names import current_settings  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "demo_seeds.parquet"
TRIALS = RESULTS.with_stem("demo_trials")
TRIED = {
    "c4_memory_16384": ("agent.c_max_scale=4", "agent.buffer_size=16384"),
    "c16_memory_16384": ("agent.c_max_scale=16", "agent.buffer_size=16384"),
    "no_refer_memory_16384": ("agent.replay=none", "agent.buffer_size=16384"),
}
"""Overrides of the preset in each trial."""
BASELINES = {"zero": "no control", "random": "random actions", "pd": "PD controller"}
FINER = r"agent\W+?(-?[\d.]+)\W+?(-?[\d.]+), (-?[\d.]+)\]\W+[\d.]+\W+(\d+) %\W+(\d+)"
"""Pattern of the agent's row in the output of ``flowsim evaluate``: return, interval, survival rate, episodes."""
TRIAL_EVALUATION_SEED = 777
"""Evaluation seed of the trials: the setting was chosen from them, so they must not use the held-out episodes."""
SEEDS, SURVIVAL, MEDIAN = 5, 0.95, -50.0
"""Target: number of seeds, minimum survival rate of each, and the median return that each must exceed."""


def table() -> str:
    """Return a Markdown table with a row for each seed, and how many seeds reach the target."""
    lines = [
        "| seed | commit | policy after | survive 400 actions | failures after, actions | median return | "
        "mean return | 10 % quantile |",
        "| --: | --- | --: | --: | --- | --: | --: | --: |",
    ]
    reached = []
    for row in read(RESULTS):
        found, start = row["evaluation"], row["runs"][0]
        after = found["after"]
        reached.append(after["survival"] >= SURVIVAL and after["median_return"] > MEDIAN)
        lines.append(
            f"| {row['name'].removeprefix('seed')} | {start['commit'][:12]} | {_handed_out(row)} | "
            f"{_episodes(found)} | "
            f"{after['median_return']:.0f} | {after['mean_return']:.0f} "
            f"[{after['ci95'][0]:.0f}, {after['ci95'][1]:.0f}] | {_lowest_tenth(found['each']):.0f} |"
        )
    verdict = (
        f"{sum(reached)} of {len(reached)} trainings reach the target: at least {SURVIVAL:.0%} of the episodes "
        f"survive, and the median return is above {MEDIAN:.0f}. The target was set for {SEEDS} seeds."
    )
    return "\n".join([*lines, "", verdict])


def _handed_out(row: Row) -> str:
    """Return the environment steps after which the selected policy was saved, or that it is the last policy."""
    return f"{row['selection']['chosen']:,} actions" if "selection" in row else "the last one"


def _episodes(found: dict[str, Any]) -> str:
    """Return how many episodes survive, and the number of actions after which each of the others fails."""
    each = found["each"]
    survived = sum(each["survived"])
    lengths = zip(each["lengths"], each["survived"], strict=True)
    failed = sorted(length for length, survives in lengths if not survives)
    share = f"{survived} of {len(each['survived'])} ({found['after']['survival']:.0%})"
    return f"{share} | {', '.join(map(str, failed)) or '-'}"


def _lowest_tenth(each: dict[str, Any]) -> float:
    """Return the 10 % quantile of the episode returns."""
    returns = sorted(each["returns"])
    return float(returns[len(returns) // 10])


def trials() -> str:
    """Return a Markdown table with a row for each stored trial."""
    lines = [
        "| `agent.replay` | `agent.c_max_scale` | `agent.buffer_size` | far-policy at the end | return of the last "
        "1000 training actions | survive 400 actions | median return | lowest return |",
        "| --- |" + " --: |" * 7,
    ]
    rows = {row["name"]: row for row in read(TRIALS)}
    for row in [rows[f"{name}/seed0"] for name in TRIED if f"{name}/seed0" in rows]:
        agent = current_settings(yaml.safe_load(row["config"])["agent"])
        found, last = row["evaluation"], row["statistics"][-1]
        has_rule = agent["replay"] != "none"
        survived = found["each"]["survived"]
        cells = [
            agent["replay"],
            f"{agent['c_max_scale']:g}" if has_rule else "-",
            f"{agent['buffer_size']:,}",
            f"{float(last['far_fraction']):.0%}" if has_rule else "-",
            f"{float(last['return_mean']):.1f}",
            f"{sum(survived)} of {len(survived)}",
            f"{found['after']['median_return']:.0f}",
            f"{min(found['each']['returns']):.0f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def whole_demo() -> str:
    """Return the evaluations of one complete ``make demo`` and the time it took, in Markdown."""
    row = next(row for row in read(TRIALS) if row["name"] == "make_demo")
    found, output = row["evaluation"], row["output"]
    after = found["after"]
    controllers = {"mean action": after, "sampled actions": found["drawing"]} | {
        called: after["baselines"][name] for name, called in BASELINES.items()
    }
    lines = ["| flow | controller | survive 400 actions | return |", "| --- | --- | --: | --: |"]
    lines += [
        f"| 16 cells per D | {who} | {round(each['survival'] * each['episodes'])} of {each['episodes']} | "
        f"{each['mean_return']:.0f} [{each['ci95'][0]:.0f}, {each['ci95'][1]:.0f}] |"
        for who, each in controllers.items()
    ]
    # the finer flow is evaluated by a separate command, whose output is stored
    mean, low, high, share, episodes = re.findall(FINER, output)[-1]
    survived = round(float(share) / 100 * int(episodes))
    lines.append(
        f"| 32 cells per D | mean action | {survived} of {episodes} | "
        f"{float(mean):.0f} [{float(low):.0f}, {float(high):.0f}] |"
    )
    before, origin = (
        json.loads((TRIALS.parent / name).read_text())
        for name in ("demo/evaluation.json", "evidence.json")
    )
    old = before["after"]
    lines.append(
        f"| 16 cells per D, the preset of commit {origin['demo']['commit'][:12]} | mean action | "
        f"{round(old['survival'] * old['episodes'])} of {old['episodes']} | "
        f"{old['mean_return']:.0f} [{old['ci95'][0]:.0f}, {old['ci95'][1]:.0f}] |"
    )
    wall, processors = (re.findall(rf"{of}\s+(\d+)m(\d+)", output)[-1] for of in ("real", "user"))
    training = float(row["statistics"][-1]["seconds"]) / 60
    return "\n".join(
        [
            *lines,
            "",
            f"All rows but the last are from one run at commit {row['runs'][0]['commit'][:12]}: "
            f"it took {wall[0]} min {wall[1]} s, of which the training took {training:.0f} min, "
            f"and {processors[0]} min {processors[1]} s of processor time.",
        ]
    )


def run() -> None:
    """Train and evaluate the missing seeds and trials."""
    script = str(ROOT / "benchmarks" / "learning" / "train_seeds.py")
    command = [sys.executable, script, "d_cylinder_wake/quick", "--mean-only"]
    seeds = [
        "--episodes",
        "96",
        "--seeds",
        str(SEEDS),
        "--name",
        RESULTS.stem,
        "--plot",
        "docs/images/demo_seeds.png",
    ]
    subprocess.run([*command, *seeds], check=True)
    for name, changes in TRIED.items():
        words = ["--episodes", "24", "--seeds", "1", "--name", f"{TRIALS.stem}/{name}"]
        words += ["--evaluation-seed", str(TRIAL_EVALUATION_SEED), "--changes", *changes]
        subprocess.run([*command, *words], check=True)


def main() -> None:
    """Train the missing seeds and trials, or write the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=("run", "page"))
    if parser.parse_args().command == "run":
        run()
        return
    fill_in(ROOT / "docs" / "results.md", "learning/demo_seeds", "seeds", table())
    fill_in(ROOT / "docs" / "results.md", "learning/demo_seeds", "demo", whole_demo())
    fill_in(ROOT / "docs" / "decisions" / "tasks.md", "learning/demo_seeds", "trials", trials())


if __name__ == "__main__":
    main()
