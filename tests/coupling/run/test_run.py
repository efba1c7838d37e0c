"""Whole runs: the real command, real worker processes, real sockets, real kills."""

import csv
import json
import os
import re
import resource
import signal

import gymnasium as gym
import numpy as np
import pytest
from audit import audit_memory
from shell import GUARD, ORACLE, ROOT, complaint, wait_until, workers_of

from coupling.commands import cli
from coupling.errors import ConfigError
from coupling.film.curves import plot_runs
from coupling.run import run
from coupling.run.folder import RunFolder
from coupling.run.run import is_complete
from coupling.run.status import read_status
from coupling.settings.config import load_config
from coupling.worker.environments import describe_task
from rl_agent.learner import Learner


def rows_of(file):
    with file.open() as handle:
        return list(csv.DictReader(handle))


def main_in_process(shell, words, monkeypatch, capsys):
    """Run the command's entry point in this process, for speed; return its exit code and its stderr."""
    monkeypatch.chdir(shell.folder)
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "coupling"))
    monkeypatch.setattr("sys.argv", ["flowsim", *words])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    return caught.value.code, capsys.readouterr().err.strip()


@pytest.mark.slow
def test_a_run_from_beginning_to_evaluation(shell):
    preset = shell.preset(
        agent={"env_steps_per_gradient_step": 2.0, "annealing": 0.1},
        workers={"agents": 24},
        env_options=shell.meeting(),
        run={"steps": 2400, "evaluate_episodes": 3},
    )
    done = shell.run("train", preset)
    assert done.returncode == 0, done.stderr
    status = shell.status()
    assert status["state"] == "finished"
    assert len(status["agents"]) == 24
    assert sum(status["agents"].values()) == status["environment_steps"] >= 2400
    # F = 2 environment steps per gradient step, exactly, up to the step that does not fill a gradient step
    assert status["gradient_steps"] == status["steps_after_warm_up"] // 2 > 900
    assert "24 distinct agents" in done.stderr
    assert (
        "warning: agent.annealing = 0.1 makes the learning rate 241 times smaller within run.steps = 2400"
        in done.stderr
    )
    # resolved, for a run of this length
    assert RunFolder(shell.run_folder).config().agent.beta == 1.0
    metrics = shell.run("status", "runs/run", "--prometheus").stdout
    assert (
        f'flowsim_environment_steps_total{{run="run"}} {float(status["environment_steps"])}'
        in metrics
    )
    assert "untrained" in done.stdout
    assert "trained, mean action" in done.stdout
    assert "trained, sampled actions" in done.stdout
    # a short run looks a thousand steps back, at a hundred episodes at most
    assert 0 <= status["recent_age_steps"] <= 1000 + 24 * 29
    assert 24 <= status["recent_episodes"] <= 100
    assert 0 <= status["recent_under_way"] <= 24
    assert not workers_of(shell.run_folder)

    learner = Learner.load(shell.run_folder / "checkpoint.npz")
    assert learner.environment_steps == status["environment_steps"]
    assert (
        audit_memory(learner) + learner.collector.open_episodes.length.sum()
        == learner.environment_steps
    )
    episodes = rows_of(shell.run_folder / "episodes.csv")
    assert len(episodes) == learner.episodes
    # a process that stood still may have ended no episode; the longest have 29 steps
    ended = {int(row["agent"]) for row in episodes}
    assert ended <= set(range(24))
    assert ended >= {int(agent) for agent, steps in status["agents"].items() if steps >= 29}
    assert [
        int(row["environment_steps"]) // 1000
        for row in rows_of(shell.run_folder / "statistics.csv")
    ] == [1, 2]
    assert list((shell.run_folder / "tensorboard").iterdir())
    start = json.loads((shell.run_folder / "starts.jsonl").read_text())
    assert start["versions"]["torch"]

    evaluated = shell.run("evaluate", "runs/run", "--episodes", "5", "--json")
    assert evaluated.returncode == 0, evaluated.stderr
    result = json.loads(evaluated.stdout)
    assert set(result) >= {"task", "episodes", "mean_return", "ci95", "mean_length", "baselines"}
    assert result["task"] == ORACLE
    assert result["episodes"] == 5
    assert result["ci95"][0] <= result["mean_return"] <= result["ci95"][1]
    assert set(result["baselines"]) == {"zero", "random"}
    # the oracle's reward does not depend on the action, and all are evaluated on the same episodes
    assert result["baselines"]["zero"]["mean_return"] == result["mean_return"]
    assert result["sampled"]["mean_return"] == result["mean_return"]

    plot_runs([RunFolder(shell.run_folder)], shell.folder / "curves.png")
    assert (shell.folder / "curves.png").stat().st_size > 10_000


@pytest.mark.slow
def test_training_options_apply_to_training_and_not_to_evaluation(shell):
    words = ["small/lq1", "run.name=run", "run.steps=600", "run.evaluate_episodes=2"]
    limit = "training_options.max_episode_steps=5"
    done = shell.run("train", *words, "agent.learning_starts=200", "agent.buffer_size=4096", limit)
    assert done.returncode == 0, done.stderr
    assert {row["length"] for row in rows_of(shell.run_folder / "episodes.csv")} == {"5"}
    evaluated = json.loads((shell.run_folder / "evaluation.json").read_text())
    assert evaluated["after"]["mean_length"] == evaluated["before"]["mean_length"] > 5
    changed = shell.run("resume", "runs/run", "run.steps=900", "training_options={}")
    assert changed.returncode == 2
    assert "training_options cannot be changed when a run is resumed" in complaint(changed.stderr)


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_ctrl_c_leaves_a_checkpoint_and_no_orphan(shell):
    preset = shell.preset(run={"steps": 10**6}, env_options={"step_seconds": 0.002})
    process = shell.start("train", preset)
    status = wait_until(
        lambda: (s := shell.status()).get("gradient_steps", 0) > 50 and len(s["workers"]) == 2 and s
    )
    pids = {worker["slot"]: worker["pid"] for worker in status["workers"]}
    os.kill(pids[0], signal.SIGKILL)
    status = wait_until(
        lambda: (
            (s := shell.status())["restarts"] == 1
            and len(s["workers"]) == 2
            and all(worker["steps"] > 0 for worker in s["workers"])
            and s
        )
    )
    assert {worker["slot"]: worker["pid"] for worker in status["workers"]}[1] == pids[1]
    assert "worker 0 died (signal SIGKILL)" in status["deaths"][0]["reason"]
    assert "worker 0 died (signal SIGKILL)" in shell.run("status", "runs/run").stdout
    seen = status["environment_steps"]

    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=GUARD)
    assert process.returncode == 130
    assert "worker 0 died (signal SIGKILL)" in stderr
    assert "flowsim resume" in stderr
    assert "Traceback" not in stderr
    assert not workers_of(shell.run_folder)
    learner = Learner.load(shell.run_folder / "checkpoint.npz")
    assert learner.environment_steps >= seen
    assert shell.status()["state"] == "stopped"
    audit_memory(learner)


def test_kill_9_of_the_learner_ends_the_workers_and_the_run_can_be_resumed(shell):
    preset = shell.preset(
        run={"steps": 10**6, "checkpoint_every": 0.5}, env_options={"step_seconds": 0.001}
    )
    process = shell.start("train", preset)
    wait_until(lambda: shell.status().get("environment_steps", 0) > 1200)
    assert len(workers_of(shell.run_folder)) == 2
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: not workers_of(shell.run_folder))
    assert read_status(shell.run_folder / "status.json")["state"] == "died"
    reported = shell.status()["environment_steps"]
    kept = Learner.load(shell.run_folder / "checkpoint.npz")
    assert kept.environment_steps > 0

    target = kept.environment_steps + 1000
    resumed = shell.run("resume", "runs/run", f"run.steps={target}")
    assert resumed.returncode == 0, resumed.stderr
    came_back = re.search(
        r"continuing at (\d+) environment steps, (\d+) of them from the experience log",
        resumed.stderr,
    )
    # no such line when it was killed right behind a checkpoint
    total, from_log = map(int, came_back.groups()) if came_back else (kept.environment_steps, 0)
    assert total - from_log == kept.environment_steps
    assert total >= reported
    learner = Learner.load(shell.run_folder / "checkpoint.npz")
    assert target <= learner.environment_steps < target + 4
    assert learner.gradient_steps == shell.status()["steps_after_warm_up"]
    audit_memory(learner)
    steps = [int(row["environment_steps"]) for row in rows_of(shell.run_folder / "statistics.csv")]
    assert steps == sorted(set(steps))
    assert [s // 1000 for s in steps] == list(range(1, steps[-1] // 1000 + 1))
    assert len(rows_of(shell.run_folder / "episodes.csv")) == learner.episodes
    assert len((shell.run_folder / "starts.jsonl").read_text().splitlines()) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"fail_at": 2}, "RuntimeError: the oracle was told to fail"),
        ({"nan_at": 2}, "not finite"),
    ],
)
def test_repeatedly_failing_environment_stops_the_run(shell, options, sentence):
    done = shell.run(
        "train", shell.preset(env_options=options, workers={"restarts": 1, "processes": 1})
    )
    assert done.returncode == 1
    assert sentence in done.stderr
    assert "environments of worker 0 failed" in done.stderr
    assert "more than workers.restarts = 1" in done.stderr
    assert "Traceback" not in done.stderr
    assert shell.status()["state"] == "failed"
    assert not workers_of(shell.run_folder)


@pytest.mark.slow
@pytest.mark.parametrize("part", [0.1, 1.0])
def test_images_that_are_not_of_whole_numbers_are_left_out_or_stop_the_run(shell, part):
    agent = {"network": "conv", "image_shape": [1, 8, 8], "convolutions": [[2, 3, 2]]}
    done = shell.run(
        "train",
        shell.preset(
            env="wild:Images-v0",
            env_options={"part": part},
            agent=agent,
            run={"steps": 300, "evaluate_episodes": 0},
            workers={"processes": 1},
        ),
    )
    assert "Traceback" not in done.stderr
    assert "not of whole numbers from 0 to 255" in done.stderr
    assert (done.returncode, shell.status()["state"]) == (
        (0, "finished") if part < 1.0 else (1, "failed")
    )
    stopped = re.search(r"none of the first \d+ environment steps can be learned from", done.stderr)
    assert bool(stopped) == (part == 1.0)


def test_images_with_the_channels_last_are_refused(shell):
    shape = "agent.image_shape=[3, 8, 8]"
    conv = ("agent.network=conv", "agent.convolutions=[[2, 3, 2]]", shape)
    done = shell.run("train", shell.preset(env="wild:ColourImages-v0", env_options={}), *conv)
    assert done.returncode == 2
    assert "have the shape (8, 8, 3), with the channels last" in complaint(done.stderr)
    assert not shell.run_folder.exists()


@pytest.mark.slow
def test_hanging_environment_is_replaced_after_step_timeout(shell):
    preset = shell.preset(
        env_options={"hang_at": 200},
        # shorter than the start of a worker takes, which has its own limit
        workers={"agents": 2, "step_timeout": 1.0, "restarts": 1000},
        run={"steps": 700},  # more than three processes can do before they hang
    )
    done = shell.run("train", preset)
    assert done.returncode == 0, done.stderr
    assert "longer than workers.step_timeout = 1 s" in done.stderr
    assert shell.status()["restarts"] >= 2


@pytest.mark.slow
def test_full_disk_gives_an_error_and_leaves_the_last_checkpoint(shell):
    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))

    preset = shell.preset(run={"steps": 10**6, "checkpoint_every": 0.2}, workers={"patience": 2.0})
    done = shell.run("train", preset, preexec_fn=small_files)
    assert done.returncode == 1
    assert "no space left in the run folder" in done.stderr
    assert "the run waits up to 2 s for free space" in done.stderr
    assert "Traceback" not in done.stderr
    learner = Learner.load(shell.run_folder / "checkpoint.npz")
    more = f"run.steps={learner.environment_steps + 1000}"  # there is room again
    resumed = shell.run("resume", "runs/run", more, "workers.patience=600")
    assert resumed.returncode == 0, resumed.stderr
    assert audit_memory(Learner.load(shell.run_folder / "checkpoint.npz")) > 0
    assert not [file.name for file in shell.run_folder.iterdir() if file.suffix in (".tmp", ".new")]
    assert not workers_of(shell.run_folder)


@pytest.mark.parametrize("words", [["resume", "runs/run"], ["evaluate", "runs/run"]])
def test_corrupt_checkpoint_gives_a_one_line_error(shell, words, monkeypatch, capsys):
    config = load_config(str(shell.folder / shell.preset()))
    box = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)
    learner = Learner(config.agent, box, box, agents=4, seed=0)
    folder = RunFolder(shell.run_folder)
    folder.create(config, lambda: learner.save(folder.checkpoint))
    folder.unlock()
    folder.checkpoint.write_bytes(folder.checkpoint.read_bytes()[:-1000])
    code, stderr = main_in_process(shell, words, monkeypatch, capsys)
    assert code == 1
    assert "checkpoint.npz" in complaint(stderr)


def test_run_with_outstanding_gradient_steps_is_not_finished(shell, monkeypatch, capsys):
    """It died between its last environment step and the gradient steps for it."""
    config = load_config(
        str(shell.folder / shell.preset(agent={"learning_starts": 10}, run={"steps": 40}))
    )
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "coupling"))
    task = describe_task(ORACLE, {})
    learner = Learner(config.agent, task.observation_space, task.action_space, agents=4, seed=0)
    agents, no = np.arange(4), np.zeros(4, bool)
    learner.begin(agents, np.zeros((4, 4)))
    for step in range(10):
        learner.act(agents)
        learner.observe(agents, np.ones(4), no, no | (step == 3), np.full((4, 4), step))
        if step == 3:
            learner.begin(agents, np.zeros((4, 4)))
    assert learner.environment_steps == 40
    assert learner.updates_due() == 24
    folder = RunFolder(shell.run_folder)
    folder.create(config, lambda: learner.save(folder.checkpoint))
    folder.unlock()
    code, stderr = main_in_process(shell, ["resume", "runs/run"], monkeypatch, capsys)
    assert code == 0, stderr
    assert Learner.load(folder.checkpoint).gradient_steps == shell.status()["gradient_steps"] == 24
    words = ["resume", "runs/run", "run.select_episodes=3"]
    code, stderr = main_in_process(shell, words, monkeypatch, capsys)
    assert code == 2
    assert "run.select_episodes = 3: the training of runs/run is finished and it kept no" in stderr
    assert "such as run.steps=80, selects" in stderr
    # trained, but not evaluated
    words = ["resume", "runs/run", "run.evaluate_episodes=2"]
    code, stderr = main_in_process(shell, words, monkeypatch, capsys)
    assert code == 0, stderr
    evaluated = json.loads(folder.evaluation.read_text())
    assert [evaluated[which]["episodes"] for which in ("drawing", "after")] == [2, 2]
    code, stderr = main_in_process(shell, words, monkeypatch, capsys)
    assert code == 2
    assert "is finished: it has done 40 of 40 steps" in stderr
    assert "flowsim evaluate" not in stderr
    words = ["resume", "runs/run", "run.evaluate_episodes=3"]
    code, stderr = main_in_process(shell, words, monkeypatch, capsys)
    assert code == 2
    assert (
        "; to evaluate it over 3 episodes, run `flowsim evaluate runs/run --episodes 3`" in stderr
    )


def test_interrupted_evaluation_of_a_longer_training_is_done_when_resumed(
    shell, monkeypatch, capsys
):
    small = {"processes": 1, "agents": 2}
    preset = shell.preset(
        env="flowsim/LinearQuadratic-v0",
        workers=small,
        run={"steps": 200, "evaluate_episodes": 2},
    )
    code, stderr = main_in_process(shell, ["train", preset], monkeypatch, capsys)
    assert code == 0, stderr
    folder = RunFolder(shell.run_folder)
    assert is_complete(folder)
    before = json.loads(folder.evaluation.read_text())["before"]

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run, "evaluate_with_baselines", interrupt)
        longer = ["resume", "runs/run", "run.steps=300"]
        code, stderr = main_in_process(shell, longer, monkeypatch, capsys)
    assert code == 130, stderr
    assert stderr.endswith("continue with `flowsim resume runs/run`")
    # the policy of 200 steps is gone, and so is its evaluation
    assert json.loads(folder.evaluation.read_text()) == {"before": before}
    assert not is_complete(folder)
    code, stderr = main_in_process(shell, ["resume", "runs/run"], monkeypatch, capsys)
    assert code == 0, stderr
    assert set(json.loads(folder.evaluation.read_text())) == {"before", "drawing", "after"}
    assert is_complete(folder)
    # fewer steps than are done cannot be suggested
    code, stderr = main_in_process(
        shell, ["resume", "runs/run", "run.steps=100"], monkeypatch, capsys
    )
    assert (code, "such as run.steps=600" in stderr) == (2, True)


def test_run_whose_automatic_name_was_taken_meanwhile_takes_the_next_one(shell):
    config = load_config(None, ["env=Pendulum-v1", f"run.folder={shell.folder}"])
    box = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)
    learner = Learner(config.agent, box, box, agents=24, seed=0)
    create, others = RunFolder.create, [1, 2]

    def create_too_late(folder, *arguments):
        if others:
            (shell.folder / f"task-{others.pop(0)}").mkdir()
        create(folder, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunFolder, "create", create_too_late)
        assert run._create_folder(config, "task", learner).path.name == "task-3"
        named = config.model_copy(update={"run": config.run.model_copy(update={"name": "task-4"})})
        others.append(4)
        with pytest.raises(ConfigError, match="task-4 exists already"):
            run._create_folder(named, "task", learner)


def test_worker_without_a_learner_ends_after_patience(shell):
    connection = {
        "endpoint": "tcp://127.0.0.1:9",
        "run": "r",
        "env": ORACLE,
        "env_options": {},
        "patience": 1.0,
    }
    (shell.folder / "connection.json").write_text(json.dumps(connection))
    shell.command = lambda *words: [os.sys.executable, "-m", "coupling.worker", *words]
    done = shell.run("--connect", "connection.json", "--slot", "0", "--environments", "1")
    assert done.returncode == 1
    (seconds,) = re.findall(r"no learner answered at tcp://127.0.0.1:9 for (\d+) s", done.stderr)
    assert int(seconds) >= 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["agent.gama=1"], "did you mean 'agent.gamma'?"),
        (["env=NoSuchTask-v0"], "env = 'NoSuchTask-v0': no such environment"),
        (["env_options.fail=3"], "env_options.fail is no option"),
        (
            ["env=flowsim/DCylinderWake-v0", "env_options={reynolds: -400}"],
            "cannot be made: reynolds = -400: input should be greater than 0",
        ),
        (["env=flowsim/DCylinderWake-v0", "env_options={cells_per_diameter: 4.3}"], "even"),
        (
            ["agent.learning_starts=100000"],
            "learning_starts = 100000 must not be above buffer_size",
        ),
    ],
)
def test_bad_input_gives_a_one_line_error_and_creates_nothing(
    shell, words, sentence, monkeypatch, capsys
):
    code, stderr = main_in_process(shell, ["train", shell.preset(), *words], monkeypatch, capsys)
    assert code == 2
    assert sentence in complaint(stderr)
    assert not (shell.folder / "runs").exists()
