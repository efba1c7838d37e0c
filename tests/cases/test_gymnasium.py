"""The conventions of Gymnasium."""

import copy
import pickle
import re
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from env_checks import check_api
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import vector

import cases  # noqa: F401  (registers the ids)

IDS = ("flowsim/DCylinderWake-v0", "flowsim/EllipticalSwimmer-v0")
TINY = {"cells_per_diameter": 8}


@pytest.mark.parametrize("env_id", IDS)
def test_check_env_without_a_warning(env_id):
    check_api(gymnasium.make(env_id, **TINY).unwrapped)


@pytest.mark.parametrize(
    ("env_id", "preset"),
    [
        (IDS[0], "quick"),
        (IDS[0], "default"),
        (IDS[0], "fine"),
        (IDS[0], "paper"),
        (IDS[1], "quick"),
        (IDS[1], "default"),
    ],
)
def test_presets_make_environments(env_id, preset):
    env = gymnasium.make(env_id, preset=preset, cells_per_diameter=8)
    observation, _ = env.reset(seed=0)
    assert observation in env.observation_space


def test_make_with_the_module_in_front():
    code = "import gymnasium; gymnasium.make('cases:flowsim/EllipticalSwimmer-v0', cells_per_diameter=8).reset(seed=0)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("env_id", IDS)
def test_batch_equals_single_environments_bit_for_bit(env_id, make, make_vec, actions):
    singles, batch = [make(env_id) for _ in range(3)], make_vec(env_id)
    observations, infos = batch.reset(seed=[5, 11, 2])
    firsts = [env.reset(seed=seed) for env, seed in zip(singles, (5, 11, 2), strict=True)]
    np.testing.assert_array_equal(observations, [first[0] for first in firsts])
    for action in actions:
        observations, rewards, terminated, truncated, infos = batch.step(action)
        for n, env in enumerate(singles):
            observation, reward, ended, cut, info = env.step(action[n])
            assert (rewards[n], terminated[n], truncated[n]) == (reward, ended, cut)
            if ended or cut:
                assert infos["_final_obs"][n]
                np.testing.assert_array_equal(infos["final_obs"][n], observation)
                for key, value in info.items():
                    np.testing.assert_array_equal(infos["final_info"][key][n], value)
                observation, info = env.reset()
            np.testing.assert_array_equal(observations[n], observation)
            for key, value in info.items():
                assert infos[f"_{key}"][n]
                np.testing.assert_array_equal(infos[key][n], value)


@pytest.mark.parametrize("env_id", IDS)
def test_next_step_autoreset_equals_sync_vector_env(env_id, actions):
    """Values, types and infos of SyncVectorEnv, with steps in which one, some and all environments reset."""
    options = {"episode_actions": 3} | TINY
    ours = gymnasium.make_vec(
        env_id, num_envs=3, vectorization_mode="vector_entry_point", **options
    )
    theirs = gymnasium.make_vec(env_id, num_envs=3, vectorization_mode="sync", **options)
    assert (
        ours.metadata["autoreset_mode"]
        is theirs.metadata["autoreset_mode"]
        is AutoresetMode.NEXT_STEP
    )
    assert data_equivalence(ours.reset(seed=3), theirs.reset(seed=3), exact=True)
    mask = np.array([False, True, False])
    for count, action in enumerate(actions[:9]):
        if count == 1:
            again = [env.reset(options={"reset_mask": mask})[0] for env in (ours, theirs)]
            np.testing.assert_array_equal(*again)
        mine, other = ours.step(action), theirs.step(action)
        assert data_equivalence(mine, other, exact=True), count


def test_batch_without_autoreset(make_vec, actions):
    env = make_vec(IDS[1], autoreset_mode="Disabled", episode_actions=1)
    env.reset(seed=0)
    last = env.step(actions[0])
    assert last[3].all()
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"\[0, 1, 2\] are over"):
        env.step(actions[1])
    mask = np.array([True, True, False])
    assert (env.reset(options={"reset_mask": mask})[0][2] == last[0][2]).all()
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"\[2\] are over"):
        env.step(actions[1])
    env.reset(options={"reset_mask": ~mask})
    env.step(actions[1])
    with pytest.raises(
        ValueError,
        match=r"autoreset_mode is 'Never', but must be one of NextStep, SameStep, Disabled",
    ):
        make_vec(autoreset_mode="Never")


WRAPPERS = (
    vector.RecordEpisodeStatistics,
    vector.NormalizeObservation,
    vector.NormalizeReward,
    lambda env: vector.RescaleAction(env, np.float32(-2.0), np.float32(2.0)),
    vector.ClipAction,
    lambda env: vector.ClipReward(env, -1.0, 1.0),
    vector.FlattenObservation,
    lambda env: vector.DtypeObservation(env, np.float64),
    lambda env: vector.TransformObservation(env, lambda seen: 0.5 * seen),
    vector.DictInfoToList,
)


def test_vector_wrappers_give_the_same_as_around_sync_vector_env(actions):
    """All wrappers at once, around our batch and around SyncVectorEnv."""
    wrapped = []
    for mode in ("vector_entry_point", "sync"):
        env = gymnasium.make_vec(
            IDS[1], num_envs=3, vectorization_mode=mode, episode_actions=3, **TINY
        )
        for wrapper in WRAPPERS:
            env = wrapper(env)
        env.reset(seed=3)
        wrapped.append(env)
    episodes = 0
    for action in actions[:8]:
        mine, other = (env.step(action) for env in wrapped)
        for one, two in zip(mine[:4], other[:4], strict=True):
            np.testing.assert_array_equal(one, two)
        for info, theirs in zip(mine[4], other[4], strict=True):
            if "episode" in theirs:
                episodes += 1
                assert (info["episode"]["r"], info["episode"]["l"]) == (
                    theirs["episode"]["r"],
                    theirs["episode"]["l"],
                )
    assert episodes == 6


def test_same_step_autoreset_equals_sync_vector_env(make_vec, actions):
    """Same keys, masks, types and values as SyncVectorEnv gives for single environments."""
    ours = make_vec(episode_actions=2)
    theirs = gymnasium.vector.SyncVectorEnv(
        [lambda: gymnasium.make(IDS[0], episode_actions=2, **TINY)] * 3,
        autoreset_mode=AutoresetMode.SAME_STEP,
    )
    assert data_equivalence(ours.reset(seed=3), theirs.reset(seed=3), exact=True)
    for action in actions[:5]:
        for mine, other in zip(ours.step(action)[:4], theirs.step(action)[:4], strict=True):
            np.testing.assert_array_equal(mine, other)
    mine, other = ours.step(actions[5])[4], theirs.step(actions[5])[4]
    assert "final_obs" in mine
    assert mine.keys() == other.keys()
    for key in mine:
        if key != "final_obs":
            assert data_equivalence(mine[key], other[key], exact=True), key
    for one, two in zip(mine["final_obs"], other["final_obs"], strict=True):
        assert data_equivalence(one, two, exact=True)


def test_partial_reset_leaves_the_others_alone(make_vec, actions):
    env = make_vec()
    env.reset(seed=0)
    before = env.step(0.1 * actions[0])[0]
    mask = np.array([False, True, False])
    after, infos = env.reset(options={"reset_mask": mask})
    np.testing.assert_array_equal(after[~mask], before[~mask])
    assert (after[1] != before[1]).any()
    np.testing.assert_array_equal(infos["_time"], mask)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_resting_environment_is_not_advanced_until_reset(make_vec, actions, mode):
    actions = 0.01 * actions
    resting, playing = (make_vec(IDS[1], autoreset_mode=mode, episode_actions=4) for _ in range(2))
    for env in (resting, playing):
        env.reset(seed=0)
        env.step(actions[0])
    rests = np.array([False, True, False])
    resting.resting[rests] = True
    before = resting.task.simulation.u[1].copy()
    for action in actions[1:4]:
        mine, other = resting.step(action), playing.step(action)
        np.testing.assert_array_equal(resting.task.simulation.u[1], before)
        assert (mine[1][1], mine[2][1], mine[3][1]) == (0.0, False, False)
        for one, two in zip(mine[:4], other[:4], strict=True):
            np.testing.assert_array_equal(one[~rests], two[~rests])
    assert other[3].all()
    for env in (resting, playing):
        env.reset(seed=[7, 8, 9])
    assert not resting.resting.any()
    for one, two in zip(resting.step(actions[4])[:4], playing.step(actions[4])[:4], strict=True):
        np.testing.assert_array_equal(one, two)


def test_one_seed_stands_for_consecutive_seeds(make_vec):
    env = make_vec()
    np.testing.assert_array_equal(env.reset(seed=4)[0], env.reset(seed=[4, 5, 6])[0])


@pytest.mark.parametrize("env_id", IDS)
def test_restored_state_continues_bit_for_bit(env_id, make, actions):
    env = make(env_id, episode_actions=4)
    env.reset(seed=1)
    env.step(0.2 * actions[0, 0])
    state = env.get_state()

    def play(other):
        seen = []
        for action in 0.2 * actions[1:6, 0]:
            observation, reward, terminated, truncated, info = other.step(action)
            if terminated or truncated:
                observation, info = other.reset()
            seen.append((observation, reward, info["drag"], info["time"]))
        return seen

    expected = play(env)
    twin = make(env_id, episode_actions=4)
    twin.reset(seed=99)
    for other in (env, twin):
        other.set_state(state)
        for ours, wanted in zip(play(other), expected, strict=True):
            for one, two in zip(ours, wanted, strict=True):
                np.testing.assert_array_equal(one, two)


def test_restored_batch_continues_bit_for_bit(make_vec, actions):
    env, twin = make_vec(), make_vec()
    env.reset(seed=1)
    env.step(actions[0])
    twin.set_state(env.get_state())
    for action in actions[1:6]:
        for one, two in zip(env.step(action)[:4], twin.step(action)[:4], strict=True):
            np.testing.assert_array_equal(one, two)


COPIES = {"deepcopy": copy.deepcopy, "pickle": lambda env: pickle.loads(pickle.dumps(env))}


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_copies_continue_bit_for_bit(copied, actions):
    """With wrappers, beyond the end of an episode, and with samples of the spaces."""
    env = gymnasium.make(IDS[0], episode_actions=3, **TINY)
    fresh = copied(env)
    env.reset(seed=1)
    env.action_space.seed(4)
    env.step(0.2 * actions[0, 0])
    twin = copied(env)
    for other in (env, twin):
        other.log = []
        for action in 0.2 * actions[1:5, 0]:
            observation, reward, terminated, truncated, info = other.step(action)
            if terminated or truncated:
                observation, info = other.reset()
            other.log.append((observation, reward, info, other.action_space.sample()))
    assert data_equivalence(env.log, twin.log, exact=True)
    assert twin.spec == env.spec
    np.testing.assert_array_equal(
        fresh.reset(seed=1)[0], gymnasium.make(IDS[0], **TINY).reset(seed=1)[0]
    )


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_copies_of_a_batch_continue_bit_for_bit(copied, actions):
    env = gymnasium.make_vec(
        IDS[1], num_envs=3, vectorization_mode="vector_entry_point", episode_actions=2, **TINY
    )
    env.reset(seed=1)
    env.step(actions[0])
    env.step(actions[1])
    twin = copied(env)  # between the end of all episodes and the step that resets them
    for action in actions[2:5]:
        assert data_equivalence(env.step(action), twin.step(action), exact=True)


def test_step_needs_a_reset(make, make_vec):
    with pytest.raises(gymnasium.error.ResetNeeded):
        make().step(np.zeros(3))
    with pytest.raises(gymnasium.error.ResetNeeded):
        make_vec().step(np.zeros((3, 3)))
    env = make(episode_actions=1)
    env.reset(seed=0)
    assert env.step(np.zeros(3))[3]
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.zeros(3))


def test_bad_actions_are_refused(make):
    env = make(IDS[1])
    env.reset(seed=0)
    with pytest.raises(ValueError, match="finite"):
        env.step(np.array([0.0, np.nan, 0.0]))
    with pytest.raises(ValueError, match="shape"):
        env.step(np.zeros(2))


def test_unknown_reset_options_are_ignored(make, make_vec):
    env = make(IDS[1])
    np.testing.assert_array_equal(env.reset(seed=3, options={"mood": 1})[0], env.reset(seed=3)[0])
    batch = make_vec(IDS[1])
    np.testing.assert_array_equal(
        batch.reset(seed=3, options={"mood": 1})[0], batch.reset(seed=3)[0]
    )


def test_pictures(make, make_vec):
    env = make(render_mode="rgb_array")
    env.reset(seed=0)
    picture = env.render()
    assert picture.dtype == np.uint8
    assert picture.ndim == 3
    batch = make_vec(num_envs=2, render_mode="rgb_array")
    batch.reset(seed=0)
    pictures = batch.render()
    assert len(pictures) == 2
    np.testing.assert_array_equal(pictures[0], picture)
    with pytest.raises(ValueError, match="render_mode"):
        make_vec(render_mode="human")


@pytest.mark.parametrize("env_id", IDS)
def test_class_docstring_matches_spaces_and_rewards(env_id, make):
    env = make(env_id)
    text = " ".join(type(env).__doc__.split())
    observed = text.partition("Action, ")[0]
    rows = re.findall(r"\| (\d+)(?:(, | to )(\d+))? \| [^|]+ \| [^|]+ \| ([\w.]+) \|", observed)
    bounds = {}
    for first, _, last, bound in rows:
        bounds |= dict.fromkeys(
            range(int(first), int(last or first) + 1), np.pi if bound == "pi" else float(bound)
        )
    np.testing.assert_array_equal(
        np.float32([bounds[i] for i in range(14)]), env.observation_space.high
    )
    options = env.task.options
    assert f"{options.force_scale:g} rho U^2" in text
    assert f"{options.torque_scale:g} rho U^2" in text
    assert f"; {env.task.failure_reward:g} for the one in which the agent " in text
    assert f"truncated after {options.episode_actions} actions" in text
    assert f"= {options.reynolds:g}" in text
