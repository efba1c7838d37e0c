"""A policy alone: single observations and batches, memory along an episode, shapes that do not fit, files."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rl_agent import AgentConfig, CheckpointError, Learner, Policy

OBSERVATIONS = Box(-np.inf, np.inf, (3,), np.float32)
ACTIONS = Box(np.array([-1.0, 0.0], np.float32), np.array([2.0, 0.5], np.float32))


def policy_of(space=ACTIONS, **settings):
    config = AgentConfig(hidden=(8,), **settings)
    learner = Learner(config, OBSERVATIONS, space, agents=1, seed=1)
    rng = np.random.default_rng(0)
    learner.algorithm.weights[:] = rng.normal(0.0, 0.5, learner.algorithm.weights.shape)
    learner.state_scale.mean[:3] = 1.0, -2.0, 0.5
    learner.state_scale.per_std[:3] = 0.5, 2.0, 1.0
    return learner.policy()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"network": "lstm"},
        {"network": "lstm", "acting": "window"},
        {"frames": 3},
        {"frames": 3, "previous_action": True},
    ],
)
def test_single_observation_gives_the_same_as_in_a_batch(settings):
    policy = policy_of(**settings)
    episode = np.random.default_rng(1).normal(size=(6, 4, 3))
    state, alone = policy.initial_state(4), None
    for observations in episode:
        actions, state = policy.act(observations, state)
        action, alone = policy.act(observations[2], alone)
        assert action.shape == (2,)
        np.testing.assert_allclose(action, actions[2], atol=1e-6)
        np.testing.assert_allclose(alone, state[2], atol=1e-6)


def test_state_of_a_batch_of_one_keeps_its_batch_axis():
    policy = policy_of(network="lstm")
    action, state = policy.act(np.zeros(3), policy.initial_state(1))
    assert action.shape == (2,)
    assert policy.act(np.ones(3), state)[1].shape == state.shape


def test_discrete_actions_use_the_numbering_of_the_task():
    policy = policy_of(Discrete(3, start=5), algorithm="dqn")
    actions, _ = policy.act(np.random.default_rng(0).normal(0.0, 5.0, (200, 3)))
    assert set(actions[:, 0]) <= {5.0, 6.0, 7.0}
    assert policy.act(np.zeros(3))[0].shape == (1,)


@pytest.mark.parametrize(
    ("observations", "state", "says"),
    [
        (np.zeros((1, 9)), None, "shape (1, 9), but this policy takes shape (n, 3) or (3,)"),
        (np.zeros(9), None, "shape (9,), but this policy takes"),
        (0.0, None, "shape (), but this policy takes"),
        (np.zeros((2, 2, 3)), None, "shape (2, 2, 3), but this policy takes"),
        (np.zeros((2, 3)), np.zeros((1, 16)), "a state of shape (1, 16), but (2, 16) belongs"),
        (np.zeros((2, 3)), np.zeros(32), "a state of shape (32,), but (2, 16) belongs"),
    ],
)
def test_wrong_shapes_are_refused(observations, state, says):
    with pytest.raises(ValueError, match=r".") as refusal:
        policy_of(network="lstm").act(observations, state)
    assert says in str(refusal.value)


def test_sampling_needs_a_random_generator():
    with pytest.raises(ValueError, match="rng"):
        policy_of().act(np.zeros(3), deterministic=False)


def test_policy_loads_from_the_file_and_from_its_folder(tmp_path):
    policy = policy_of(network="lstm")
    policy.save(tmp_path / "checkpoint.npz")
    seen = np.random.default_rng(1).normal(size=(5, 3))
    for place in (tmp_path, tmp_path / "checkpoint.npz", str(tmp_path)):
        np.testing.assert_array_equal(Policy.load(place).act(seen)[0], policy.act(seen)[0])


def test_file_that_is_not_a_checkpoint_is_refused(tmp_path):
    (tmp_path / "checkpoint.npz").write_bytes(b"nothing of the kind")
    with pytest.raises(CheckpointError):
        Policy.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        Policy.load(tmp_path / "other.npz")
