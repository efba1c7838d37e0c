"""Environments of several agents for tests: in a meadow each walks on a line, by a force or by choices."""

import gymnasium as gym
import numpy as np


class Meadow:
    """Agent i sees where it is; its reward is minus its distance from the origin. Some may leave early, at step 3."""

    def __init__(self, *, count=2, max_cycles=10, discrete=False, leaver=(), cut=None, odd=False):
        self.possible_agents = [f"cow_{number}" for number in range(count)]
        self.max_cycles, self.discrete, self.cut, self.odd = max_cycles, discrete, cut, odd
        self.leavers = (leaver,) if isinstance(leaver, str) else leaver

    def observation_space(self, agent):
        size = 3 if self.odd and agent == "cow_1" else 2
        return gym.spaces.Box(-10.0, 10.0, (1, size), np.float32)

    def action_space(self, agent):
        return (
            gym.spaces.Discrete(3) if self.discrete else gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        )

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.agents, self.step_number = list(self.possible_agents), 0
        self.place = {name: float(self.rng.uniform(-1, 1)) for name in self.agents}
        return self._seen(), {name: {} for name in self.agents}

    def step(self, actions):
        assert list(actions) == self.agents
        self.step_number += 1
        for name, action in actions.items():
            assert self.action_space(name).contains(action)
            self.place[name] += 0.3 * float(action - 1 if self.discrete else action[0])
        ends = {name: name in self.leavers and self.step_number == 3 for name in self.agents}
        late = self.step_number == self.max_cycles
        cuts = {name: late or (name == self.cut and self.step_number == 3) for name in self.agents}
        rewards = {name: -abs(self.place[name]) for name in self.agents}
        seen, infos = self._seen(), {name: {} for name in self.agents}
        self.agents = [name for name in self.agents if not (ends[name] or cuts[name])]
        return seen, rewards, ends, cuts, infos

    def close(self):
        pass

    def _seen(self):
        return {
            name: np.array([[self.place[name], self.step_number]], np.float32)
            for name in self.agents
        }


parallel_env = Meadow
