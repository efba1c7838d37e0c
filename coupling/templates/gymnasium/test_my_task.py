"""The task follows the Gymnasium API, and the seed determines its initial states."""

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import check_env


def test_conventions() -> None:
    """Check spaces, reset, step and seeds."""
    env = gymnasium.make("my_task:MyTask-v0")
    check_env(env.unwrapped, skip_render_check=True)
    first, _ = env.reset(seed=3)
    env.step(np.ones(2, np.float32))
    np.testing.assert_array_equal(env.reset(seed=3)[0], first)
