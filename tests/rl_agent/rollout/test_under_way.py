"""Reports of episodes that have not ended yet."""

import numpy as np
import pytest
from learners import box

from rl_agent import AgentConfig, Learner


@pytest.mark.parametrize("piece", [None, 7])
def test_open_episodes_are_reported_with_their_return_so_far(piece):
    config = AgentConfig(
        hidden=(8, 8), batch_size=8, buffer_size=400, learning_starts=50, fragment_length=piece
    )
    learner = Learner(config, box(2, np.inf), box(1), agents=3, seed=0)
    rng = np.random.default_rng(0)
    assert learner.episodes_under_way() == []
    learner.begin([0, 2], rng.normal(size=(2, 2)))
    assert learner.episodes_under_way() == []
    returns, lengths = np.zeros(3), np.zeros(3, int)
    for t in range(40):
        learner.act([0, 2])
        rewards, ended = rng.normal(size=2), np.array([t == 24, False])
        learner.observe([0, 2], rewards, ended, [False] * 2, rng.normal(size=(2, 2)))
        returns[[0, 2]] += np.float32(rewards)
        lengths[[0, 2]] += 1
        if t == 24:
            assert [record.agent for record in learner.episodes_under_way()] == [2]
            learner.begin([0], rng.normal(size=(1, 2)))
            returns[0] = lengths[0] = 0
    first, second = learner.episodes_under_way()
    assert (first.agent, first.length, second.agent, second.length) == (0, 15, 2, 40)
    assert first.episode_return == pytest.approx(returns[0], abs=1e-6)
    assert second.episode_return == pytest.approx(returns[2], abs=1e-6)
    assert (first.step, first.terminated) == (80, False)
