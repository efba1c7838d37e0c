"""The queue of trainings, really run, killed and resumed, and the page of the results."""

import contextlib
import dataclasses
import importlib
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import yaml

from benchmarks.learning.suites import curves
from coupling.run import aggregate

ROOT = Path(__file__).parents[3]

STEPS = 1500
TINY = {
    "tiny": {
        "about": "Two jobs.",
        "presets": ["mujoco/inverted_pendulum"],
        "steps": STEPS,
        "seeds": 2,
        "agent": {"hidden": [8], "batch_size": 16, "learning_starts": 200, "buffer_size": 4096},
        "methods": {"V-RACER": {"algorithm": "vracer"}},
    }
}


@pytest.fixture
def page():
    return importlib.import_module("benchmarks.learning.suites.page")


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump(TINY))
    return path


@pytest.fixture
def run(tmp_path: Path, plan: Path):
    """The queue in this process; its jobs have their own."""
    module, queue = (
        importlib.import_module(f"benchmarks.learning.suites.{name}") for name in ("plan", "queue")
    )
    jobs = module.jobs_of("tiny", module.read_plan(plan)["tiny"])
    places = queue.Places(tmp_path / "results.parquet", tmp_path / "work", 0.0)
    return lambda **changes: queue.run_jobs(
        [dataclasses.replace(job, **changes) for job in jobs], 2, places
    )


@pytest.fixture
def studies():
    return importlib.import_module("benchmarks.studies")


@pytest.mark.slow
def test_killed_queue_resumes_and_no_job_runs_twice(
    tmp_path: Path, plan: Path, run, studies, capsys
):
    work, results = tmp_path / "work", tmp_path / "results.parquet"
    words = [
        "run",
        "--plan",
        plan,
        "--results",
        results,
        "--work",
        work,
        "-j2",
        "--checkpoint-every",
        "0",
    ]
    curves = [
        work / "tiny" / f"InvertedPendulum-v5_vracer_seed{seed}" / "curve.csv" for seed in range(2)
    ]
    for _ in range(10):  # both jobs may end before this process sees that they have begun
        queue = subprocess.Popen(
            [sys.executable, "benchmarks/learning/mujoco.py", *map(str, words)], cwd=ROOT
        )
        try:
            deadline = time.monotonic() + 600
            while not all(
                curve.exists() and len(curve.read_text().splitlines()) > 3 for curve in curves
            ):
                assert time.monotonic() < deadline
                assert queue.poll() in (None, 0)
                time.sleep(0.02)
        finally:
            started: list[psutil.Process] = []
            with contextlib.suppress(psutil.Error):  # it may have come to its end meanwhile
                started = psutil.Process(queue.pid).children(recursive=True)
            for process in (*started, queue):
                with contextlib.suppress(psutil.Error):
                    process.kill()
            queue.wait()
        complete = {row["name"] for row in studies.read(results)}
        if interrupted := [
            curve for curve in curves if f"tiny/{curve.parent.name}" not in complete
        ]:
            break
        shutil.rmtree(work)
        results.unlink()
    assert interrupted
    assert run() == []
    assert f"{2 - len(interrupted)} complete already" in capsys.readouterr().out
    for curve in curves:
        (found,) = (
            row for row in studies.read(results) if row["name"] == f"tiny/{curve.parent.name}"
        )
        assert found["steps"] == STEPS
        assert found["settings"]["agent"]["hidden"] == [8]
        assert found["machine"]["blas"]
        starts = found["starts"]
        assert len(starts) == 1 + (curve in interrupted)
        assert starts[0] == 0
        assert all(0 < start <= STEPS for start in starts[1:])  # from its checkpoint
        rows = found["curve"]
        assert [row["environment_steps"] for row in rows] == list(range(100, STEPS + 1, 100))
        seconds = [row["cpu_seconds"] for row in rows]
        assert seconds == sorted(seconds)
        assert 0 < found["evaluation"]["deterministic"]["mean_return"] <= 1000
    before = results.stat().st_mtime_ns
    assert run() == []
    assert "2 complete already" in capsys.readouterr().out
    assert results.stat().st_mtime_ns == before


@pytest.mark.slow
def test_failing_job_is_named_and_the_others_continue(
    tmp_path: Path, plan: Path, run, page, studies
):
    broken = tmp_path / "work" / "tiny" / "InvertedPendulum-v5_vracer_seed0" / "checkpoint"
    broken.parent.mkdir(parents=True)
    broken.write_text("no checkpoint")
    (failed,) = run(steps=300)
    assert failed.startswith("tiny/InvertedPendulum-v5_vracer_seed0")
    assert "CheckpointError" in failed
    results = tmp_path / "results.parquet"
    assert [row["name"] for row in studies.read(results)] == [
        "tiny/InvertedPendulum-v5_vracer_seed1"
    ]
    suites = importlib.import_module("benchmarks.learning.suites.plan").read_plan(plan)
    page.write_page(suites, results, tmp_path)
    assert "| tiny | 1 of 2 | 1: 300 of 1,500 steps |" in (tmp_path / "learning.md").read_text()
    assert 0 < (tmp_path / "images" / "learning_tiny.png").stat().st_size < 1_500_000


def test_methods_beside_a_suite_must_exist(plan: Path):
    module = importlib.import_module("benchmarks.learning.suites.plan")
    other = TINY["tiny"] | {"beside": ["tiny/V-RACER", "tiny"]}
    plan.write_text(yaml.safe_dump(TINY | {"other": other}))
    assert module.read_plan(plan)["other"].beside == ["tiny/V-RACER", "tiny"]
    plan.write_text(yaml.safe_dump(TINY | {"other": other | {"beside": ["tiny/SAC"]}}))
    with pytest.raises(ValueError, match="suite other is beside tiny/SAC, which"):
        module.read_plan(plan)


def test_page_shows_methods_beside_a_suite_up_to_its_length(
    tmp_path: Path, plan: Path, page, studies
):
    module = importlib.import_module("benchmarks.learning.suites.plan")
    beside = {"Two": {"sb3": "SAC"}, "Three": {"sb3": "TD3"}}
    other = TINY["tiny"] | {"methods": beside}
    plan.write_text(
        yaml.safe_dump({"tiny": TINY["tiny"] | {"beside": ["other/Two"]}, "other": other})
    )
    for suite, name, end in (
        ("tiny", "V-RACER", 1500),
        ("other", "Two", 9000),
        ("other", "Three", 9000),
    ):
        settings = {"method": name, "env": "InvertedPendulum-v5", "seed": 0}
        score = {"mean_return": 1.0, "mean_length": 1.0}
        evaluation = {"deterministic": score, "drawing": score}
        kept = {
            "settings": settings,
            "steps": end,
            "cpu_seconds": end / 10,
            "evaluation": evaluation,
        }
        curve = [
            {
                "environment_steps": steps,
                "cpu_seconds": steps / 10,
                "episodes": 1,
                "mean_return": steps,
            }
            for steps in range(500, end + 1, 500)
        ]
        row = kept | {"name": f"{suite}/{name}", "curve": curve}
        studies.pack(tmp_path / "results.parquet", [row])
    page.write_page(module.read_plan(plan), tmp_path / "results.parquet", tmp_path / "docs")
    shown = (
        (tmp_path / "docs" / "learning.md")
        .read_text()
        .partition("## tiny")[2]
        .partition("## other")[0]
    )
    # returns grow like the steps, so both stand at the same value when the shorter one ends
    assert "| V-RACER | 0 | 1,500 | 10 | 1500 | 1500 | 1500 |" in shown
    assert "| Two | 0 | 9,000 | 10 | 9000 | 1500 | 1500 |" in shown
    assert "Three" not in shown
    assert (tmp_path / "docs" / "images" / "learning_tiny.png").stat().st_size > 1000


def test_the_interquartile_mean_drops_a_quarter_on_each_side():
    assert aggregate.interquartile_mean(np.array([-100.0, 1.0, 2.0, 900.0])) == 1.5


def test_the_bootstrap_is_stratified():
    # within each task all seeds are equal: whatever is drawn, the same scores come
    low, high = aggregate.interval([np.zeros(3), np.ones(3)])
    assert low == high == 0.5
    low, high = aggregate.interval([np.array([0.0, 0.0, 1.0, 1.0])])
    assert low < 0.5 < high


def test_curve_value_is_the_mean_of_the_last_twentieth():
    curve = np.array([[100.0, 1.0, 1.0, 5.0], [960.0, 9.6, 1.0, 1.0], [1000.0, 10.0, 3.0, 2.0]])
    np.testing.assert_allclose(
        curves.curve_at(curve, 0, np.array([50.0, 500.0, 1000.0])), [np.nan, 5.0, 1.75]
    )
    np.testing.assert_allclose(curves.curve_at(curve, 1, np.array([10.0])), [1.75])


def test_curve_value_uses_the_last_episodes_after_a_long_gap():
    curve = np.array([[100.0, 1.0, 6.0, 7.0], [200.0, 2.0, 8.0, 1.0], [300.0, 3.0, 4.0, 4.0]])
    np.testing.assert_allclose(curves.curve_at(curve, 0, np.array([900.0, 150.0])), [2.0, 7.0])


def test_stable_baselines3_receives_the_ends_of_episodes():
    pytest.importorskip("stable_baselines3")
    from coupling.worker.environments import make_vector

    sb3 = importlib.import_module("benchmarks.learning.suites.sb3")
    environments = sb3.Environments(make_vector("InvertedPendulum-v5", {}, 2), seed=0)
    environments.reset()
    returns, episodes = np.zeros(2), []
    while len(episodes) < 5:
        observations, rewards, ended, infos = environments.step(np.full((2, 1), 0.5, np.float32))
        returns += rewards
        for i in np.flatnonzero(ended):
            assert abs(infos[i]["terminal_observation"][1]) > 0.2  # it fell
            assert not infos[i]["TimeLimit.truncated"]
            assert abs(observations[i, 1]) < 0.02  # the next one begins upright
            episodes.append(returns[i])
            returns[i] = 0
    assert [seen for seen, _ in environments.take_episodes()] == episodes
    assert environments.take_episodes() == []


@pytest.mark.parametrize("discrete", [False, True])
def test_stable_baselines3_receives_each_agent_as_an_environment(monkeypatch, discrete):
    """Two environments of three in the meadow of the service's tests; cow_2 leaves at step 3, and all end at 4."""
    pytest.importorskip("stable_baselines3")
    from coupling.worker.environments import make_vector

    monkeypatch.syspath_prepend(ROOT / "tests" / "coupling")
    sb3 = importlib.import_module("benchmarks.learning.suites.sb3")
    options = {"count": 3, "max_cycles": 4, "leaver": "cow_2", "discrete": discrete}
    environments = sb3.Environments(
        make_vector("parallel:meadow", options, 2), seed=0, agents_per_env=3
    )
    push = (
        np.array([1, 2, 0, 1, 1, 1])
        if discrete
        else np.array([[0.0], [1.0], [-1.0], [0.0], [0.0], [0.0]])
    )
    forces = (push - 1 if discrete else push[:, 0]) * 0.3
    for _ in range(2):
        seen = environments.reset()
        assert seen.shape == (6, 2)
        place, returns = seen[:, 0].copy(), np.zeros(6)
        for step in range(1, 5):
            seen, rewards, ended, infos = environments.step(push)
            place += forces
            here = np.array([step <= 3 or k % 3 != 2 for k in range(6)])
            np.testing.assert_allclose(rewards, np.where(here, -np.abs(place), 0.0), rtol=1e-5)
            returns += rewards
            assert ended.all() == ended.any() == (step == 4)
        last = np.array([info["terminal_observation"][0] for info in infos])
        np.testing.assert_allclose(last[here], place[here], rtol=1e-5)
        # the environment is cut, and who left it before is in a terminal state
        assert [info["TimeLimit.truncated"] for info in infos] == here.tolist()
        means = [episode for episode, _ in environments.take_episodes()]
        np.testing.assert_allclose(means, returns.reshape(2, 3).mean(axis=1), rtol=1e-5)
