"""Train a preset with several seeds using `flowsim train`, and store curves and evaluations.

    python benchmarks/learning/train_seeds.py mujoco/inverted_pendulum --steps 100000 --episodes 20
    python benchmarks/learning/train_seeds.py d_cylinder_wake/quick --seeds 5 --mean-only --name demo_seeds
    python benchmarks/learning/train_seeds.py d_cylinder_wake/quick --seeds 1 --name trial \
        --changes agent.c_max_scale=64

Adds one row per seed to benchmarks/results/PRESET.parquet (with _ for /): the resolved configuration, all statistics
and episodes, and the evaluations before and after training and of the baselines (95 % bootstrap intervals).
With --mean-only, only the mean action of the trained policy is evaluated, and each of its episodes is stored.
Seeds that the file already has are not trained again.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

from benchmarks.studies import RESULTS, Row, pack, read, read_table  # noqa: E402
from coupling.evaluation.evaluate import evaluate  # noqa: E402
from coupling.evaluation.pool import EvaluationPool  # noqa: E402
from coupling.origin import machine  # noqa: E402
from coupling.run.folder import RunFolder  # noqa: E402
from coupling.run.policies import load_controller  # noqa: E402
from rl_agent.rollout.seeds import EVALUATION_SEED  # noqa: E402


def flowsim(*arguments: str) -> None:
    """Run the command `flowsim` as a user would; exit if it fails, which it has explained."""
    command = [str(Path(sys.executable).with_name("flowsim")), *arguments]
    if status := subprocess.run(command, cwd=ROOT, check=False).returncode:
        sys.exit(status)


def evaluate_mean(run: Path, episodes: int, seed: int) -> dict[str, Any]:
    """Evaluate the mean action of a run's policy on held-out episodes; return summary, seed and all episodes."""
    folder = RunFolder.find(run)
    config = folder.config()
    controller = load_controller(folder, deterministic=True, seed=seed)
    with EvaluationPool(config.env, config.env_options) as pool:
        found = evaluate(
            config.env, config.env_options, controller, episodes=episodes, seed=seed, pool=pool
        )
    each = {name: values.tolist() for name, values in found._asdict().items()}
    return {"after": found.summary() | {"seed": seed}, "each": each}


def train(options: argparse.Namespace, seed: int, run: Path) -> Row:
    """Train one seed and return its row."""
    begin = time.time()
    steps = [f"run.steps={options.steps}"] if options.steps is not None else []
    flowsim("train", options.preset, f"run.name={run.name}", f"run.seed={seed}", *steps,
            f"run.evaluate_episodes={0 if options.mean_only else options.episodes}", *options.changes)  # fmt: skip
    if options.mean_only:
        evaluation = evaluate_mean(run, options.episodes, options.evaluation_seed)
        (run / "evaluation.json").write_text(json.dumps(evaluation, indent=1))
    starts = (run / "starts.jsonl").read_text().splitlines()
    selection = run / "selection.json"
    return {
        "config": (run / "config.yaml").read_text(),
        "evaluation": json.loads((run / "evaluation.json").read_text()),
        "runs": [json.loads(line) for line in starts],
        "statistics": read_table(run / "statistics.csv"),
        "episodes": read_table(run / "episodes.csv"),
        "wall_seconds": time.time() - begin,
        "machine": machine(),
    } | ({"selection": json.loads(selection.read_text())} if selection.exists() else {})


def main() -> None:
    """Train the missing seeds, store their rows and plot the curves."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("preset")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, help="environment steps; the preset's unless given")
    parser.add_argument("--episodes", type=int, default=48)
    parser.add_argument("--mean-only", action="store_true", help="evaluate nothing else")
    parser.add_argument(
        "--evaluation-seed", type=int, default=EVALUATION_SEED, help="with --mean-only"
    )
    parser.add_argument("--name", help="STUDY or STUDY/TRIAL; the preset's unless given")
    parser.add_argument("--plot", type=Path, help="draw the learning curves into this file")
    parser.add_argument(
        "--changes", nargs="+", default=[], metavar="KEY=VALUE", help="of the preset"
    )
    options = parser.parse_args()
    study, _, trial = (options.name or options.preset.replace("/", "_")).partition("/")
    results = RESULTS / f"{study}.parquet"
    # a run's name has at most 100 characters, of which the seed needs some
    folder = re.sub(r"[^\w.=-]+", "_", f"{study}_{trial}" if trial else study)[:96]
    runs = [ROOT / "runs" / f"{folder}_{seed}" for seed in range(options.seeds)]
    for seed, run in enumerate(runs):
        name = f"{trial}/seed{seed}" if trial else f"seed{seed}"
        if name not in {row["name"] for row in read(results)}:
            pack(results, [{"name": name} | train(options, seed, run)])
    if options.plot and all(run.exists() for run in runs):
        flowsim("plot", *map(str, runs), "-o", str(options.plot))


if __name__ == "__main__":
    main()
