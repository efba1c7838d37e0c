"""The table of learners with default settings matches the results, including trainings that are missing."""

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def small():
    return importlib.import_module("benchmarks.learning.small")


def keep(results, task, method, seed, mean_return):
    found = {
        "name": f"{task}/Some-v0_{method}_seed{seed}",
        "settings": {"method": method},
        "evaluation": {"deterministic": {"mean_return": mean_return}},
        "cpu_seconds": 80.0 + 20 * seed,
    }
    importlib.import_module("benchmarks.studies").pack(results, [found])


def test_table_marks_methods_near_the_best_return(small, tmp_path):
    results = tmp_path / "small.parquet"
    keep(results, "lq2", "vracer", 0, -0.31)
    keep(results, "lq2", "vracer", 1, -0.32)
    keep(results, "lq2", "ppo", 0, -0.31)
    keep(results, "lq2", "ppo", 1, -5.0)
    keep(results, "chain", "vracer", 0, 1.0)
    page = tmp_path / "page.md"
    page.write_text(
        "before\n<!-- table of benchmarks/learning/small.py -->\nold\n<!-- end of the table -->\nafter\n"
    )
    small.write_table(results, page)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    rows = {
        row.split("|")[1].strip(): [cell.strip() for cell in row.split("|")[2:-1]]
        for row in text.splitlines()
        if "|" in row
    }
    assert rows["lq2"][:2] == ["-13.33", "-0.3015"]
    cells = dict(zip(rows["task"], rows["lq2"], strict=True))
    assert cells["V-RACER"] == "**-0.31**, **-0.32** (90 s)"
    assert cells["PPO"] == "-0.31, -5 (90 s)"
    assert cells["DDPG"] == "not run yet"
    assert dict(zip(rows["task"], rows["chain"], strict=True))["SAC"] == "-"
    assert "recall" not in rows  # nobody has trained on it


def test_training_uses_the_settings_of_a_run(small):
    job = small.job_of("lq2", "vracer", 3)
    assert (job.steps, job.agents, job.seed, job.suite) == (60_000, 24, 3, "lq2")
    assert (job.agent["beta"], job.agent["learning_starts"], job.agent["buffer_size"]) == (
        1.0,
        1200,
        10_000,
    )
