"""The task follows the Gymnasium API, and the seed determines its initial states."""

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import check_env


def test_conventions() -> None:
    """Check spaces, reset, step and seeds."""
    env = gymnasium.make("my_task:MyTask-v0", cells_per_diameter=6)
    check_env(env.unwrapped, skip_render_check=True)
    first, _ = env.reset(seed=3)
    env.step(env.action_space.sample())
    np.testing.assert_array_equal(env.reset(seed=3)[0], first)
