"""Parts of episodes: a policy that has not changed sees in each stored step what it saw while acting."""

import gymnasium
import numpy as np
import pytest
from learners import box

from rl_agent import AgentConfig, Learner
from rl_agent.replay import Source

MEMORY = {"buffer_size": 2000, "learning_starts": 150, "batch_size": 8}
HORIZON = {"horizon": 48, "frames": 4}
STORED = {"network": "lstm", "acting": "carried", "initial_state": "stored"}
PICTURES = {"network": "conv", "image_shape": (1, 3, 3), "convolutions": ((2, 2, 1),), "window": 2}
AGENTS = 3

CASES = {
    "ppo": ("ppo", HORIZON | {"batch_size": 8}),
    "a3c": ("a3c", HORIZON),
    "ppo of pictures": ("ppo", PICTURES | {"horizon": 48, "batch_size": 8}),
    "frames": ("vracer", MEMORY | {"frames": 4, "fragment_length": 5}),
    "frames, separate trunks": (
        "vracer",
        MEMORY | {"frames": 4, "fragment_length": 3, "trunks": "separate"},
    ),
    "acer, frames": (
        "acer",
        {"buffer_size": 2000, "learning_starts": 150, "segment": 4, "frames": 4}
        | {"fragment_length": 5},
    ),
    "acting on windows": (
        "vracer",
        MEMORY | {"network": "lstm", "acting": "window", "window": 3, "fragment_length": 5},
    ),
    "stored states": ("vracer", MEMORY | STORED | {"window": 2, "fragment_length": 5}),
    "stored states of sequences": (
        "vracer",
        MEMORY | STORED | {"window": 1, "sequence_length": 4, "fragment_length": 3},
    ),
    "stored states, episodes as long as the memory": (
        "vracer",
        MEMORY | STORED | {"window": 2, "buffer_size": 10, "learning_starts": 10},
    ),
}


def play(learner, rng):
    """Act, without learning anything, until the memory holds later parts of episodes, and an update is due."""
    everyone, size = np.arange(learner.agents), learner.sizes.observation
    seen = lambda n: rng.integers(0, 9, (n, size)).astype(np.float32)  # noqa: E731
    learner.begin(everyone, seen(learner.agents))
    storage = learner.memory.storage
    while not (learner.updates_due() and storage.preceding[storage.all_rows()].any()):
        while learner.updates_due():
            learner.update()
        learner.act(everyone)
        ended = rng.random(learner.agents) < 0.05
        rewards = rng.normal(size=learner.agents)
        learner.observe(everyone, rewards, ended, 0 * ended, seen(learner.agents))
        learner.begin(everyone[ended], seen(int(ended.sum())))


@pytest.mark.parametrize("name", CASES)
def test_an_unchanged_policy_has_importance_weights_of_one_in_every_part(name):
    algorithm, settings = CASES[name]
    config = AgentConfig(algorithm=algorithm, hidden=(8,), learning_rate=1e-12, **settings)
    pictures = config.network == "conv"
    space = gymnasium.spaces.Box(0.0, 255.0, (9,), np.float32) if pictures else box(3, np.inf)
    agents = 1 if config.buffer_size == 10 else AGENTS
    learner = Learner(config, space, box(2), agents=agents, seed=0)
    learner.state_scale.frozen = True
    rng = np.random.default_rng(0)
    weights = learner.algorithm.weights
    weights[:] = 0.5 * rng.standard_normal(len(weights)).astype(np.float32)
    play(learner, rng)
    scale = learner.state_scale
    source = Source(learner.memory, scale.mean, scale.per_std, 0.9, 1.0)
    _, batch = learner.algorithm.gather(source, learner.memory.storage.indices())
    evaluation = learner.algorithm.update(batch, 1e-12, learner.refer.rules(0))
    np.testing.assert_allclose(evaluation.rho, 1.0, atol=1e-5)
