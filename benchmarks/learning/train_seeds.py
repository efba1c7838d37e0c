"""Train a preset with several seeds through the service, and keep curves and evaluations.

    python benchmarks/learning/train_seeds.py d_cylinder_wake/sketch --steps 350000 --episodes 96
    python benchmarks/learning/train_seeds.py mujoco/inverted_pendulum --steps 100000 --episodes 20
    python benchmarks/learning/train_seeds.py d_cylinder_wake/quick --seeds 5 --mean-only --name demo_seeds
    python benchmarks/learning/train_seeds.py d_cylinder_wake/quick --seeds 1 --name trial \
        --changes agent.c_max_scale=64

Writes benchmarks/results/PRESET/ (with _ for /): per seed the resolved configuration, all statistics and episodes, the
evaluation before and after training beside the baselines (95 % bootstrap intervals); summary.json and curves.png.
With --mean-only the mean action of the trained policy alone is evaluated, and each of its episodes is kept.
Seeds that are already there are kept.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

from coupling.evaluation.evaluate import evaluate  # noqa: E402
from coupling.evaluation.pool import EvaluationPool  # noqa: E402
from coupling.origin import machine  # noqa: E402
from coupling.run.agents import load_controller  # noqa: E402
from coupling.run.folder import RunFolder  # noqa: E402
from rl_agent.rollout.seeds import EVALUATION_SEED  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"


def flowsim(*arguments: str) -> None:
    """Run the command as a user would."""
    subprocess.run(
        [str(Path(sys.executable).with_name("flowsim")), *arguments], check=True, cwd=ROOT
    )


def evaluate_mean(run: Path, episodes: int, seed: int) -> dict[str, Any]:
    """Evaluate the mean action of a run's policy on held-out episodes; return summary, seed, and every episode."""
    folder = RunFolder.find(run)
    config = folder.config()
    controller = load_controller(folder, deterministic=True, seed=seed)
    with EvaluationPool(config.env, config.env_options) as pool:
        found = evaluate(
            config.env, config.env_options, controller, episodes=episodes, seed=seed, pool=pool
        )
    each = {name: values.tolist() for name, values in found._asdict().items()}
    return {"after": found.summary() | {"seed": seed}, "each": each}


def train(options: argparse.Namespace, seed: int, results: Path) -> None:
    """Train one seed and copy what is worth keeping."""
    run, kept = ROOT / "runs" / f"{results.name}_{seed}", results / f"seed{seed}"
    if kept.exists():
        return
    begin = time.time()
    flowsim("train", options.preset, f"run.name={run.name}", f"run.seed={seed}", f"run.steps={options.steps}",
            f"run.evaluate_episodes={0 if options.mean_only else options.episodes}", *options.changes)  # fmt: skip
    if options.mean_only:
        evaluation = evaluate_mean(run, options.episodes, options.evaluation_seed)
        (run / "evaluation.json").write_text(json.dumps(evaluation, indent=1))
    kept.mkdir(parents=True)
    for name in ("config.yaml", "evaluation.json", "selection.json", "starts.jsonl"):
        if (run / name).exists():
            shutil.copy(run / name, kept / name)
    for name in ("statistics.csv", "episodes.csv"):
        with (run / name).open("rb") as source, gzip.open(kept / f"{name}.gz", "wb") as target:
            shutil.copyfileobj(source, target)
    (kept / "timing.json").write_text(
        json.dumps({"wall_seconds": time.time() - begin, "machine": machine()}, indent=1)
    )


def main() -> None:
    """Train, summarise, plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("preset")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--episodes", type=int, default=48)
    parser.add_argument("--mean-only", action="store_true", help="evaluate nothing else")
    parser.add_argument(
        "--evaluation-seed", type=int, default=EVALUATION_SEED, help="with --mean-only"
    )
    parser.add_argument("--name", help="of the folder of results; the preset's unless given")
    parser.add_argument(
        "--changes", nargs="+", default=[], metavar="KEY=VALUE", help="of the preset"
    )
    options = parser.parse_args()
    results = RESULTS / (options.name or options.preset.replace("/", "_"))
    summary = {}
    for seed in range(options.seeds):
        train(options, seed, results)
        kept = results / f"seed{seed}"
        summary[f"seed{seed}"] = {
            "evaluation": json.loads((kept / "evaluation.json").read_text()),
            **json.loads((kept / "timing.json").read_text()),
        }
    (results / "summary.json").write_text(json.dumps(summary, indent=1))
    runs = [ROOT / "runs" / f"{results.name}_{seed}" for seed in range(options.seeds)]
    if all(run.exists() for run in runs):  # they are not kept where the results are
        flowsim("plot", *map(str, runs), "-o", str(results / "curves.png"))


if __name__ == "__main__":
    main()
