"""An exported policy acts in ONNX Runtime like the original, over whole episodes."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rl_agent import AgentConfig, Learner
from rl_agent.saving.onnx_export import export_onnx, largest_difference

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

OBSERVATIONS = Box(-np.inf, np.inf, (3,), np.float32)
ACTIONS = Box(np.array([-1.0, 0.0], np.float32), np.array([2.0, 0.5], np.float32))
CHOICES = Discrete(4, start=-1)
PICTURES = Box(0.0, 255.0, (2 * 12 * 12,), np.float32)


def learner_of(algorithm, observations=OBSERVATIONS, actions=ACTIONS, agents_per_env=1, **settings):
    config = AgentConfig.model_validate({"algorithm": algorithm, "hidden": [8], **settings})
    learner = Learner(
        config, observations, actions, agents=1, seed=1, agents_per_env=agents_per_env
    )
    rng = np.random.default_rng(0)
    weights = learner.algorithm.weights
    weights[:] = rng.normal(0.0, 0.5, weights.shape)
    if not settings.get("picture"):
        size = len(learner.state_scale.mean)
        learner.state_scale.mean[:] = rng.normal(size=size)
        learner.state_scale.per_std[:] = rng.uniform(0.5, 2.0, size)
    return learner


def rows_of(session, observations, state):
    """Run a file on some rows; returns its actions and its next state, if it has one."""
    fed = {"observation": observations} | ({} if state is None else {"state": state})
    action, *following = session.run(None, fed)
    return action, following[0] if following else None


def test_exported_recurrent_policy_acts_like_the_original(tmp_path):
    learner = learner_of("vracer", network="lstm", window=4)
    policy = learner.policy()
    export_onnx(policy, tmp_path / "policy.onnx", {"task": "Some-v0"})
    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx")
    episode = np.random.default_rng(1).normal(0.0, 3.0, (12, 7, 3)).astype(np.float32)
    ours, theirs = policy.initial_state(7), np.zeros((7, policy.state_size), np.float32)
    for seen in episode:
        expected, ours = policy.act(seen, ours)
        action, theirs = rows_of(session, seen, theirs)
        np.testing.assert_allclose(action, expected, atol=1e-5)
        assert ((action >= ACTIONS.low) & (action <= ACTIONS.high)).all()
    notes = session.get_modelmeta().custom_metadata_map
    assert notes["task"] == "Some-v0"
    assert notes["action_high"] == "[2.0, 0.5]"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("vracer", {}),
        ("vracer", {"actions": CHOICES}),
        ("vracer", {"network": "lstm", "window": 3, "acting": "window"}),
        ("vracer", {"network": "lstm", "window": 3, "trunks": "separate"}),
        ("vracer", {"network": "lstm", "window": 3, "previous_action": True}),
        ("vracer", {"frames": 3, "previous_action": True}),
        ("sac", {"frames": 3, "previous_action": True}),
        ("dqn", {"actions": CHOICES, "frames": 2, "previous_action": True}),
        ("sac", {}),
        ("ddpg", {}),
        ("td3", {}),
        ("naf", {}),
        ("acer", {"actions": CHOICES}),
        ("acer", {"actions": CHOICES, "shared_network": True}),
        ("ppo", {}),
        ("rainbow", {"actions": CHOICES}),
        (
            "dqn",
            {
                "observations": PICTURES, "actions": CHOICES, "network": "conv", "image_shape": [2, 12, 12],
                "convolutions": [[4, 4, 2]], "window": 2,
            },
        ),
    ],
)  # fmt: skip
def test_every_kind_of_exported_policy_acts_like_the_original(algorithm, settings, tmp_path):
    policy = learner_of(algorithm, **settings).policy()
    export_onnx(policy, tmp_path / "policy.onnx")
    assert largest_difference(policy, tmp_path / "policy.onnx") < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"policies": "shared"},
        {"policies": "own"},
        {"policies": "own", "network": "lstm", "window": 3, "previous_action": True},
        {"actions": CHOICES, "policy": "boltzmann"},
    ],
)
def test_multi_agent_export_has_an_agent_axis(settings, tmp_path):
    policy = learner_of("vracer", agents_per_env=3, **settings).policy()
    export_onnx(policy, tmp_path / "policy.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx")
    seen = np.random.default_rng(1).normal(size=(4, 3, 3)).astype(np.float32)
    state = policy.initial_state(4) if policy.state_size else None
    action, _ = rows_of(session, seen, state)
    expected, _ = policy.act(seen)
    np.testing.assert_allclose(action.reshape(expected.shape), expected, atol=1e-5)
    assert action.shape[:2] == (4, 3)
    assert largest_difference(policy, tmp_path / "policy.onnx") < 1e-5


def test_file_of_another_policy_is_detected(tmp_path):
    learner = learner_of("vracer", hidden=[4])
    export_onnx(learner.policy(), tmp_path / "policy.onnx")
    learner.algorithm.weights[:] += 0.1
    assert largest_difference(learner.policy(), tmp_path / "policy.onnx") > 1e-3


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_actions_that_are_nan_are_no_agreement(tmp_path):
    learner = learner_of("vracer", hidden=[4])
    learner.algorithm.weights[:] = np.nan
    export_onnx(learner.policy(), tmp_path / "policy.onnx")
    assert np.isnan(largest_difference(learner.policy(), tmp_path / "policy.onnx"))
