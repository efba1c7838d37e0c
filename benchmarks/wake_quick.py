"""Train the quick preset of the wake with several seeds, and keep curves and evaluations.

    python benchmarks/wake_quick.py [--seeds 3] [--steps 400000]

Writes benchmarks/results/wake_quick/: per seed the resolved configuration, all statistics and episodes, the evaluation
before and after training beside the baselines (96 episodes each, 95 % bootstrap intervals), a summary, and curves.png.
Runs that are already there are kept.
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

from coupling.bench import machine

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "wake_quick"
EPISODES = 96


def flowsim(*arguments: str) -> None:
    """Run the command as a user would."""
    subprocess.run([str(Path(sys.executable).with_name("flowsim")), *arguments], check=True, cwd=ROOT)


def train(seed: int, steps: int) -> None:
    """Train one seed and copy what is worth keeping."""
    run, kept = ROOT / "runs" / f"wake_quick_{seed}", RESULTS / f"seed{seed}"
    if kept.exists():
        return
    begin = time.time()
    flowsim(
        "train", "d_cylinder_wake/quick", f"run.name={run.name}", f"run.seed={seed}", f"run.steps={steps}",
        f"run.evaluate_episodes={EPISODES}",
    )  # fmt: skip
    kept.mkdir(parents=True)
    for name in ("config.yaml", "evaluation.json", "starts.jsonl"):
        shutil.copy(run / name, kept / name)
    for name in ("statistics.csv", "episodes.csv"):
        with (run / name).open("rb") as source, gzip.open(kept / f"{name}.gz", "wb") as target:
            shutil.copyfileobj(source, target)
    (kept / "timing.json").write_text(json.dumps({"wall_seconds": time.time() - begin, "machine": machine()}, indent=1))


def main() -> None:
    """Train, summarise, plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=400_000)
    options = parser.parse_args()
    summary = {}
    for seed in range(options.seeds):
        train(seed, options.steps)
        kept = RESULTS / f"seed{seed}"
        summary[f"seed{seed}"] = json.loads((kept / "evaluation.json").read_text()) | json.loads(
            (kept / "timing.json").read_text()
        )
    (RESULTS / "summary.json").write_text(json.dumps(summary, indent=1))
    runs = [f"runs/wake_quick_{seed}" for seed in range(options.seeds)]
    flowsim("plot", *runs, "-o", str(RESULTS / "curves.png"))


if __name__ == "__main__":
    main()
