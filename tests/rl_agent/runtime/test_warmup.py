"""After the warm-up nothing more is compiled."""

import numba
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from numba.core import event

from coupling.run.warmup import run_warmup
from rl_agent.config import AgentConfig
from rl_agent.learner import Learner

OBSERVATIONS, ACTIONS = Box(-np.inf, np.inf, (4,), np.float32), Box(-1.0, 1.0, (2,), np.float32)


@pytest.mark.parametrize(
    "settings",
    [{"algorithm": "vracer", "network": "lstm"}, {"algorithm": "td3", "sampler": "ners"}],
    ids=str,
)
def test_run_compiles_nothing_after_warmup(settings):
    config = AgentConfig(
        **settings,
        hidden=(8, 8),
        buffer_size=256,
        learning_starts=40,
        batch_size=16,
        env_steps_per_gradient_step=1.0,
    )
    run_warmup(config, Box(-1.0, 1.0, (3,), np.float32), Box(-1.0, 1.0, (1,), np.float32))
    with event.install_recorder("numba:compile") as recorder:
        learner = Learner(config, OBSERVATIONS, ACTIONS, agents=5, seed=1)
        agents, rng = np.arange(5), np.random.default_rng(0)
        learner.begin(agents, rng.normal(size=(5, 4)))
        for step in range(1, 30):
            learner.act(agents)
            ended = np.full(5, step % 7 == 0)
            observations = rng.normal(size=(5, 4))
            learner.observe(agents, rng.normal(size=5), ended & (agents < 2), ended, observations)
            if ended.any():
                learner.begin(agents, observations)
            while learner.updates_due():
                learner.update()
        learner.sweep_memory()
    assert learner.gradient_steps > 20
    assert not recorder.buffer


def test_recorder_sees_compilation():
    with event.install_recorder("numba:compile") as recorder:
        numba.njit(lambda x: x + 1)(1)
    assert recorder.buffer


@pytest.mark.parametrize("algorithm", ["a3c", "ppo"])
def test_warmup_updates_with_any_first_horizon(algorithm, monkeypatch):
    updates = []
    update = Learner.update
    monkeypatch.setattr(Learner, "update", lambda self: (updates.append(1), update(self)))
    run_warmup(AgentConfig(algorithm=algorithm, first_horizon=5000), OBSERVATIONS, ACTIONS)
    assert updates


@pytest.mark.parametrize("algorithm", ["vracer", "ppo", "dqn", "acer"])
def test_warmup_updates_with_images(algorithm, monkeypatch):
    updates = []
    update = Learner.update
    monkeypatch.setattr(Learner, "update", lambda self: (updates.append(1), update(self)))
    config = AgentConfig(
        algorithm=algorithm, network="conv", image_shape=(1, 8, 8), convolutions=((2, 3, 2),)
    )
    run_warmup(config, Box(0, 255, (64,), np.uint8), Discrete(3))
    assert updates
