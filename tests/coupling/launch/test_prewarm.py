"""Workers that are started before the learner is loaded."""

import os

import pytest
from shell import interrupt_after

from coupling.errors import RunError
from coupling.launch.prewarm import PrewarmedWorkers
from coupling.run import run
from coupling.run.screen import ConsoleScreen
from coupling.settings.config import load_config
from coupling.worker.environments import describe_task

ENVIRONMENT = """
import gymnasium

class Own(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))

    def reset(self, *, seed=None, options=None):
        print("on stdout")
        super().reset(seed=seed)
        return self.observation_space.sample() * 0, {}

    def step(self, action):
        return self.observation_space.sample() * 0, FIRST_REWARD, False, False, {}

gymnasium.register("Own-v0", Own, max_episode_steps=7)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(reward):
        (tmp_path / "standing.py").write_text(ENVIRONMENT.replace("FIRST_REWARD", reward))
        return load_config(None, ["env=standing:Own-v0", "workers.agents=2", "workers.processes=2"])

    return write


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_first_process_describes_the_task_and_no_process_is_left(own):
    config = own("0.0")
    with PrewarmedWorkers(config) as prewarmed:
        assert list(prewarmed._processes) == [0]
        task = prewarmed.task(seconds=120)
        assert not prewarmed.is_busy
        processes = [process.pid for process in prewarmed._processes.values()]
        assert all(map(is_running, processes))
    assert task == describe_task(config.env, {})
    assert task.episode_steps == 7
    assert len(processes) == 2
    assert not any(map(is_running, processes))


def test_task_that_cannot_be_described_is_left_to_the_run(own):
    with PrewarmedWorkers(own("1 / 0")) as prewarmed:
        assert prewarmed.task(seconds=120) is None
        assert not prewarmed.is_busy


@pytest.mark.parametrize(
    ("deed", "how"),
    [
        ("os._exit(3)", "exit code 3"),
        ("os._exit(0)", "exit code 0"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
    ],
)
def test_task_that_ends_its_process_is_reported(shell, deed, how):
    """A solver in C may call exit(), or crash: the command once ended silently with it."""
    code = f"import os\nimport signal\n{ENVIRONMENT}".replace("FIRST_REWARD", deed)
    (shell.folder / "standing.py").write_text(code)
    done = shell.run("train", "env=standing:Own-v0", "run.steps=100", "run.name=run")
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1] == (
        f"flowsim: env = 'standing:Own-v0' ended its process ({how}) while it was made, reset or stepped for the "
        "first time"
    )
    assert not shell.run_folder.exists()


@pytest.mark.slow
def test_wait_for_a_hanging_task_is_announced_and_limited(shell, monkeypatch):
    code = f"import time\n{ENVIRONMENT}".replace("FIRST_REWARD", "time.sleep(1e6)")
    (shell.folder / "standing.py").write_text(code)
    started = shell.start("train", "env=standing:Own-v0", "run.steps=100", "run.name=run")
    interrupt_after(started, "waiting for the first reset and step of env = 'standing:Own-v0': ")
    monkeypatch.setattr("coupling.run.run.FIRST_LOOK", 0.0)
    monkeypatch.chdir(shell.folder)
    config = load_config(None, ["env=standing:Own-v0", "workers.step_timeout=2"])
    sentence = r"env = 'standing:Own-v0' did not finish its creation, first reset and first step within 2 s"
    with (
        ConsoleScreen() as screen,
        PrewarmedWorkers(config) as prewarmed,
        pytest.raises(RunError, match=sentence),
    ):
        run.train(config, screen, prewarmed)


def test_keyboard_interrupt_raised_by_a_task_gives_no_traceback(shell):
    code = ENVIRONMENT.replace("FIRST_REWARD", "(_ for _ in ()).throw(KeyboardInterrupt)")
    (shell.folder / "standing.py").write_text(code)
    done = shell.run("train", "env=standing:Own-v0", "run.steps=100", "run.name=run")
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1] == "flowsim: interrupted"


def test_dead_process_is_not_used(own, tmp_path):
    with PrewarmedWorkers(own("0.0")) as prewarmed:
        first = prewarmed._processes[0]
        first.kill()
        first.wait()
        assert prewarmed.task(seconds=120) is None
        assert prewarmed.take(0, ["python", "-m", "coupling.worker"], tmp_path / "stderr") is None


def test_nothing_is_prewarmed_for_manually_started_workers():
    with PrewarmedWorkers(load_config("classic/cartpole", ["workers.launcher=none"])) as prewarmed:
        assert prewarmed.task() is None
        assert not prewarmed.is_busy
