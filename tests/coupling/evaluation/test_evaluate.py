"""A controller is evaluated on whole episodes, each with its own initial condition."""

import gymnasium
import numpy as np

import cases  # noqa: F401  (registers the tasks)
from coupling.evaluation.evaluate import evaluate
from rl_agent.rollout.seeds import Purpose, episode_seed

ENV = "flowsim/DCylinderWake-v0"
OPTIONS = {"preset": "sketch", "start": "impulsive", "episode_actions": 12}
EPISODES = 5


class Fleeing:
    """Pushes away from the middle line, so that episodes end at different times."""

    def reset(self, n):
        pass

    def __call__(self, observations):
        push = np.clip(0.2 * observations[:, 1], -1.0, 1.0)
        return np.stack([0.0 * push, push, 0.0 * push], axis=1)


def test_batched_evaluation_equals_single_episodes():
    evaluated = evaluate(ENV, OPTIONS, Fleeing(), episodes=EPISODES, seed=3)
    env, controller = gymnasium.make(ENV, **OPTIONS), Fleeing()
    for number in range(EPISODES):
        observation, _ = env.reset(seed=episode_seed(Purpose.EVALUATION, 3, number))
        total, length, over = 0.0, 0, False
        while not over:
            action = controller(observation[None])[0].astype(np.float32)
            observation, reward, terminated, truncated, _ = env.step(action)
            total, length, over = total + float(reward), length + 1, terminated or truncated
        found = evaluated.returns[number], evaluated.lengths[number], evaluated.survived[number]
        assert found == (total, length, truncated and not terminated)
    assert len(set(evaluated.lengths)) > 1
