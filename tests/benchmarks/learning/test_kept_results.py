"""Kept results of trainings stay those of their plans, also when a learner gets new settings."""

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.filterwarnings("ignore::rl_agent.config.old_names.OldNameWarning")
@pytest.mark.parametrize(
    "study", ["defaults", "figure6", "flow_peers", "memory", "mujoco", "refer", "replay", "sisl"]
)
def test_every_kept_result_is_a_complete_job_of_the_plan(study):
    plan = importlib.import_module("benchmarks.learning.suites.plan")
    is_complete = importlib.import_module("benchmarks.learning.suites.job").is_complete
    results = ROOT / "benchmarks" / "results" / f"{study}.parquet"
    suites = plan.read_plan(ROOT / "benchmarks" / "learning" / f"{study}.yaml")
    jobs = [job for name, suite in suites.items() for job in plan.jobs_of(name, suite)]
    complete = {job.name for job in jobs if is_complete(job, results)}
    kept = {
        row["name"]
        for row in importlib.import_module("benchmarks.studies").read(results)
        # these were trained when the sides of their preset had no name; the page says how
        if (study, row["settings"]["suite"]) != ("mujoco", "wake")
    }
    assert kept
    assert kept <= complete
