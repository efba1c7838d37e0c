"""Workers that are started before the learner is loaded."""

import os

import pytest

from coupling.launch.prewarm import Standby
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


def test_the_first_process_describes_the_task_as_it_is_and_none_is_left(own):
    config = own("0.0")
    with Standby(config) as standby:
        assert list(standby._processes) == [0]
        task = standby.task(seconds=120)
        assert not standby.is_busy
        processes = [process.pid for process in standby._processes.values()]
        assert all(map(is_running, processes))
    assert task == describe_task(config.env, {})
    assert task.episode_steps == 7
    assert len(processes) == 2
    assert not any(map(is_running, processes))


def test_what_it_cannot_describe_is_left_to_the_run_to_tell(own):
    with Standby(own("1 / 0")) as standby:
        assert standby.task(seconds=120) is None
        assert not standby.is_busy


def test_a_process_that_has_died_is_not_taken(own, tmp_path):
    with Standby(own("0.0")) as standby:
        first = standby._processes[0]
        first.kill()
        first.wait()
        assert standby.task(seconds=120) is None
        assert standby.take(0, ["python", "-m", "coupling.worker"], tmp_path / "stderr") is None


def test_nothing_is_started_where_others_start_the_workers():
    with Standby(load_config("classic/cartpole", ["workers.launcher=none"])) as standby:
        assert standby.task() is None
        assert not standby.is_busy
