"""The suites of samplers, and the page that is made of their results."""

import importlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def replay():
    return importlib.import_module("benchmarks.learning.replay")


def test_jobs_of_a_suite_differ_only_in_the_sampler(replay):
    plan = replay.read_plan(ROOT / "benchmarks" / "learning" / "replay.yaml")
    jobs = {name: replay.jobs_of(name, suite) for name, suite in plan.items()}
    assert len(jobs["sac"]) == len(jobs["td3"]) == 3 * 4 * 4
    for name in ("sac", "td3", "dqn", "rainbow_ms_pacman", "rainbow_kung_fu_master"):
        settings = [
            {k: v for k, v in job.agent.items() if k not in ("sampler", "priority_exponent")}
            for job in jobs[name]
        ]
        assert all(own == settings[0] for own in settings)
        assert {job.agent["sampler"] for job in jobs[name]} == {
            "ners",
            "ero",
            "proportional",
            "uniform",
        }


def test_the_page_has_a_row_for_each_sampler_beside_the_paper(replay, tmp_path):
    plan = replay.read_plan(ROOT / "benchmarks" / "learning" / "replay.yaml")
    job = next(
        job
        for job in replay.jobs_of("sac", plan["sac"])
        if job.task == "Hopper-v5" and job.method == "NERS"
    )
    evaluation = {"deterministic": {"mean_return": 1234.0}}
    found = {
        "settings": job.settings(),
        "steps": 50000,
        "cpu_seconds": 500.0,
        "evaluation": evaluation,
    }
    curve = [
        {"environment_steps": k, "cpu_seconds": k / 100, "episodes": 2, "mean_return": k / 10}
        for k in range(1000, 51000, 1000)
    ]
    results = tmp_path / "results.parquet"
    row = found | {"name": job.name, "curve": curve}
    importlib.import_module("benchmarks.studies").pack(results, [row])
    page = tmp_path / "docs" / "studies" / "replay.md"
    replay.write_page(plan, results, page)
    assert "| NERS | 1 | 50,000 | 4,900 | 1,234 | 100 | 2763.69 |" in page.read_text()
    for mean in (4900, 1234):  # of the last twentieth of the curve, and of the evaluation
        row = f"| sac | Hopper-v5 | 0 to 1 | 30,000 | {mean} / 2764 |  / 2256 |  / 2223 |  / 2410 |"
        assert row in page.read_text()
    assert "| sac | Hopper-v5 | 0 to 1 | 30,000 |  |  |  |" in page.read_text()
    trainings = Counter(
        (name, job.task) for name, suite in plan.items() for job in replay.jobs_of(name, suite)
    )
    of_twelve = list(trainings.values()).count(12)
    assert page.read_text().count("0 of 12 trainings done") == of_twelve - 1


def test_interval_of_an_interquartile_mean_difference_of_normal_samples(replay):
    """For many normal samples the spread of the interquartile mean is known."""
    rng = np.random.default_rng(5)
    one, other = rng.normal(3.0, 1.0, 100), rng.normal(1.0, 1.0, 100)
    mean, low, high = replay.compare([one], [other]).difference
    assert mean == pytest.approx(2.0, abs=0.5)
    spread = 1.0925 * np.sqrt(
        2 / 100
    )  # a quarter cut on each side keeps 83.8 % of the mean's efficiency
    assert high - low == pytest.approx(2 * 1.96 * spread, rel=0.15)
    assert low < mean < high


def test_methods_of_another_suite_are_listed_beside_those_of_a_suite(replay):
    plan = replay.read_plan(ROOT / "benchmarks" / "learning" / "replay.yaml")
    results = ROOT / "benchmarks" / "results" / "replay.parquet"
    found = replay.methods_of("ablation", plan["ablation"], results)
    assert list(found) == [*plan["ablation"].methods, "NERS", "ERO", "RANDOM"]
    assert {one["settings"]["suite"] for one in found["NERS"]} == {"sac"}


def test_jobs_of_a_suite_with_the_same_name_are_refused(replay):
    plan = replay.read_plan(ROOT / "benchmarks" / "learning" / "replay.yaml")
    both = {"presets": ["atari/ms_pacman", "atari/kung_fu_master"]}
    suite = plan["rainbow_ms_pacman"].model_copy(update=both)
    with pytest.raises(
        ValueError, match="2 jobs of suite both are called both/Atari-v0_ners_seed0"
    ):
        replay.jobs_of("both", suite)
