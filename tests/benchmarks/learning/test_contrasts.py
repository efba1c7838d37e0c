"""Methods are compared by intervals, and only if they differ in the stated settings alone."""

import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.learning import papers
from benchmarks.learning.suites.comparison import (
    compare,
    probability_of_improvement,
    stands_out,
)
from benchmarks.learning.suites.contrasts import by_task, contrast_table
from benchmarks.learning.suites.plan import Suite, jobs_of, read_plan
from benchmarks.studies import pack

PLANS = Path(__file__).parents[3] / "benchmarks" / "learning"


def suite_of(methods, differ_in, compared=None):
    compared = compared or list(methods)[:2]
    said = {"methods": compared, "differ_in": differ_in}
    return Suite(
        about="", presets=["small/lq1"], steps=100, seeds=1, methods=methods, contrasts=[said]
    )


def test_methods_that_differ_as_stated_are_trained():
    methods = {"ER": {"algorithm": "vracer", "replay": "none"}, "ReF-ER": {"algorithm": "vracer"}}
    assert len(jobs_of("one", suite_of(methods, ["replay"]))) == 2


def test_methods_that_differ_in_more_than_stated_are_refused():
    """The published defaults of DDPG with and without ReF-ER differ in annealing and noise, too."""
    methods = {"ER": {"algorithm": "ddpg", "replay": "none"}, "ReF-ER": {"algorithm": "ddpg"}}
    more = "annealing (0.0 and 5e-07), noise (ou and gaussian), too"
    with pytest.raises(ValueError, match=re.escape(f"ER against ReF-ER: they differ in {more}")):
        jobs_of("one", suite_of(methods, ["replay"]))
    said = ["replay", "annealing", "noise"]
    assert len(jobs_of("one", suite_of(methods, said))) == 2
    with pytest.raises(ValueError, match="they do not differ in sigma"):
        jobs_of("one", suite_of(methods, [*said, "sigma"]))
    with pytest.raises(ValueError, match="no agent of ours with the name PER"):
        jobs_of("one", suite_of(methods, ["replay"], compared=["ER", "PER"]))


def test_the_probability_of_improvement_counts_pairs_and_ties_half():
    x, y = np.array([1.0, 3.0, 5.0]), np.array([0.0, 3.0])
    # 1 > 0, 3 > 0, 5 > 0, 5 > 3 and half of 3 = 3, of six
    assert probability_of_improvement([x], [y]) == pytest.approx(4.5 / 6)
    assert probability_of_improvement([y], [x]) == pytest.approx(1.5 / 6)
    assert probability_of_improvement([x, y], [y, x]) == pytest.approx(0.5)


def test_verdict_follows_from_the_interval():
    rng = np.random.default_rng(0)
    low, high = rng.normal(0.0, 1.0, 10), rng.normal(5.0, 1.0, 10)
    assert compare([high], [low]).verdict == "better"
    assert compare([low], [high]).verdict == "worse"
    assert compare([low], [low[::-1]]).verdict == "no difference shown"
    one = compare([high[:1]], [low])
    assert one.verdict == "a trial: one seed"
    assert compare([high[:2]], [low]).verdict == "a trial: two seeds"
    assert np.isnan(one.difference[1:]).all()
    assert one.difference[0] > 0.0


def test_method_stands_out_only_if_all_intervals_agree():
    rng = np.random.default_rng(0)
    low, middle, high = (rng.normal(mean, 1.0, 10) for mean in (0.0, 5.0, 10.0))
    assert stands_out(high, {"low": low, "middle": middle}) == "more so than all others"
    assert stands_out(middle, {"low": low, "high": high}) == "less so than high"
    assert stands_out(low, {"a": middle, "b": high, "c": low}) == "less so than a and b"
    assert stands_out(high, {"low": low, "same": high[::-1]}) == "no difference from same shown"
    assert stands_out(high[:2], {"low": low}) == "a trial: two seeds"


def test_interval_has_its_nominal_coverage():
    """For normal scores whose means differ by 1, with 20 seeds each: about 95 %, less for few seeds."""
    rng, held = np.random.default_rng(1), 0
    for _ in range(60):
        _, low, high = compare([rng.normal(1.0, 1.0, 20)], [rng.normal(0.0, 1.0, 20)]).difference
        held += low < 1.0 < high
    assert held >= 50


@pytest.mark.parametrize("study", ["figure6", "flow_peers", "memory", "mujoco", "refer", "sisl"])
def test_contrasts_of_the_studies_differ_only_as_stated(study):
    plan = read_plan(PLANS / f"{study}.yaml")
    assert any(suite.contrasts for suite in plan.values())
    for name, suite in plan.items():
        jobs_of(name, suite)


def result(method, seed, returned, evaluated, env="flowsim/LQ-v0"):
    curve = [
        {"environment_steps": steps, "cpu_seconds": 1.0, "episodes": 10, "mean_return": returned}
        for steps in (50, 100)
    ]
    return {
        "settings": {"env": env, "method": method, "seed": seed},
        "steps": 100,
        "curve": curve,
        "evaluation": {"deterministic": {"mean_return": evaluated}},
    }


def test_the_table_has_a_row_for_each_task_and_contrast_that_can_be_compared():
    """ER is better in training and worse by its mean action; on the other task it has no training yet."""
    suite = suite_of(
        {"ER": {"algorithm": "vracer", "replay": "none"}, "ReF-ER": {"algorithm": "vracer"}},
        ["replay"],
    )
    methods = {
        "ER": [result("ER", k, 5.0 + 0.1 * k, -500.0) for k in range(5)],
        "ReF-ER": [result("ReF-ER", k, 1.0 + 0.1 * k, 500.0 + k) for k in range(5)]
        + [result("ReF-ER", 0, 1.0, 1.0, "Hopper-v5")],
    }  # fmt: skip
    groups = by_task(methods)
    assert {task: sorted(found) for task, found in groups.items()} == {
        "LQ-v0": ["ER", "ReF-ER"],
        "Hopper-v5": ["ReF-ER"],
    }
    *_, row = contrast_table(suite, groups)
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[:4] == ["LQ-v0", "ER against ReF-ER", "`replay`", "5"]
    assert cells[4].startswith("4 [")
    assert cells[5:7] == ["1.00 [1.00, 1.00]", "better"]
    assert cells[7].startswith("-1,002 [")
    assert cells[8] == "worse"
    assert len(contrast_table(suite, {})) == 2


def test_finding_on_a_claim_follows_from_its_interval(tmp_path):
    """Of two opposite claims about the same trainings one is observed; the third claim has no trainings."""
    claims = [
        papers.Claim(says="it holds", where="here", study="one", suite="tiny", methods=methods)
        for methods in (("ReF-ER", "ER"), ("ER", "ReF-ER"), ("ReF-ER", "PER"))
    ]
    settings = {"ER": "none", "ReF-ER": "refer", "PER": "none"}
    suite = suite_of(
        {name: {"algorithm": "vracer", "replay": replay} for name, replay in settings.items()},
        ["replay"],
        ["ReF-ER", "ER"],
    )
    rows = []
    for method, returned in (("ReF-ER", 9.0), ("ER", 2.0)):
        for seed in range(3):
            row = result(method, seed, returned + 0.1 * seed, 0.0)
            row["settings"] |= {"agent": {"algorithm": "vracer", "replay": settings[method]}}
            rows.append(row | {"name": f"tiny/{method}_{seed}"})
    pack(tmp_path / "one.parquet", rows)
    lines = papers.findings(claims, {"one": {"tiny": suite}}, tmp_path).splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert [row[-1] for row in cells] == ["seen", "the opposite is seen", "not trained yet"]
    assert cells[0][4].startswith("training: 7 [")
    assert cells[0][5:7] == ["3", "`replay`"]


def test_claims_of_the_papers_name_planned_methods():
    for claims in papers.read_claims().values():
        for claim in claims:
            suite = read_plan(PLANS / f"{claim.study}.yaml")[claim.suite]
            assert set(claim.methods) <= suite.methods.keys()
