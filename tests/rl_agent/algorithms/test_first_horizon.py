"""PPO and A3C compute the state scales from a first horizon of its own length, and learn from it as usual."""

import numpy as np
import pytest
from learners import box
from pydantic import ValidationError

from rl_agent import AgentConfig, Learner

AGENTS, HORIZON, FIRST = 4, 16, 64


def alive(algorithm, first, steps):
    """A learner after some steps, its observations, and the number of gradient steps after each step."""
    batches = {"batch_size": 16} if algorithm == "ppo" else {}
    config = AgentConfig(
        algorithm=algorithm, hidden=(4,), horizon=HORIZON, first_horizon=first, **batches
    )
    learner = Learner(config, box(2, np.inf), box(1), agents=AGENTS, seed=0)
    rng, everyone, seen, updates = np.random.default_rng(0), np.arange(AGENTS), [], []
    look = rng.normal(size=(AGENTS, 2)).astype(np.float32)
    learner.begin(everyone, look)
    never = np.zeros(AGENTS, bool)
    for t in range(steps):
        learner.act(everyone)
        seen.append(look)
        # states that move away: the first few say little of the later ones
        look = (rng.normal(size=(AGENTS, 2)) + t).astype(np.float32)
        learner.observe(everyone, rng.normal(size=AGENTS), never, never, look)
        while learner.updates_due():
            learner.update()
        updates.append(learner.gradient_steps)
    return learner, np.concatenate(seen), updates


@pytest.mark.parametrize(("algorithm", "passes"), [("a3c", 1), ("ppo", 10)])
def test_only_the_first_iteration_is_longer(algorithm, passes):
    learner, seen, updates = alive(algorithm, FIRST, 32)
    first = FIRST // AGENTS
    gradients = [passes * (FIRST // HORIZON) + passes * k for k in range(5)]
    # one gradient of sixteen steps, or ten passes of them, an iteration; the first one has four times as many
    assert updates[: first - 1] == [0] * (first - 1)
    assert updates[first - 1 :: HORIZON // AGENTS] == gradients
    np.testing.assert_allclose(learner.state_scale.mean, seen[:FIRST].mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(
        1.0 / learner.state_scale.per_std, seen[:FIRST].std(axis=0), rtol=1e-5
    )


@pytest.mark.parametrize("algorithm", ["a3c", "ppo"])
def test_first_iteration_is_like_the_others_by_default(algorithm):
    learner, seen, updates = alive(algorithm, None, 8)
    assert updates[2] == 0 < updates[3]
    np.testing.assert_allclose(learner.state_scale.mean, seen[:HORIZON].mean(axis=0), rtol=1e-5)


def test_first_horizon_must_not_be_shorter():
    with pytest.raises(ValidationError, match="first_horizon = 8 must not be below horizon = 16"):
        AgentConfig(algorithm="a3c", horizon=16, first_horizon=8)
