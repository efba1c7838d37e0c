"""Compare V-RACER on the nine MuJoCo tasks of the ReF-ER paper with published returns (nine_tasks.yaml).

    python benchmarks/learning/nine_tasks.py  # fills in docs/papers/refer.md from the stored results of mujoco.py

The trainings are those of the suites `vracer` and `more_tasks` in mujoco.yaml.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pydantic import BaseModel, ConfigDict

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)  # the folder of this file would shadow the package mujoco

from benchmarks.learning.suites.contrasts import by_task, evaluated_returns  # noqa: E402
from benchmarks.learning.suites.curves import Seeds  # noqa: E402
from benchmarks.learning.suites.methods import methods_of, training_returns  # noqa: E402
from benchmarks.learning.suites.page import cell  # noqa: E402
from benchmarks.learning.suites.plan import read_plan  # noqa: E402
from benchmarks.pages import fill_in  # noqa: E402
from benchmarks.studies import RESULTS  # noqa: E402
from coupling.settings.content import read_yaml  # noqa: E402

PUBLISHED = Path(__file__).with_suffix(".yaml")
SUITES = ("vracer", "more_tasks")
METHOD = "V-RACER"
LEARNERS = ("DDPG", "TD3", "SAC")


class Published(BaseModel):
    """Returns reported by others.

    Attributes
    ----------
    source, url
        Authors and address of the publication.
    returns
        Mean and standard deviation over the seeds, by task and learner.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    url: str
    returns: dict[str, dict[str, tuple[float, float]]]


def read_published() -> Published:
    """Read the published returns."""
    return Published.model_validate(read_yaml(PUBLISHED))


def table(published: Published, results: Path) -> str:
    """Return a Markdown table with a row for each task; a task without trainings has empty cells."""
    plan = read_plan(PUBLISHED.with_name("mujoco.yaml"))
    trained: dict[str, Seeds] = {}
    for name in SUITES:
        groups = by_task(methods_of(name, plan[name], results / "mujoco.parquet"))
        trained |= {task: own[METHOD] for task, own in groups.items()}
    others = [f"{learner}, published" for learner in LEARNERS]
    head = ["task", "seeds", "training", "mean action", *others]
    lines = [f"| {' | '.join(head)} |", f"| --- | {' | '.join(['--:'] * (len(head) - 1))} |"]
    for task, returns in published.returns.items():
        seeds = trained.get(f"{task}-v5", [])
        cells = [
            task,
            str(len(seeds) or ""),
            *(cell(of(seeds)) if seeds else "" for of in (training_returns, evaluated_returns)),
            *(_published(returns.get(learner)) for learner in LEARNERS),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _published(reported: tuple[float, float] | None) -> str:
    return "" if reported is None else "{:,.1f} ± {:,.1f}".format(*reported)


def main() -> int:
    """Fill in the table of the paper's page."""
    page = ROOT / "docs" / "papers" / "refer.md"
    fill_in(page, "learning/nine_tasks", "table", table(read_published(), RESULTS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
