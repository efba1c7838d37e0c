"""The README's table of claims and measurements, computed from the stored results.

python benchmarks/claims.py  # fills in README.md and docs/results.md
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)

from benchmarks.learning import learned  # noqa: E402
from benchmarks.learning.suites.comparison import compare  # noqa: E402
from benchmarks.learning.suites.contrasts import evaluated_returns, with_interval  # noqa: E402
from benchmarks.learning.suites.curves import Seeds  # noqa: E402
from benchmarks.learning.suites.methods import training_returns  # noqa: E402
from benchmarks.learning.suites.plan import read_results  # noqa: E402
from benchmarks.pages import fill_in  # noqa: E402
from benchmarks.studies import RESULTS, read  # noqa: E402
from coupling.run.aggregate import interquartile_mean, interval  # noqa: E402

__all__ = ["table"]


def table(results: Path = RESULTS) -> str:
    """Return a Markdown table of the claims, the measurements and links to details."""
    rows = (
        ("the demo agent drafts", demo(results), "[results](docs/results.md#the-demos-agent)"),
        ("V-RACER + centred advantages drafts", drafting(results), "[figure 6](docs/studies/figure6.md)"),
        ("drafting takes little effort", effort(results), "[learned](docs/studies/learned.md)"),
        ("a trained school has fewer contacts", school(results), "[school](docs/studies/school.md)"),
        ("the solver is accurate", flow(results), "[validation](docs/studies/validation.md)"),
        ("the solver is fast", speed(results), "[speed](docs/studies/speed.md)"),
        ("the learners learn", learning(results), "[learning](docs/studies/learning.md)"),
        ("ReF-ER ablation", rules(results), "[rules](docs/studies/refer.md)"),
        ("kills lose no stored transition", chaos(results), "[chaos](docs/studies/chaos.md)"),
    )  # fmt: skip
    lines = [
        "| claim | measurement, on 2 cores without a GPU | details |",
        "| --- | --- | --- |",
    ]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def demo(results: Path) -> str:
    """Return how many episodes the demo's agent survives, over its seeds."""
    found = [row["evaluation"] for row in read(results / "demo_seeds.parquet")]
    episodes = found[0]["after"]["episodes"]
    survived = sorted({sum(each["each"]["survived"]) for each in found})
    medians = sorted(each["after"]["median_return"] for each in found)
    return (
        f"SAC + ReF-ER-1, 20,000 actions, {len(found)} seeds: {' or '.join(map(str, survived))} of {episodes} "
        f"held-out episodes survive 400 actions, median returns {medians[-1]:.0f} to {medians[0]:.0f}"
    )


def drafting(results: Path) -> str:
    """Return the results of V-RACER's mean action in the figure-6 suite that contains all methods."""
    rows = read_results(results / "figure6.parquet", "narrow")
    seeds = [row for row in rows if row["settings"]["method"] == "V-RACER"]
    survival = [100 * row["evaluation"]["deterministic"]["survival"] for row in seeds]
    return (
        f"{seeds[0]['steps']:,} actions, {len(seeds)} seeds: survives {_listed(survival)} % of 48 episodes, "
        f"return {_with_interval(evaluated_returns(seeds))}; in training {_with_interval(training_returns(seeds))}"
    )


def effort(results: Path) -> str:
    """Return the effort of the agent ``vracer``, compared with the same ellipse held in the free stream."""
    rows = {row["name"]: row for row in learned.read(results / "learned.parquet")}
    name = next(name for name in rows if "half_by_episodes" in name and name.endswith("_16"))
    found = learned.numbers(rows[name])
    return (
        f"the agent `vracer`: {found['effort']:.3f} per action, one training; the same ellipse held in the free "
        f"stream: {found['stream_effort']:.1f} at the same angles, {found['stream_effort_along']:.3f} along the stream"
    )


def school(results: Path) -> str:
    """Return the share of episodes in which the swimmers of a school have no contact."""
    found = [row["evaluation"]["after"] for row in read(results / "swimmer_school_quick.parquet")]
    survival = [100 * each["survival"] for each in found]
    alone = 100 * found[0]["baselines"]["zero"]["survival"]
    return (
        f"four swimmers, {len(found)} seeds: no contact within 20 beats in {_listed(survival)} % of "
        f"{found[0]['episodes']} held-out initial states; {alone:.0f} % without control"
    )


def flow(results: Path) -> str:
    """Return how many validation cases are within tolerance, and the cylinder's coefficients."""
    cases = {file.stem: _json(file)["rows"] for file in (results / "validation").glob("*.json")}
    passed = sum(all(row["passed"] for row in rows) for rows in cases.values())
    values = {
        name: {row["quantity"]: row["value"] for row in cases[name]}
        for name in ("cylinder-40", "cylinder-100")
    }
    slow, fast = values["cylinder-40"], values["cylinder-100"]
    return (
        f"{passed} of {len(cases)} cases within tolerance; cylinder at Re 40: C_D "
        f"{slow['mean C_D in the last D/U']:.3f}; at Re 100: C_D {fast['mean C_D over whole periods']:.3f}, "
        f"St {fast['Strouhal number']:.4f}"
    )


def speed(results: Path) -> str:
    """Return the solver's speed with two threads, and its ratios to that of jax-cfd."""
    rows = [row for row in _json(results / "bench" / "solver.json")["rows"] if row["threads"] == 2]
    batch = next(row for row in rows if (row["nx"], row["ny"], row["batch"]) == (128, 64, 24))
    ratios = [row["ratio"] for row in rows if row["ratio"]]
    return (
        f"{batch['cells_per_second'] / 1e6:.0f} million cell updates per second (24 flows of 128 x 64 cells); "
        f"{min(ratios):.1f} to {max(ratios):.1f} times the rate of jax-cfd on a single simulation"
    )


def learning(results: Path) -> str:
    """Return the returns of V-RACER on HalfCheetah."""
    rows = read_results(results / "mujoco.parquet", "vracer")
    seeds: Seeds = [row for row in rows if "HalfCheetah-v5" in row["settings"]["env"]]
    minutes = np.mean([row["cpu_seconds"] for row in seeds]) / 60
    return (
        f"V-RACER, HalfCheetah-v5, {seeds[0]['steps']:,} steps, {minutes:.0f} minutes on one core, {len(seeds)} seeds: "
        f"{_with_interval(training_returns(seeds))} in training, {_with_interval(evaluated_returns(seeds))} after it"
    )


def rules(results: Path) -> str:
    """Return the training returns of V-RACER with each kind of replay."""
    rows = [
        row
        for row in read_results(results / "refer.parquet", "vracer")
        if "HalfCheetah-v5" in row["settings"]["env"]
    ]
    found = {
        method: training_returns([row for row in rows if row["settings"]["method"] == method])
        for method in ("ReF-ER", "ReF-ER-2", "ReF-ER-1", "ER")
    }
    both, second, first, none = (f"{interquartile_mean(each):.0f}" for each in found.values())
    gain, most = (
        with_interval(compare([found["ReF-ER"]], [found[other]]).difference)
        for other in ("ReF-ER-2", "ER")
    )
    return (
        f"V-RACER, HalfCheetah-v5, {rows[0]['steps']:,} steps, {len(found['ER'])} seeds, in training: {both} with "
        f"both, {second} with rule 2 only, {first} with rule 1 only, {none} with neither; both minus rule 2 "
        f"{gain}, minus neither {most}"
    )


def chaos(results: Path) -> str:
    """Return how many steps were recorded, doubled and lost under kills and connection cuts."""
    found = _json(results / "coupling" / "chaos.json")
    done, audit = found["done"], found["audit"]
    kills = sum(count for what, count in done.items() if what.startswith("kills of"))
    died = audit["returned"] - audit["held"]
    doubled = "each exactly once" if not audit["doubled"] else f"{audit['doubled']} of them twice"
    return (
        f"in {kills} kills and {done['cuts']} cut connections, {audit['held']:,} of {audit['returned']:,} steps were "
        f"recorded, {doubled}; {died} died unstored with their process"
    )


def _json(file: Path) -> dict[str, Any]:
    return dict(json.loads(file.read_text()))


def _listed(values: list[float]) -> str:
    *first, last = (f"{value:.0f}" for value in values)
    return f"{', '.join(first)} and {last}"


def _with_interval(values: np.ndarray) -> str:
    """Return the interquartile mean over the seeds and its 95 % bootstrap interval."""
    low, high = interval([values])
    return f"{float(interquartile_mean(values)):.0f} [{low:.0f}, {high:.0f}]"


if __name__ == "__main__":
    fill_in(ROOT / "README.md", "claims", "claims", table())
    page = ROOT / "docs" / "results.md"
    fill_in(page, "claims", "claims", table().replace("](docs/", "]("))
