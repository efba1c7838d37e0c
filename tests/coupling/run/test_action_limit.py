"""An evaluation in a run whose environment does not return from a step is reported and ended."""

import contextlib
import re
import signal
import time
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest

from coupling.errors import RunError
from coupling.run import action_limit, run
from coupling.run.folder import RunFolder
from coupling.run.selection import choose_policy
from coupling.settings.config import load_config
from rl_agent.learner import Learner

BOX = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)


class Stuck(gym.Env):
    """A task whose third step does not return, also not after an exception that it handles."""

    observation_space = action_space = BOX

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        while self.steps >= 3:
            try:
                time.sleep(1e6)
            except Exception:
                continue
        return np.zeros(2, np.float32), 0.0, False, False, {}


class Screen:
    """What a run says."""

    def __init__(self):
        self.said, self.actions = [], []
        self.say = self.said.append

    def evaluating(self, name, over, episodes, actions):
        self.actions.append(actions)


@contextlib.contextmanager
def reporting_at_once(what, say):
    say(f"{what} for 10 s")
    yield lambda: None


@pytest.fixture
def stuck(monkeypatch):
    monkeypatch.setattr(action_limit, "FIRST_LOOK", 1.0)
    monkeypatch.setattr(action_limit, "reporting_stalls", reporting_at_once)
    monkeypatch.setitem(gym.registry, "Stuck-v0", gym.envs.registration.EnvSpec("Stuck-v0", Stuck))
    words = ["env=Stuck-v0", "workers.agents=2", "workers.processes=1", "workers.step_timeout=0.5"]
    return load_config(None, [*words, "run.evaluate_episodes=4", "run.select_episodes=4"])


SENTENCE = "no action of env = 'Stuck-v0' has finished for "


def alarm():
    return signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[0]


def learner_of(config):
    return Learner(config.agent, BOX, BOX, agents=2, seed=0)


def test_evaluation_that_hangs_is_reported_and_ended(stuck):
    screen, before, timer = Screen(), *alarm()
    # one second, and half a second for every two of four environments
    with pytest.raises(RunError, match=re.escape(f"{SENTENCE}2 s; a larger workers.step_timeout")):
        run._evaluate(stuck, learner_of(stuck), screen, deterministic=True)
    assert screen.actions in ([], [1], [1, 2])  # fewer if the machine stood still
    assert screen.said == [f"{SENTENCE}10 s"]
    # as before: a time limit of tests may use it
    assert alarm()[0] is before
    assert (alarm()[1] > 0.0) == (timer > 0.0)


def test_choice_of_a_policy_that_hangs_is_ended(stuck, tmp_path):
    with pytest.raises(RunError, match=SENTENCE):
        choose_policy(RunFolder(tmp_path), stuck, learner_of(stuck), Screen())


def test_limit_of_a_flow_begins_with_its_first_action(stuck, monkeypatch):
    monkeypatch.setattr(action_limit, "is_flow", lambda env: True)
    screen = SimpleNamespace(say=pytest.fail)
    with action_limit.limiting_actions(stuck, 4, screen.say) as acted:
        assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0
        acted()
        assert 0.0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 2.0
