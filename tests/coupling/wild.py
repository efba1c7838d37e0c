"""Misbehaving user environments for tests."""

import os
import sys

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

BOX = spaces.Box(-1.0, 1.0, (1,), np.float32)
SEEN = spaces.Box(-np.inf, np.inf, (2,), np.float64)


def number(name):
    return float(name.rpartition(" ")[2])


class Panic(BaseException):
    """Not an Exception, as the panics of packages written in Rust."""


class Wild(gym.Env):
    """Episodes of 20 steps with reward 1; all observations share one buffer with the step and the episode.

    ``what`` names the error, which occurs once per process, in step ``at``; everything after it is correct.
    """

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    observation_space, action_space = SEEN, BOX
    gone_wrong = False

    def __init__(self, what="", at=2, render_mode=None):
        if what == "exit when made":
            sys.exit(3)
        if what == "panic when made":
            raise Panic("overflow")
        if what == "chdir":
            os.makedirs("elsewhere", exist_ok=True)
            os.chdir("elsewhere")
        self.what, self.at, self.render_mode = what, at, render_mode
        self.buffer, self.episode = np.zeros(2), 0
        self.folders = [os.getcwd()]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode += 1
        self.buffer[:] = 0, self.episode
        self.folders.append(os.getcwd())
        if self.what == "every reset":
            self.buffer[1] = np.nan
        if self.what.startswith("reset") and (self.episode > 1 or self.at == 0) and self.is_time(0):
            if self.what == "reset raises":
                raise RuntimeError("no start")
            self.buffer[1] = number(self.what)
        return self.buffer, {}

    def is_time(self, at=None):
        if Wild.gone_wrong or (at is None and self.buffer[0] != self.at):
            return False
        Wild.gone_wrong = True
        return True

    def step(self, action):
        self.buffer[0] += 1
        self.folders.append(os.getcwd())
        over = bool(self.buffer[0] >= 20)
        reward, seen = 1.0, self.buffer
        if self.what == "reward of shape (1,)":
            reward = np.ones(1)
        if self.what == "flags of numpy":
            over = np.array([over])
        if self.what and not self.what.startswith("reset") and self.is_time():
            if self.what == "raise":
                raise RuntimeError("told to")
            if self.what == "exit":
                sys.exit(3)
            if self.what == "panic":
                raise Panic("overflow")
            if self.what == "four":
                return self.buffer, 1.0, over, {}
            if self.what.startswith("reward "):
                reward = number(self.what)
            if self.what == "two rewards":
                reward = np.ones(2)
            if self.what == "no reward":
                reward = None
            if self.what.startswith("observation "):
                self.buffer[1] = number(self.what)
            if self.what == "other shape":
                seen = np.zeros(3)
            if self.what == "no numbers":
                seen = {"x": 1.0}
            if self.what == "complex numbers":
                seen = np.array([1.0, 2.0j])
            if self.what == "no flag":
                return self.buffer, 1.0, None, over, {}
            if self.what == "a word as flag":
                return self.buffer, 1.0, False, "no", {}
            if self.what == "two flags":
                return self.buffer, 1.0, np.zeros(2, bool), over, {}
        return seen, reward, False, over, {}

    def render(self):
        if self.what == "render exits":
            sys.exit(3)
        return np.full((20, 20, 3), 100, np.uint8)

    def close(self):
        if self.what == "close raises":
            raise AttributeError("no viewer")
        if self.what == "close exits":
            sys.exit(3)
        if self.what == "close panics":
            raise Panic("overflow")


class Unlucky(gym.Env):
    """Episodes of 10 steps, in each of which it fails with a probability."""

    observation_space, action_space = SEEN, BOX

    def __init__(self, probability=0.02):
        self.probability = probability

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2), {}

    def step(self, action):
        self.steps += 1
        if self.np_random.random() < self.probability:
            raise RuntimeError("did not converge")
        return np.zeros(2), 1.0, False, self.steps == 10, {}


class Endless(Unlucky):
    """The same without an end, and without failures."""

    def step(self, action):
        return np.zeros(2), 1.0, False, False, {}


class Telling(Unlucky):
    """Says ``diverged`` in the info of every step."""

    def __init__(self, diverged):
        self.diverged = diverged

    def step(self, action):
        return np.zeros(2), 1.0, False, False, {"diverged": self.diverged}


class Images(gym.Env):
    """Episodes of ten images, each of whole numbers except for a part of them."""

    observation_space = spaces.Box(0.0, 255.0, (8, 8, 1), np.float32)
    action_space = spaces.Discrete(3)

    def __init__(self, part=1.0):
        self.part = part

    def seen(self):
        image = self.np_random.integers(0, 255, self.observation_space.shape).astype(np.float32)
        return image + np.float32(0.5 * (self.np_random.random() < self.part))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.seen(), {}

    def step(self, action):
        self.steps += 1
        return self.seen(), 1.0, False, self.steps == 10, {}


class ColourImages(Images):
    """The same with three channels, the last axis."""

    observation_space = spaces.Box(0.0, 255.0, (8, 8, 3), np.float32)


NESTED_SEEN = spaces.Dict(
    {
        "picture": spaces.Box(0, 255, (2, 3), np.uint8),
        "rest": spaces.Tuple((spaces.Discrete(3), spaces.MultiBinary(2))),
    }
)
NESTED_ACTIONS = spaces.Dict(
    {
        "force": spaces.Box(-2.0, 4.0, (2, 2), np.float32),
        "gears": spaces.Tuple((spaces.Discrete(3, start=1), spaces.MultiDiscrete([2, 4]))),
        "switches": spaces.MultiBinary(2),
        "count": spaces.Box(-3, 3, (1,), np.int64),
    }
)


class Nested(gym.Env):
    """Spaces made of all others; refuses actions that are not of its space."""

    observation_space, action_space = NESTED_SEEN, NESTED_ACTIONS

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(0)
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.last = action
        return self.observation_space.sample(), float(action["force"].sum()), False, False, {}


class NestedBatch(VectorEnv):
    """The same as a batch of its own."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, num_envs=1):
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = NESTED_SEEN, NESTED_ACTIONS
        self.observation_space = batch_space(NESTED_SEEN, num_envs)
        self.action_space = batch_space(NESTED_ACTIONS, num_envs)

    def reset(self, *, seed=None, options=None):
        self.observation_space.seed(0)
        return self.observation_space.sample(), {}

    def step(self, actions):
        assert self.action_space.contains(actions), actions
        no = np.zeros(self.num_envs, bool)
        paid = actions["force"].sum(axis=(1, 2))
        last = np.full(self.num_envs, None, object)
        last[0] = self.single_observation_space.sample()
        ended = np.arange(self.num_envs) == 0
        return self.observation_space.sample(), paid, no, ended, {"final_obs": last}


class SpoiledBatch(VectorEnv):
    """Six environments whose step gives, in turn, what is good, a NaN, a large number, no reward, and two ends."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, num_envs=6):
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = SEEN, BOX
        self.observation_space = batch_space(SEEN, num_envs)
        self.action_space = batch_space(BOX, num_envs)

    def reset(self, *, seed=None, options=None):
        return np.zeros((6, 2)), {}

    def step(self, actions):
        seen, paid = np.full((6, 2), 1.0), np.ones(6)
        seen[1, 0], seen[2, 1], paid[3] = np.nan, -1e39, np.inf
        last = np.full(6, None, object)
        last[4], last[5] = np.array([np.nan, 2.0]), np.array([2.0, 2.0])
        ended = np.arange(6) > 3
        return seen, paid, ended, np.zeros(6, bool), {"final_obs": last}


class TellingBatch(VectorEnv):
    """Two environments whose steps have these infos, the same for each of the calls."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, infos):
        self.num_envs, self.infos = 2, infos
        self.single_observation_space, self.single_action_space = SEEN, BOX
        self.observation_space = batch_space(SEEN, 2)
        self.action_space = batch_space(BOX, 2)

    def reset(self, *, seed=None, options=None):
        return np.zeros((2, 2)), {}

    def step(self, actions):
        no = np.zeros(2, bool)
        return np.zeros((2, 2)), np.ones(2), no, no, self.infos


class Spaces(gym.Env):
    """An environment of these spaces."""

    def __init__(self, observation_space=SEEN, action_space=BOX, seen=None):
        self.observation_space, self.action_space = observation_space, action_space
        self.seen = seen

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample() if self.seen is None else self.seen, {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {}


def wrapped(observation_space, action_space):
    """Wrap the environment of these spaces, as advised for spaces that cannot be flattened."""
    environment = gym.wrappers.TransformAction(
        Spaces(observation_space), lambda _: np.zeros(1, np.float32), action_space
    )
    return gym.wrappers.TransformObservation(environment, lambda _: np.zeros(2), SEEN)


gym.register("Wild-v0", Wild)
gym.register("WildLimited-v0", Wild, max_episode_steps=20)
gym.register("Unlucky-v0", Unlucky)
gym.register("Endless-v0", Endless)
gym.register("Telling-v0", Telling)
gym.register("Images-v0", Images, max_episode_steps=10)
gym.register("ColourImages-v0", ColourImages, max_episode_steps=10)
gym.register("Nested-v0", Nested)
gym.register("NestedBatch-v0", vector_entry_point=NestedBatch)
gym.register("Spaces-v0", Spaces)
gym.register("Wrapped-v0", wrapped)
