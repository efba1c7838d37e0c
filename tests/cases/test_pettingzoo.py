"""Multi-agent environments and PettingZoo: its API tests, and its limit on cycles."""

import warnings

import numpy as np
import pytest

from cases.swimmer_school.env import parallel_env
from coupling.worker.env_registry import parallel_env_maker
from coupling.worker.environments import describe_task
from coupling.worker.multi_agent import MultiAgentEnv, space_of_one
from rl_agent import AgentConfig, Learner

PETTINGZOO = pytest.importorskip(
    "pettingzoo.test", reason="PettingZoo is not installed: pip install 'flowsim-rl[sisl]'"
)
MULTIWALKER = "parallel:pettingzoo.sisl.multiwalker_v9"
SISL = [f"parallel:pettingzoo.sisl.{name}" for name in ("multiwalker_v9", "pursuit_v4", "waterworld_v4")]  # fmt: skip


def tiny_school():
    return parallel_env(
        swimmers=3, columns=2, cells_per_length=16, box=(4.0, 2.0), thickness=0.08, episode_actions=4
    )  # fmt: skip


def test_school_passes_the_pettingzoo_api_tests():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PETTINGZOO.parallel_api_test(tiny_school(), num_cycles=6)
        PETTINGZOO.parallel_seed_test(tiny_school, num_cycles=6)


@pytest.mark.parametrize("env", SISL)
def test_sisl_games_pass_the_pettingzoo_api_tests(env):
    make = parallel_env_maker(env)
    PETTINGZOO.parallel_api_test(make(), num_cycles=40)
    PETTINGZOO.parallel_seed_test(make, num_cycles=10)


@pytest.mark.parametrize("env", SISL)
def test_max_cycles_truncates(env):
    env = MultiAgentEnv(parallel_env_maker(env), {"max_cycles": 4})
    env.action_space.seed(0)
    for _ in range(2):
        env.reset(seed=3)
        ends = [env.step(env.action_space.sample())[2:4] for _ in range(4)]
        assert ends == [(False, False)] * 3 + [(False, True)]


@pytest.mark.parametrize("env", SISL)
def test_default_max_cycles_is_known(env):
    assert describe_task(env, {}).episode_steps == 500


def play(cycles, seed=1):
    """Play Multiwalker with fixed random actions until it ends; return the observations, terminated and truncated."""
    env = MultiAgentEnv(parallel_env_maker(MULTIWALKER), {"max_cycles": cycles})
    seen = [env.reset(seed=seed)[0]]
    rng = np.random.default_rng(0)
    while True:
        action = rng.uniform(-1, 1, env.action_space.shape).astype(np.float32)
        observation, _, terminated, truncated, _ = env.step(action)
        seen.append(observation)
        if terminated or truncated:
            return np.array(seen), terminated, truncated


def test_fall_at_the_cycle_limit_terminates_and_standing_truncates():
    seen, terminated, truncated = play(500)
    falls = len(seen) - 1
    assert (terminated, truncated) == (True, False)
    assert falls < 400
    for cycles, ends in ((falls, (True, False)), (falls - 1, (False, True))):
        again, *ended = play(cycles)
        assert tuple(ended) == ends
        np.testing.assert_array_equal(again[:, 0, :24], seen[: cycles + 1, 0, :24])


def test_value_at_the_cycle_limit_is_bootstrapped():
    env = MultiAgentEnv(parallel_env_maker(MULTIWALKER), {"max_cycles": 6})
    learner = Learner(
        AgentConfig(hidden=(8,), buffer_size=64, learning_starts=6, batch_size=4),
        space_of_one(env.observation_space),
        space_of_one(env.action_space),
        agents=1,
        seed=0,
        agents_per_env=3,
    )
    learner.begin([0], env.reset(seed=1)[0][None])
    ended = False
    while not ended:
        action = np.clip(learner.act([0]), -1, 1)[0].astype(np.float32)
        observation, _, terminated, truncated, told = env.step(action)
        got = told["agent_rewards"], told["agent_ended"]
        outcome = got[0][None], [terminated], [truncated], observation[None], got[1][None]
        learner.observe([0], *outcome)
        ended = terminated or truncated
    memory = learner.memory
    assert not memory.storage.terminated[:3].any()
    value = learner.algorithm.act(
        learner.state_scale(observation), np.zeros((3, 0), np.float32)
    ).value
    assert (memory.values.final_value[:3] != 0.0).all()
    np.testing.assert_allclose(memory.values.final_value[:3], value, rtol=1e-5)


def test_other_parallel_environments_are_not_wrapped():
    """Only PettingZoo's own environments get the limit on cycles."""
    assert parallel_env_maker("parallel:cases.swimmer_school.env") is parallel_env
