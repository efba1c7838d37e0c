"""Stacked frames and previous actions: training sees the same inputs as acting, for every learner that uses them."""

import copy

import gymnasium
import numpy as np
import pytest
from learners import a_learner, box

from rl_agent import AgentConfig, Learner, Policy

LEARNERS = {
    "vracer": {},
    "vracer, discrete": {"choices": 3},
    "ddpg": {},
    "naf": {},
    "td3": {},
    "sac": {},
    "acer": {"episodes": 5, "segment": 6},
    "tis": {"episodes": 5, "segment": 6},
    "dqn": {"choices": 3},
    "rainbow": {"choices": 3},
    "ppo": {"horizon": 64},
    "a3c": {"horizon": 64},
}


def learner_of(name, **settings):
    """A learner with three frames and previous actions, unless the settings say otherwise."""
    stacked = {"frames": 3, "previous_action": True}
    return a_learner(name.split(",")[0], **stacked | LEARNERS[name] | settings)


def applied(learner, raw):
    """What the task does of raw actions, whose bounds are -1 and 1; of discrete ones a number for each."""
    if learner.sizes.choices:
        return np.eye(3, dtype=np.float32)[raw[:, 0].astype(int)]
    return np.clip(learner.action_map(raw), -1.0, 1.0)


@pytest.mark.parametrize("name", LEARNERS)
def test_stored_step_has_the_previous_applied_action(name):
    learner = learner_of(name)
    storage = learner.memory.storage
    steps = storage.indices()
    before = storage.observation[steps, 3:]
    first = storage.position[steps] == 0
    assert not before[first].any()
    np.testing.assert_array_equal(
        before[~first], applied(learner, storage.action[steps - 1])[~first]
    )
    rows = storage.all_rows()
    last = (storage.start[rows] + storage.length[rows] - 1) % storage.capacity
    found = storage.final_observation[rows, 3:]
    np.testing.assert_array_equal(found, applied(learner, storage.action[last]))


@pytest.mark.parametrize("name", [name for name in LEARNERS if name not in ("dqn", "rainbow")])
def test_frame_stack_of_a_sampled_step_gives_the_stored_behaviour(name):
    """With the weights that acted, evaluating the windows of the memory gives the stored statistics."""
    later = (
        {} if "horizon" in LEARNERS[name] else {"learning_starts": 400}
    )  # states stay as they are
    learner = learner_of(name, **later)
    actions = gymnasium.spaces.Discrete(3) if learner.sizes.choices else box(2)
    fresh = Learner(learner.config, box(3, np.inf), actions, agents=2, seed=0)
    storage, size = learner.memory.storage, learner.sizes.observation
    steps = storage.indices()
    windows = storage.windows(steps, 3, np.zeros(size, np.float32), np.ones(size, np.float32))
    assert (windows[0][storage.position[steps] < 2] == 0.0).all()
    said = fresh.algorithm.act(windows[2], windows[:2].transpose(1, 0, 2).reshape(len(steps), -1))
    np.testing.assert_allclose(storage.behaviour_mean[steps], said.mean, atol=1e-6)


@pytest.mark.parametrize("name", LEARNERS)
def test_policy_acts_like_its_learner_and_continues_from_files_and_copies(name, tmp_path):
    learner = learner_of(name)
    learner.save(tmp_path / "checkpoint.npz")
    policies = [learner.policy(), Policy.load(tmp_path / "checkpoint.npz")]
    policies[0].save(tmp_path / "policy.npz")
    policies += [Policy.load(tmp_path / "policy.npz"), copy.deepcopy(policies[0])]
    act = learner.algorithm.actor.bind(policies[0].weights)
    rng = np.random.default_rng(2)
    states = [policy.initial_state(4) for policy in policies]
    network = learner.algorithm.network.state_shape[0]
    last, raw = np.zeros((4, network), np.float32), np.zeros((4, learner.sizes.previous_action))
    for _ in range(6):
        seen = rng.normal(size=(4, 3)).astype(np.float32)
        actions = []
        for number, policy in enumerate(policies):
            action, states[number] = policy.act(seen, states[number])
            actions.append(action)
        for other in actions[1:]:
            np.testing.assert_array_equal(actions[0], other)
        read = learner.state_scale(np.concatenate([seen, raw], axis=1).astype(np.float32))
        said = act(read, last)
        last = said.state
        if learner.sizes.choices:
            best = said.mean.argmax(axis=1)
            np.testing.assert_array_equal(actions[0][:, 0], best)
            raw = np.eye(3)[best]
        else:
            raw = applied(learner, said.mean)
            np.testing.assert_allclose(actions[0], raw, atol=1e-6)


@pytest.mark.parametrize("name", LEARNERS)
def test_updates_resume_bit_for_bit_from_a_checkpoint(name, tmp_path):
    learner = learner_of(name)
    learner.save(tmp_path / "checkpoint.npz")
    again = Learner.load(tmp_path / "checkpoint.npz")
    for each in (learner, again):
        for _ in range(1 if name == "a3c" else 3):  # which discards each horizon after one update
            each.update()
    np.testing.assert_array_equal(learner.algorithm.weights, again.algorithm.weights)
    assert np.isfinite(again.algorithm.weights).all()


def test_settings_not_used_by_the_network_are_refused():
    with pytest.raises(
        ValueError, match="frames = 3 is a setting of network = mlp, which network = lstm"
    ):
        AgentConfig(network="lstm", frames=3)
    with pytest.raises(ValueError, match="previous_action = true needs vector observations"):
        AgentConfig(network="conv", image_shape=(1, 12, 12), previous_action=True)
