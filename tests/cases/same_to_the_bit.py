"""Checks for every flow task: a batch equals single environments, and a restored one continues, bit for bit."""

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode


def check_batch(task, options, actions):
    """Compare a batch of two with single environments beyond the end of an episode; return the batch."""
    batch = gymnasium.make_vec(task, num_envs=2, autoreset_mode=AutoresetMode.SAME_STEP, **options)
    singles = [gymnasium.make(task, **options).unwrapped for _ in range(2)]
    seen, _ = batch.reset(seed=[4, 2**31])
    for n, seed in enumerate((4, 2**31)):
        np.testing.assert_array_equal(seen[n], singles[n].reset(seed=seed)[0])
    random, ended = np.random.default_rng(3), 0
    for _ in range(actions):
        played = random.uniform(-1, 1, batch.action_space.shape).astype(np.float32)
        seen, rewards, _, truncated, infos = batch.step(played)
        for n, env in enumerate(singles):
            observation, reward, _, over, _ = env.step(played[n])
            assert (rewards[n], truncated[n]) == (reward, over)
            if over:
                ended += 1
                np.testing.assert_array_equal(infos["final_obs"][n], observation)
                observation, _ = env.reset()
            np.testing.assert_array_equal(seen[n], observation)
    assert ended == 2
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
