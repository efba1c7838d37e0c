"""Environments of several agents through the service; see meadow.py. Chaos with them is in service/test_chaos.py."""

import csv
import json
import re
import sys

import gymnasium as gym
import numpy as np
import pytest
import yaml
from meadow import Meadow

from coupling.errors import ConfigError
from coupling.worker.environments import describe_task, make_vector
from coupling.worker.multi_agent import MultiAgentEnv
from rl_agent import Learner
from rl_agent.multi_agent.outcomes import agent_outcomes

MEADOW = "parallel:meadow"


@pytest.mark.parametrize(("env", "agents"), [(MEADOW, 2), ("flowsim/SwimmerSchool-v0", 1)])
def test_agents_per_env_ignores_other_attributes_of_an_environment(env, agents):
    """The school's Gymnasium form once had a ``world``, as have Gymnasium's lunar lander and walker."""
    assert describe_task(env, {} if env == MEADOW else {"preset": "quick"}).agents_per_env == agents


@pytest.mark.parametrize(
    ("env", "agents"),
    [("parallel:cases.swimmer_school.env", 4), ("parallel:cases.rayleigh_benard.env", 10)],
)
def test_batched_environments_keep_their_agents(env, agents):
    """They were once trained as one agent that observes and controls everything."""
    task = describe_task(env, {"preset": "quick"})
    vector = make_vector(env, {"preset": "quick"}, 2)
    seen, _ = vector.reset(seed=[0, 1])
    vector.close()
    assert task.agents_per_env == agents
    assert seen.shape == (2, agents, *task.observation_space.shape)


def test_a_multi_agent_environment_has_an_axis_of_agents():
    env = MultiAgentEnv(Meadow, {"count": 3, "max_cycles": 5, "leaver": "cow_1"})
    twin = Meadow(count=3, max_cycles=5, leaver="cow_1")
    assert (env.agents_per_env, env.episode_steps) == (3, 5)
    assert (env.observation_space.shape, env.action_space.shape) == ((3, 2), (3, 1))
    observations, _ = env.reset(seed=4)
    twin.reset(seed=4)
    rng = np.random.default_rng(0)
    for number in range(1, 6):
        assert env.observation_space.contains(observations)
        action = rng.uniform(-1, 1, env.action_space.shape).astype(np.float32)
        observations, reward, terminated, truncated, infos = env.step(action)
        seen, rewards, *_ = twin.step({name: action[int(name[-1])] for name in twin.agents})
        np.testing.assert_array_equal(infos["agent_ended"], [False, number >= 3, False])
        for name, of in seen.items():
            np.testing.assert_array_equal(observations[int(name[-1])], of.ravel())
        np.testing.assert_allclose(
            infos["agent_rewards"],
            [rewards.get(name, 0.0) for name in twin.possible_agents],
            rtol=1e-6,
        )
        assert reward == pytest.approx(sum(rewards.values()) / 3)
        assert (terminated, truncated) == (False, number == 5)


def test_a_multi_agent_environment_whose_agents_have_all_ended_is_terminated():
    env = MultiAgentEnv(Meadow, {"leaver": ("cow_0", "cow_1")})
    env.reset(seed=0)
    ends = [env.step(np.zeros((2, 1), np.float32))[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (True, False)]


class Careless(Meadow):
    """A meadow whose ``reset`` (step 0), or step 1, leaves out or spoils something of the last cow."""

    def __init__(self, what, at=1):
        super().__init__(count=3)
        self.what, self.at = what, at

    def reset(self, seed=None, options=None):
        seen, infos = super().reset(seed=seed, options=options)
        return self.spoiled(0, [seen, infos])

    def step(self, actions):
        return self.spoiled(1, list(super().step(actions)))

    def spoiled(self, at, given):
        if at != self.at:
            return tuple(given)
        if self.what == "nothing":
            return None
        if self.what == "list":
            given[0] = list(given[0].values())
        elif self.what == "shape":
            given[0]["cow_2"] = np.zeros(1)
        elif self.what == "word":
            given[0]["cow_2"] = np.array(["left", "right"])
        elif self.what == "flag":
            given[2]["cow_2"] = "no"
        elif self.what == "leaves":
            self.agents.remove("cow_2")
        else:
            del given[int(self.what)]["cow_2"]
        return tuple(given)


@pytest.mark.parametrize(
    ("what", "at", "sentence"),
    [
        ("0", 0, r"its reset\(\) returned no observation for cow_2, which has not ended \(test_mul.*"),
        ("nothing", 0, r"its reset\(\) returned NoneType, but must return 2 values: observation, info .*"),
        ("list", 0, r"its reset\(\) returned observation as list, but it must be a dict .*"),
        ("shape", 0, r"its reset\(\) returned an observation of shape \(1,\) for cow_2, but .* \(2,\) .*"),
        ("0", 1, r"its step\(\) returned no observation for cow_2, which has not ended .*"),
        ("1", 1, r"its step\(\) returned no reward for cow_2, which has not ended .*"),
        ("2", 1, r"its step\(\) returned no terminated for cow_2, which has not ended .*"),
        ("3", 1, r"its step\(\) returned no truncated for cow_2, which has not ended .*"),
        ("nothing", 1, r"its step\(\) returned NoneType, but must return 5 values: .*"),
        ("shape", 1, r"its step\(\) returned an observation of shape \(1,\) for cow_2, but .* \(2,\) .*"),
        ("word", 1, r"its step\(\) returned an observation that is not of its observation_space Box.*"),
        ("flag", 1, r"terminated of its step\(\) is 'no', but must be True or False .*"),
        ("leaves", 1, r"cow_2 leaves without being terminated while others .*"),
    ],
)  # fmt: skip
def test_missing_values_of_an_agent_raise(what, at, sentence):
    """Missing observations and rewards were once replaced by zeros and learned from."""
    env = MultiAgentEnv(Careless, {"what": what, "at": at})
    if at:
        env.reset(seed=0)
    with pytest.raises(RuntimeError) as raised:
        env.step(np.zeros((3, 1), np.float32)) if at else env.reset(seed=0)
    assert re.fullmatch(sentence, str(raised.value)), raised.value


def test_an_environment_without_agents_is_refused():
    with pytest.raises(ConfigError, match="its possible_agents is empty"):
        describe_task(MEADOW, {"count": 0})


def test_discrete_actions_are_sent_as_numbers():
    task = describe_task(MEADOW, {"count": 3, "discrete": True, "max_cycles": 7})
    assert (task.agents_per_env, task.episode_steps) == (3, 7)
    assert task.action_space == gym.spaces.Discrete(3)
    assert task.action_bounds == ([0.0], [2.0])
    vector = make_vector(MEADOW, {"count": 3, "discrete": True}, 2)
    start = vector.reset(seed=[0, 1])[0][..., 0]
    end = vector.step(np.array([[0.0, 1.2, 2.0], [2.0, 0.4, 1.0]])[..., None])[0][..., 0]
    np.testing.assert_allclose(end - start, 0.3 * np.array([[-1, 0, 1], [1, -1, 0]]), atol=1e-6)


def test_agent_rewards_at_a_reset_are_those_of_the_last_action():
    vector = make_vector(MEADOW, {"max_cycles": 2}, 2)
    place = vector.reset(seed=[0, 1])[0][..., 0]
    for _ in range(2):
        seen, _, _, truncated, infos = vector.step(np.full((2, 2, 1), 0.5))
        place = place + 0.15
    assert truncated.all()
    assert not np.allclose(seen[..., 0], place)
    rewards, ended = agent_outcomes(infos, truncated, 2)
    np.testing.assert_allclose(rewards, -np.abs(place), rtol=1e-6)
    assert not ended.any()


@pytest.mark.parametrize(
    ("env", "options", "sentence"),
    [
        (MEADOW, {"count": 1}, "a single agent; use its Gymnasium version"),
        (MEADOW, {"odd": True}, "its agents have different spaces"),
        (MEADOW, {"fog": 2}, "env_options.fog is no option"),
        ("parallel:oracles", {}, "there is no module 'oracles'"),
        ("parallel:json", {}, "'json' has no function parallel_env"),
    ],
)
def test_invalid_multi_agent_environment_is_refused(env, options, sentence):
    with pytest.raises(ConfigError, match=sentence):
        describe_task(env, options)


def test_truncating_a_single_agent_is_refused():
    env, nothing = MultiAgentEnv(Meadow, {"cut": "cow_1"}), np.zeros((2, 1), np.float32)
    env.reset(seed=0)
    env.step(nothing)
    env.step(nothing)
    with pytest.raises(
        RuntimeError, match="cow_1 is truncated while others of its environment continue"
    ):
        env.step(nothing)


def test_missing_pettingzoo_error_names_the_extra(monkeypatch):
    for name in ["pettingzoo", *filter(lambda name: name.startswith("pettingzoo."), sys.modules)]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=r"pip install 'flowsim-rl\[sisl\]'"):
        describe_task("parallel:pettingzoo.sisl.pursuit_v4", {})


def test_multi_agent_run_learns_and_is_evaluated(shell):
    preset = {
        "env": MEADOW,
        "env_options": {"count": 3, "leaver": "cow_2"},
        "agent": {
            "hidden": [16],
            "batch_size": 32,
            "learning_rate": 3e-3,
            "gamma": 0.8,
            "learning_starts": 200,
            "buffer_size": 2048,
        },
        # the same training each time, however busy the machine is
        "workers": {"agents": 4, "processes": 2, "synchronous": True},
        "run": {"steps": 3000, "name": "herd", "evaluate_episodes": 8, "seed": 0},
    }
    (shell.folder / "herd.yaml").write_text(yaml.safe_dump(preset))
    done = shell.run("train", "herd.yaml")
    assert done.returncode == 0, done.stderr
    folder = shell.folder / "runs" / "herd"
    learner = Learner.load(folder / "checkpoint.npz")
    assert (learner.agents_per_env, learner.agents, learner.environment_steps) == (3, 4, 3000)
    evaluated = json.loads((folder / "evaluation.json").read_text())
    with (folder / "episodes.csv").open(newline="") as file:
        returns = [float(row["return"]) for row in csv.DictReader(file)]
    assert evaluated["after"]["mean_return"] > 0.5 * np.mean(returns[:20])  # both are negative
    refused = shell.run("resume", "runs/herd", "env_options.count=4")
    assert refused.returncode == 2, refused.stderr
