"""The tasks and presets of the NERS paper."""

import gymnasium
import numpy as np
import pytest

import cases  # noqa: F401  (registers the tasks)
from coupling.settings.config import load_config
from coupling.settings.content import shipped_presets
from coupling.worker.environments import describe_task
from rl_agent.config.defaults import fit, warnings_of

PRESETS = [name for name in shipped_presets() if name.startswith("replay/")]


def test_sparse_pendulum_rewards_after_twenty_consecutive_upright_steps():
    environment = gymnasium.make("flowsim/SparsePendulum-v0")
    environment.reset(seed=0)
    pendulum, rng, in_a_row, paid = environment.unwrapped, np.random.default_rng(0), 0, 0
    for step in range(200):
        if step in (0, 90):
            pendulum.state = np.array([0.1, 0.0])
        theta, speed = pendulum.state
        torque = (
            -20.0 * ((theta + np.pi) % (2 * np.pi) - np.pi) - 4.0 * speed
            if step < 60
            else rng.uniform(-2, 2)
        )
        observation, reward, terminated, truncated, _ = environment.step(
            np.array([torque], np.float32)
        )
        in_a_row = in_a_row + 1 if observation[0] >= np.cos(np.pi / 3) else 0
        assert reward == float(in_a_row > 20)
        assert not terminated and truncated == (step == 199)  # noqa: PT018
        paid += reward
    assert 35 < paid < 150
    environment.reset(seed=0)
    pendulum.state = np.array([0.0, 0.0])
    # nothing is left of the episode before
    assert environment.step(np.zeros(1, np.float32))[1] == 0.0


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_match_table_b_1(preset):
    config = load_config(preset)
    agent = fit(config.agent, config.run.steps, 1000)
    assert (agent.batch_size, agent.buffer_size, agent.tau, agent.gamma, agent.learning_starts) == (
        128,
        10**6,
        5e-3,
        0.99,
        5000,
    )
    assert (agent.hidden, agent.activation, agent.learning_rate) == ((256, 256), "relu", 3e-4)
    assert (agent.priority_exponent, agent.importance_exponent) == (0.5, 0.4)
    assert agent.score_learning_rate == 1e-4
    halfway = agent.importance_correction(config.run.steps // 2)
    assert halfway == pytest.approx(0.4 * 0.5 + 1.0 * 0.5)
    assert warnings_of(agent, config.run.steps, 1000) == []


def test_all_presets_exist():
    assert {load_config(name).env for name in PRESETS} == {
        "flowsim/SparsePendulum-v0",
        "LunarLanderContinuous-v3",
        "BipedalWalker-v3",
        "Hopper-v5",
    }


@pytest.mark.parametrize("preset", PRESETS)
def test_task_of_a_preset_can_be_made_and_has_one_agent(preset):
    if "lunar" in preset or "walker" in preset:
        pytest.importorskip(
            "Box2D", reason="Box2D is not installed: pip install 'flowsim-rl[box2d]'"
        )
    config = load_config(preset)
    task = describe_task(config.env, config.env_options)
    assert task.agents_per_env == 1
    assert task.episode_steps is not None
