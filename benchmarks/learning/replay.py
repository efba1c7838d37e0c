"""Compare replay samplers and replay ratios: trainings (replay.yaml), their curves and their page.

    python benchmarks/learning/replay.py run --suite sac -j 2  # skips complete jobs, resumes interrupted ones
    python benchmarks/learning/replay.py list                  # the jobs, and which are complete
    python benchmarks/learning/replay.py draws                 # how uneven the sampling is at the end
    python benchmarks/learning/replay.py page                  # docs/studies/replay.md and rows of docs/algorithms/

Needs the extras box2d, mujoco, minatar and atari. Each complete job adds a row to benchmarks/results/replay.parquet:
curve, settings, evaluation, machine, versions and commit. Checkpoints are in runs/replay/; ``draws`` reads them and
writes benchmarks/results/replay/draws.json.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

from benchmarks.learning.suites.command import add_page, add_run_and_list, run_or_list  # noqa: E402
from benchmarks.learning.suites.comparison import compare  # noqa: E402
from benchmarks.learning.suites.curves import Seeds  # noqa: E402
from benchmarks.learning.suites.draws import how_uneven, read_draws, table_of_draws  # noqa: E402
from benchmarks.learning.suites.job import is_complete  # noqa: E402
from benchmarks.learning.suites.methods import (  # noqa: E402
    Panel,
    draw_on_page,
    methods_of,
    numbers,
    training_returns,
)
from benchmarks.learning.suites.plan import Suite, jobs_of, read_plan  # noqa: E402
from benchmarks.learning.suites.settings import differences  # noqa: E402
from benchmarks.pages import fill_in  # noqa: E402
from benchmarks.studies import RESULTS, write_json  # noqa: E402
from coupling.files import write_atomically  # noqa: E402
from coupling.origin import provenance  # noqa: E402
from rl_agent.config.colours import styles_of  # noqa: E402

NAME = "replay"
PAPER = {
    ("sac", "Hopper-v5"): {"NERS": 2763.69, "ERO": 2255.67, "PER": 2223.08, "RANDOM": 2409.51},
    ("td3", "Hopper-v5"): {"NERS": 3062.32, "ERO": 2610.40, "PER": 1693.32, "RANDOM": 2152.82},
    ("rainbow_ms_pacman", "Atari-v0"): {
        "NERS": 1579.27,
        "ERO": 1001.87,
        "PER": 1146.82,
        "RANDOM": 1070.19,
    },
    ("rainbow_kung_fu_master", "Atari-v0"): {
        "NERS": 10925.59,
        "ERO": 7954.36,
        "PER": 7527.96,
        "RANDOM": 7215.50,
    },
}
"""Returns of Oh et al. 2021, by suite and task: table 1 after 500,000 steps on Hopper-v3, table 2 after 100,000."""
PANELS = (
    Panel(0, "mean_return", "environment steps", "return of the training episodes"),
    Panel(1, "mean_return", "CPU seconds of training", "return of the training episodes"),
)
HEAD = """\
# Replay: samplers and replay ratios

Written by `python benchmarks/learning/replay.py page` from `benchmarks/results/replay.parquet`; do not edit it.
[evidence.md](evidence.md) lists the commits of the trainings.
The samplers (NERS, ERO, PER, and RANDOM, which is uniform sampling) are described in [samplers.md](../samplers.md).
Their settings are those of Oh et al. 2021, table B.1, with fewer steps.
The settings of the replay ratios are in [acer.md](../algorithms/acer.md#replay-ratios).

| column | meaning |
| --- | --- |
| training | mean return of the training episodes in the last twentieth of the run, as in [learning.md](learning.md) |
| mean action | mean return of held-out episodes with the last policy's mean (or most likely) action |
| paper | return reported in the paper, with five seeds: Hopper-v3 after 500,000 steps, Atari after 100,000 |

Each number is the mean over the seeds, followed by the values of the seeds in parentheses.
The held-out episodes are the first 20 (on Atari the first 10) of evaluation seed 10^6 in the numbering before 26
November 2026."""

DRAWS = "draws.json"
HEAD_OF_DRAWS = """\
## How uneven the sampling is

Computed by `python benchmarks/learning/replay.py draws` from the checkpoints at the end of the trainings.

| column | meaning |
| --- | --- |
| updates of the network | updates of the score network, which PER does not have |
| score, 10 % and 90 % | quantiles over the steps that were sampled at least once, before the priority exponent |
| never sampled | share of the steps in the memory |
| effective share of the memory | (sum p)^2 / (n sum p^2) for n steps with probabilities p: 1 if all are equal |

The scores of PER are TD errors."""


SAMPLERS = ("NERS", "ERO", "PER", "RANDOM")
HEAD_OF_ALL = """\
## All samplers

Means over the seeds; the number after a slash is the paper's, where it reports one.
The steps are those of the trainings here."""
HEAD_OF_DIFFERENCES = """\
### Against uniform sampling

Interquartile mean of the training returns minus that of RANDOM, with a 95 % bootstrap interval over the seeds.
With two or three seeds such an interval is too narrow.
If it contains zero, no difference was seen; if it excludes zero, it suggests a difference but does not prove one."""


def tables_of_all(plan: dict[str, Suite], results: Path) -> list[str]:
    """Return Markdown tables of returns and differences of all samplers, with a row for each suite and task."""
    measures = {
        "Training": training_returns,
        "Mean action, held-out episodes": evaluated_returns,
    }
    head = [
        "| suite | task | seeds | steps | {} |",
        "| --- | --- |" + " --: |" * (2 + len(SAMPLERS)),
    ]
    tables = {title: [head[0].format(" | ".join(SAMPLERS)), head[1]] for title in measures}
    others = SAMPLERS[:-1]
    differences = [head[0].format(" | ".join(others)), "| --- | --- |" + " --: |" * 5]
    for name, suite in plan.items():
        if tuple(suite.methods) != SAMPLERS:
            continue
        found = methods_of(name, suite, results)
        for task, env in dict.fromkeys((job.task, job.env) for job in jobs_of(name, suite)):
            paper = PAPER.get((name, task), {})
            own = {
                who: [one for one in found.get(who, []) if one["settings"]["env"] == env]
                for who in SAMPLERS
            }
            seeds = sorted({len(each) for each in own.values()})
            span = " to ".join(map(str, seeds))
            begin = f"| {name} | {task} | {span} | {suite.steps:,} | "
            for title, measure in measures.items():
                cells = [
                    (f"{measure(own[who]).mean():.0f}" if own[who] else "")
                    + (f" / {paper[who]:.0f}" if paper else "")
                    for who in SAMPLERS
                ]
                tables[title].append(begin + " | ".join(cells) + " |")
            uniform = training_returns(own["RANDOM"])
            cells = [against(own[who], uniform) for who in others]
            differences.append(begin + " | ".join(cells) + " |")
    parts = [HEAD_OF_ALL]
    for title, lines in tables.items():
        parts += [f"### {title}", "\n".join(lines)]
    return [*parts, HEAD_OF_DIFFERENCES, "\n".join(differences)]


def evaluated_returns(seeds: Seeds) -> np.ndarray:
    """Return the mean return of the mean action over the held-out episodes, shape (seeds,)."""
    return np.array([seed["evaluation"]["deterministic"]["mean_return"] for seed in seeds])


PUBLISHED = "ners_as_published.json"
HEAD_OF_PUBLISHED = """\
## NERS as published

Computed by `python benchmarks/learning/ners_as_published.py`: the published networks in plain PyTorch, with three seeds
and random features.
The replay reward of an update is the change of the return; here it is a normal random number, of either sign or always
positive.
The paper makes 500 updates in 500,000 steps of Hopper."""


def table_of_published(rows: list[dict[str, Any]]) -> list[str]:
    """Return a Markdown table of the spread of the scores after each number of updates, over the seeds."""
    lines = [
        "| change of the return | updates | score, 10 % | 90 % | 90 % minus 10 %, one seed | "
        "effective share of the memory |",
        "| --- |" + " --: |" * 5,
    ]
    for kind, updates in dict.fromkeys((row["return"], row["updates"]) for row in rows):
        own = [row for row in rows if (row["return"], row["updates"]) == (kind, updates)]
        cells = (
            f"{min(row['low'] for row in own):.3f} to {max(row['low'] for row in own):.3f}",
            f"{min(row['high'] for row in own):.3f} to {max(row['high'] for row in own):.3f}",
            f"at most {max(row['high'] - row['low'] for row in own):.4f}",
            f"at least {min(row['effective_share'] for row in own):.4f}",
        )
        sign = "either sign" if kind == "either" else "always positive"
        lines.append(f"| {sign} | {updates} | " + " | ".join(cells) + " |")
    return lines


def table(methods: dict[str, Seeds], paper: dict[str, float]) -> list[str]:
    """Return a Markdown table with a row for each method, and differences from uniform sampling if available."""
    uniform = training_returns(methods["RANDOM"]) if "RANDOM" in methods else None
    columns = [
        "method",
        "seeds",
        "steps",
        "training",
        "mean action",
        "steps per CPU second",
        "paper",
    ]
    if uniform is not None:
        columns.insert(4, "training minus RANDOM")
    lines = ["| " + " | ".join(columns) + " |", "| --- |" + " --: |" * (len(columns) - 1)]
    for name, seeds in methods.items():
        rates = [seed["steps"] / seed["cpu_seconds"] for seed in seeds]
        cells = [
            name,
            str(len(seeds)),
            " to ".join(f"{steps:,}" for steps in sorted({seed["steps"] for seed in seeds})),
            numbers(training_returns(seeds).tolist()),
            numbers(evaluated_returns(seeds).tolist()),
            f"{sum(rates) / len(rates):.0f}",
            str(paper.get(name, "")),
        ]
        if uniform is not None:
            cells.insert(4, "" if name == "RANDOM" else against(seeds, uniform))
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def against(seeds: Seeds, uniform: np.ndarray) -> str:
    """Return the difference of the training returns from those of uniform sampling, or "" if either is missing."""
    if not (seeds and uniform.size):
        return ""
    mean, low, high = (
        round(x) + 0 for x in compare([training_returns(seeds)], [uniform]).difference
    )
    return f"{mean} [{low}, {high}]"


def findings(plan: dict[str, Suite], results: Path) -> str:
    """Return a Markdown table of results over the trainings of all samplers."""
    rows = [
        (f"{who}: training returns minus uniform sampling", _sides(who, plan, results))
        for who in SAMPLERS[:-1]
    ]
    for suite, others in (("ablation", "sac"), ("newer", "newer")):
        first = methods_of(suite, plan[suite], results)["ERO that does not learn"]
        env = first[0]["settings"]["env"]
        uniform = methods_of(others, plan[others], results)["RANDOM"]
        own = training_returns([one for one in uniform if one["settings"]["env"] == env])
        who = f"ERO without training of its network, LunarLander, {len(first)} seeds"
        what = f"{who}: training returns minus uniform sampling"
        rows.append((what, against(first, own)))
    rows += how_uneven(json.loads((beside(results) / DRAWS).read_text())["draws"])
    cells = (f"| {what} | {found} |" for what, found in rows)
    return "\n".join(["| quantity | result |", "| --- | --- |", *cells])


def _sides(who: str, plan: dict[str, Suite], results: Path) -> str:
    """Return the tasks on which the interval of a sampler's difference excludes zero, and how many contain it."""
    sides: dict[str, list[str]] = {"above": [], "below": [], "around": []}
    for name, suite in plan.items():
        found = methods_of(name, suite, results) if tuple(suite.methods) == SAMPLERS else {}
        for task, env in dict.fromkeys((job.task, job.env) for job in jobs_of(name, suite)):
            pair = [
                training_returns([one for one in found[each] if one["settings"]["env"] == env])
                for each in (who, "RANDOM")
                if found
            ]
            if pair:
                _, low, high = compare([pair[0]], [pair[1]]).difference
                side = "above" if low > 0.0 else "below" if high < 0.0 else "around"
                sides[side].append(f"{name} {task}")
    counted = f"{len(sides['around'])} intervals contain zero"
    named = [f"{side} it: {', '.join(sides[side])}" for side in ("above", "below") if sides[side]]
    return "; ".join([counted, *named])


def beside(results: Path) -> Path:
    """Return the folder of the study's other results, next to the file of its trainings."""
    return results.with_suffix("")


def write_page(plan: dict[str, Suite], results: Path, page: Path) -> None:
    """Write the page and its pictures from the complete jobs."""
    parts = [HEAD, *tables_of_all(plan, results)]
    styles = styles_of(who for suite in plan.values() for who in suite.methods)
    for name, suite in plan.items():
        parts.append(f"## {name}\n\n{suite.about}")
        found = methods_of(name, suite, results)
        if found and (settings := differences(found)):
            parts.append("\n".join(settings))
        for task, env in dict.fromkeys((job.task, job.env) for job in jobs_of(name, suite)):
            own = {
                who: [one for one in seeds if one["settings"]["env"] == env]
                for who, seeds in found.items()
            }
            own = {who: seeds for who, seeds in own.items() if seeds}
            done = sum(len(seeds) for who, seeds in own.items() if who in suite.methods)
            parts.append(
                f"### {task}\n\n{done} of {len(suite.methods) * suite.seeds} trainings done."
            )
            if own:
                shows, file = "return against steps and seconds", f"{name}_{task.lower()}"
                parts.append(draw_on_page(page, file, own, PANELS, shows, styles))
                parts.append("\n".join(table(own, PAPER.get((name, task), {}))))
    if (beside(results) / DRAWS).exists():
        draws = json.loads((beside(results) / DRAWS).read_text())["draws"]
        parts.append(HEAD_OF_DRAWS)
        for name, suite in plan.items():
            jobs = jobs_of(name, suite)
            if any(job.name in draws for job in jobs):
                parts += [f"### {name}: scores", "\n".join(table_of_draws(draws, jobs))]
    if (beside(results) / PUBLISHED).exists():
        rows = json.loads((beside(results) / PUBLISHED).read_text())["rows"]
        parts += [HEAD_OF_PUBLISHED, "\n".join(table_of_published(rows))]
    write_atomically(page, ("\n\n".join(parts) + "\n").encode())


STUDIED = {
    ("sparse pendulum", "SparsePendulum-v0"): "{page}",
    ("LunarLanderContinuous-v3", "LunarLanderContinuous-v3"): "{page}",
    ("BipedalWalker-v3", "BipedalWalker-v3"): "{page}",
    ("Hopper-v5", "Hopper-v5"): "{page}",
    ("MsPacman", "Atari-v0"): "rainbow_ms_pacman",
    ("KungFuMaster", "Atari-v0"): "rainbow_kung_fu_master",
    ("Breakout of MinAtar", "MinAtar-v0"): "ratios_breakout",
}
"""Suite of a row of docs/algorithms/, keyed by the task's names there and in the results."""


def fill_in_algorithms(plan: dict[str, Suite], results: Path, folder: Path) -> None:
    """Fill in the returns of the rows of the algorithms' pages that link to the study."""
    suites = {task: (suite, env.rpartition("/")[2]) for (task, env), suite in STUDIED.items()}
    for page in sorted(folder.glob("*.md")):
        cartpole = "dqn" if page.stem in ("dqn", "rainbow") else "ratios"
        lines = page.read_text(encoding="utf-8").split("\n")
        for index, line in enumerate(lines):
            if not line.endswith("| [study](../studies/replay.md) |"):
                continue
            cells = [cell.strip() for cell in line.split("|")]
            suite, env = suites.get(cells[1], (cartpole, cells[1]))
            suite = suite.format(page=page.stem)
            seeds = [
                one
                for one in methods_of(suite, plan[suite], results)[cells[2]]
                if one["settings"]["env"].rpartition("/")[2].rpartition(":")[2] == env
            ]
            cells[3] = str(len(seeds))
            cells[5] = numbers(training_returns(seeds).tolist())
            cells[6] = numbers(evaluated_returns(seeds).tolist())
            lines[index] = " | ".join(cells).strip()
        write_atomically(page, "\n".join(lines).encode())


def keep_draws(plan: dict[str, Suite], results: Path, works: list[Path]) -> None:
    """Store how uneven the sampling of complete trainings is; entries of trainings without a checkpoint are kept."""
    jobs = [job for name, suite in plan.items() for job in jobs_of(name, suite)]
    complete = [job for job in jobs if is_complete(job, results)]
    known: dict[str, Any] = {}
    file = beside(results) / DRAWS
    if file.exists():
        known = json.loads(file.read_text())["draws"]
    for work in works:
        known |= read_draws(complete, work)
    write_json(file, provenance() | {"draws": known})


def main() -> int:
    """Run or list the jobs, or write the page; return 1 if a job failed, 2 on a usage error, 130 if interrupted."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    add_run_and_list(commands, NAME)
    add_page(commands, NAME)
    draws = commands.add_parser("draws", help="keep how uneven the sampling is at the end")
    draws.add_argument(
        "--plan", type=Path, default=ROOT / "benchmarks" / "learning" / f"{NAME}.yaml"
    )
    draws.add_argument("--results", type=Path, default=RESULTS / f"{NAME}.parquet")
    work = [ROOT / "runs" / NAME]
    draws.add_argument("--work", type=Path, nargs="+", default=work, help="folders of checkpoints")
    options = parser.parse_args()
    if options.command == "draws":
        keep_draws(read_plan(options.plan), options.results, options.work)
        return 0
    if options.command == "page":
        write_page(read_plan(options.plan), options.results, options.page)
        if options.page == ROOT / "docs" / "studies" / f"{NAME}.md":
            text = findings(read_plan(options.plan), options.results)
            fill_in(ROOT / "docs" / "samplers.md", f"learning/{NAME}", "findings", text)
        fill_in_algorithms(
            read_plan(options.plan), options.results, options.page.parents[1] / "algorithms"
        )
        return 0
    return run_or_list(options)


if __name__ == "__main__":
    sys.exit(main())
