"""Checks for every flow task: its API; a batch equals single environments, and a restored one continues, to the bit."""

import warnings

import gymnasium
import numpy as np
from gymnasium.utils import env_checker
from gymnasium.vector import AutoresetMode


def check_api(env):
    """Check the API of Gymnasium; a warning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if env.spec is None:  # made without an id
            warnings.filterwarnings("ignore", message=".*spec.*")
        env_checker.check_env(env)


def check_batch(task, options, actions, seeds=(4, 2**31)):
    """Compare a batch with single environments, one for each seed, beyond the end of an episode; return the batch."""
    batch = gymnasium.make_vec(
        task, num_envs=len(seeds), autoreset_mode=AutoresetMode.SAME_STEP, **options
    )
    singles = [gymnasium.make(task, **options).unwrapped for _ in seeds]
    seen, _ = batch.reset(seed=list(seeds))
    for n, seed in enumerate(seeds):
        np.testing.assert_array_equal(seen[n], singles[n].reset(seed=seed)[0])
    random, ended = np.random.default_rng(3), 0
    for _ in range(actions):
        played = random.uniform(-1, 1, batch.action_space.shape).astype(np.float32)
        seen, rewards, _, truncated, infos = batch.step(played)
        for n, env in enumerate(singles):
            observation, reward, _, over, info = env.step(played[n])
            assert (rewards[n], truncated[n]) == (reward, over)
            measures = (infos["final_info"] if over else infos)["measures"]
            for name, value in info["measures"].items():
                assert measures[name][n] == value
            if over:
                ended += 1
                np.testing.assert_array_equal(infos["final_obs"][n], observation)
                observation, _ = env.reset()
            np.testing.assert_array_equal(seen[n], observation)
    assert ended == len(seeds)
    return batch


def check_saved(env, other, actions):
    """Save an environment after three actions, restore it, and compare the next steps of both."""
    env.reset(seed=5)
    for _ in range(3):
        env.step(np.array([0.4], np.float32))
    other.set_state(env.get_state())
    for _ in range(actions):
        one, two = (each.step(np.array([-0.2], np.float32)) for each in (env, other))
        np.testing.assert_array_equal(one[0], two[0])
        assert one[1] == two[1]
