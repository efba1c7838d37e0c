"""Compare the claims of the papers with the results here (papers.yaml), as tables in docs/papers/.

    python benchmarks/learning/papers.py  # from the stored results of the studies

Each finding is computed from the interval of a difference.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)  # the folder of this file would shadow the package mujoco

from benchmarks.learning.suites.comparison import compare  # noqa: E402
from benchmarks.learning.suites.contrasts import by_task, evaluated_returns, with_interval  # noqa: E402
from benchmarks.learning.suites.curves import Seeds  # noqa: E402
from benchmarks.learning.suites.methods import methods_of, training_returns  # noqa: E402
from benchmarks.learning.suites.plan import Suite, read_plan  # noqa: E402
from benchmarks.learning.suites.settings import shared_differences  # noqa: E402
from benchmarks.pages import fill_in  # noqa: E402
from benchmarks.studies import RESULTS  # noqa: E402
from coupling.settings.content import read_yaml  # noqa: E402

CLAIMS = ROOT / "benchmarks" / "learning" / "papers.yaml"
FINDINGS = {"better": "seen", "worse": "the opposite is seen", "no difference shown": "not shown"}
"""Finding for each verdict on the claim that the first method is better; a trial is reported as a trial."""
MEASURES: dict[str, Callable[[Seeds], np.ndarray]] = {
    "training": training_returns,
    "mean action": evaluated_returns,
}
FEW = 8  # differing settings that are listed by name


class Claim(BaseModel):
    """A claim of a paper, and the trainings that are compared to check it.

    Attributes
    ----------
    says, where
        The claim in words, and its place in the paper.
    study, suite, methods
        The trainings; the first of the two methods is the one that the paper claims is better.
    measure
        The quantity that the paper plots.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    says: str
    where: str
    study: str
    suite: str
    methods: tuple[str, str]
    measure: Literal["training", "mean action"] = "training"


def read_claims() -> dict[str, list[Claim]]:
    """Read the claims of each paper."""
    return {
        paper: [Claim.model_validate(claim) for claim in claims]
        for paper, claims in read_yaml(CLAIMS).items()
    }


def findings(claims: list[Claim], plans: dict[str, dict[str, Suite]], results: Path) -> str:
    """Return a Markdown table with a row for each claim and task, and one row for a claim without trainings."""
    lines = [
        "| claim | where in the paper | study, suite | task | first minus second | seeds | differing settings | "
        "finding |",
        "| --- | --- | --- | --- | --: | --: | --- | --- |",
    ]
    for claim in claims:
        suite = plans[claim.study][claim.suite]
        found = methods_of(claim.suite, suite, results / f"{claim.study}.parquet")
        groups = {
            task: [own[method] for method in claim.methods]
            for task, own in by_task(found).items()
            if all(method in own for method in claim.methods)
        }
        begin = f"| {claim.says} | {claim.where} | {claim.study}, {claim.suite} | "
        lines += [begin + _cells(claim, task, *pair) for task, pair in groups.items()]
        if not groups:
            lines.append(begin + "| | | | not trained yet |")
    return "\n".join(lines)


def _cells(claim: Claim, task: str, first: Seeds, second: Seeds) -> str:
    measure = MEASURES[claim.measure]
    comparison = compare([measure(first)], [measure(second)])
    differ = shared_differences(first, second)
    named = (
        ", ".join(f"`{key}`" for key in differ) if len(differ) <= FEW else f"{len(differ)} settings"
    )
    cells = (
        task, f"{claim.measure}: {with_interval(comparison.difference)}", str(comparison.seeds), named,
        FINDINGS.get(comparison.verdict, comparison.verdict),
    )  # fmt: skip
    return " | ".join(cells) + " |"


def main() -> int:
    """Write the tables into the pages of the papers."""
    papers = read_claims()
    studies = {claim.study for claims in papers.values() for claim in claims}
    plans = {name: read_plan(CLAIMS.with_name(f"{name}.yaml")) for name in studies}
    for paper, claims in papers.items():
        page = ROOT / "docs" / "papers" / f"{paper}.md"
        fill_in(page, "learning/papers", "findings", findings(claims, plans, RESULTS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
