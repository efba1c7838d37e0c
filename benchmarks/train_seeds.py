"""Train a preset with several seeds through the service, and keep curves and evaluations.

    python benchmarks/train_seeds.py d_cylinder_wake/sketch --steps 350000 --episodes 96
    python benchmarks/train_seeds.py mujoco/inverted_pendulum --steps 100000 --episodes 20

Writes benchmarks/results/PRESET/ (with _ for /): per seed the resolved configuration, all statistics and episodes, the
evaluation before and after training beside the baselines (95 % bootstrap intervals); summary.json and curves.png.
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

from coupling.origin import machine

ROOT = Path(__file__).resolve().parents[1]


def flowsim(*arguments: str) -> None:
    """Run the command as a user would."""
    subprocess.run(
        [str(Path(sys.executable).with_name("flowsim")), *arguments], check=True, cwd=ROOT
    )


def train(preset: str, seed: int, steps: int, episodes: int, results: Path) -> None:
    """Train one seed and copy what is worth keeping."""
    run, kept = ROOT / "runs" / f"{results.name}_{seed}", results / f"seed{seed}"
    if kept.exists():
        return
    begin = time.time()
    flowsim("train", preset, f"run.name={run.name}", f"run.seed={seed}", f"run.steps={steps}",
            f"run.evaluate_episodes={episodes}")  # fmt: skip
    kept.mkdir(parents=True)
    for name in ("config.yaml", "evaluation.json", "starts.jsonl"):
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
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--episodes", type=int, required=True)
    options = parser.parse_args()
    results = ROOT / "benchmarks" / "results" / options.preset.replace("/", "_")
    summary = {}
    for seed in range(options.seeds):
        train(options.preset, seed, options.steps, options.episodes, results)
        kept = results / f"seed{seed}"
        summary[f"seed{seed}"] = {
            "evaluation": json.loads((kept / "evaluation.json").read_text()),
            **json.loads((kept / "timing.json").read_text()),
        }
    (results / "summary.json").write_text(json.dumps(summary, indent=1))
    runs = [f"runs/{results.name}_{seed}" for seed in range(options.seeds)]
    flowsim("plot", *runs, "-o", str(results / "curves.png"))


if __name__ == "__main__":
    main()
