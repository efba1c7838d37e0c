"""The school of swimmers: its interface, its start, its contacts and its rewards."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest

import cases  # noqa: F401  # registers the tasks
from cases.swimmer_school.env import (
    School,
    SwimmerSchool,
    SwimmerSchoolVectorEnv,
    parallel_env,
)
from coupling.worker.environments import make_vector
from coupling.worker.multi_agent import MultiAgentEnv
from flowsim.render.fields import Scene
from rl_agent.multi_agent.outcomes import agent_outcomes

OBSERVATIONS = 16
TINY = {"swimmers": 3, "columns": 2, "cells_per_length": 16, "box": (4.0, 2.0), "thickness": 0.08}


@pytest.fixture(scope="module")
def school() -> SwimmerSchool:
    return SwimmerSchool(**TINY, episode_actions=2, render_mode="rgb_array")


def act(school: SwimmerSchool, *command: float) -> dict:
    return dict.fromkeys(school.agents, np.array(command, np.float32))


def test_episode_follows_the_parallel_api(school: SwimmerSchool) -> None:
    seen, _ = school.reset(seed=3)
    assert list(seen) == school.possible_agents == ["swimmer_0", "swimmer_1", "swimmer_2"]
    for name in school.agents:
        assert school.observation_space(name).contains(seen[name])
    _, rewards, ended, late, infos = school.step(act(school, 0.0, 0.0))
    assert not any(ended.values())
    assert not any(late.values())
    assert all(0.0 <= reward <= 1.0 for reward in rewards.values())
    _, _, ended, late, _ = school.step(act(school, 0.0, 0.0))
    assert all(late.values())
    assert not any(ended.values())
    assert school.agents == []
    assert infos["swimmer_0"]["time"] == pytest.approx(0.5)
    with pytest.raises(gymnasium.error.ResetNeeded):
        school.step({})


def test_start_depends_on_the_seed(school: SwimmerSchool) -> None:
    first, again, other = (school.reset(seed=seed)[0]["swimmer_1"] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert first.shape == (OBSERVATIONS,)


def test_overlapping_swimmers_collide_and_end_the_episode(school: SwimmerSchool) -> None:
    school.reset(seed=0)
    school.simulation.body_state.position[0, 1] = school.simulation.body_state.position[0, 0] + (
        0.3,
        0.05,
    )
    school.simulation.settle()
    school.task.begin(np.array([True]))
    _, rewards, ended, _, infos = school.step(act(school, 0.0, 0.0))
    assert all(ended.values())
    assert [infos[name]["collided"] for name in school.possible_agents] == [True, True, False]
    assert rewards["swimmer_0"] < -0.9 < 0.0 <= rewards["swimmer_2"]


def test_swimmer_observes_positions_of_the_others(school: SwimmerSchool) -> None:
    """Also across a periodic side, and in the swimmer's own axes."""
    school.reset(seed=0)
    state = school.simulation.body_state
    state.position[0] = [(0.2, 1.0), (3.9, 1.0), (2.0, 1.5)]
    state.angle[0] = [np.pi / 2, 0.0, 0.0]
    seen = school.episodes.observations()[0]
    np.testing.assert_allclose(seen[0, 6:8], (0.0, 0.3), atol=1e-6)
    np.testing.assert_allclose(seen[1, 6:8], (0.3, 0.0), atol=1e-6)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_copy_continues_as_the_original(school: SwimmerSchool, copied) -> None:
    school.reset(seed=4)
    school.step(act(school, 0.3, -0.2))
    twin = copied(school)
    command = act(school, -0.5, 0.5)
    (seen, rewards, *ends, _), (again, same, *others, _) = school.step(command), twin.step(command)
    assert rewards == same
    assert ends == others
    for name, values in seen.items():
        np.testing.assert_array_equal(values, again[name])
    start = school.reset()[0]
    np.testing.assert_array_equal(twin.reset()[0]["swimmer_1"], start["swimmer_1"])


def test_picture_shows_the_swimmers(school: SwimmerSchool) -> None:
    school.reset(seed=0)
    picture = school.render()
    assert picture is not None
    assert picture.shape[2] == 3
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 3


def test_rendering_five_frames_per_action_changes_nothing(school: SwimmerSchool) -> None:
    """Frames are a fifth of an action apart, within half a step; the episode is the same as without rendering."""
    times: list[float] = []

    class NotingTask(School):
        def scene(self, index: int) -> Scene:
            times.append(float(self.simulation.time[0]))
            return super().scene(index)

    class Noting(SwimmerSchool):
        task_class = NotingTask

    seen = Noting(**TINY, episode_actions=2, render_mode="rgb_array_list")
    for env in (school, seen):
        env.reset(seed=2)
    assert len(seen.render()) == 1
    commands = act(seen, 0.4, -0.3)
    (there, rewards, *_), (here, same, *_) = seen.step(commands), school.step(commands)
    assert len(seen.render()) == 5
    assert seen.render() == []
    step = seen.simulation.dt[0]
    np.testing.assert_allclose(times, np.linspace(0.0, 0.5, 6), atol=0.51 * step)
    assert times[-1] == 0.5
    assert rewards == same
    for name, values in there.items():
        np.testing.assert_array_equal(values, here[name])


def test_batch_of_schools_equals_single_schools_bit_for_bit() -> None:
    """As a run uses them, with the rewards of each swimmer, beyond the end of an episode."""
    options = TINY | {"episode_actions": 2}
    batch = make_vector("parallel:cases.swimmer_school.env", options, 2)
    assert isinstance(batch.unwrapped, SwimmerSchoolVectorEnv)
    envs = [MultiAgentEnv(parallel_env, options) for _ in range(2)]
    seen, _ = batch.reset(seed=[4, 6])
    for number, env in enumerate(envs):
        np.testing.assert_array_equal(seen[number], env.reset(seed=4 + 2 * number)[0])
    rng = np.random.default_rng(0)
    for count in range(4):
        actions = rng.uniform(-0.4, 0.4, (2, 3, 2)).astype(np.float32)
        seen, rewards, terminated, truncated, infos = batch.step(actions)
        paid, gone = agent_outcomes(infos, terminated | truncated, 3)
        for number, env in enumerate(envs):
            last, reward, *ends, told = env.step(actions[number])
            np.testing.assert_array_equal(paid[number], told["agent_rewards"])
            np.testing.assert_array_equal(gone[number], told["agent_ended"])
            assert (rewards[number], terminated[number], truncated[number]) == (reward, *ends)
            if any(ends):
                np.testing.assert_array_equal(infos["final_obs"][number], last)
                last = env.reset()[0]
            np.testing.assert_array_equal(seen[number], last)
        assert truncated.all() == (count % 2 == 1)


def test_spaces_of_multi_agent_and_gymnasium_versions() -> None:
    env = MultiAgentEnv(parallel_env, TINY)
    assert env.agents_per_env == 3
    env = gymnasium.make("flowsim/SwimmerSchool-v0", **TINY)
    assert env.observation_space.shape == (3 * OBSERVATIONS,)
    assert env.action_space.shape == (6,)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"swimmers": 1}, "swimmers"), ({"box": (1.0, 1.0)}, "box"), ({"reynolds": -1}, "reynolds")],
)
def test_bad_options_are_refused(options: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        SwimmerSchool(**(TINY | options))


def test_quick_preset_has_four_swimmers() -> None:
    assert SwimmerSchool(preset="quick").options.swimmers == 4
