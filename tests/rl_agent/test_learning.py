"""The learner learns: small problems with known answers, each in seconds."""

import gymnasium
import numpy as np
import pytest

from rl_agent import AgentConfig, Learner, evaluate, train_serial

FREE = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)
UNIT = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)


class Identity(gymnasium.Env):
    """The right action is the observation."""

    observation_space = gymnasium.spaces.Box(-0.8, 0.8, (1,), np.float32)
    action_space = UNIT

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._next(), {}

    def _next(self):
        self.seen = self.np_random.uniform(-0.8, 0.8, 1).astype(np.float32)
        return self.seen

    def step(self, action):
        reward = -float((action[0] - self.seen[0]) ** 2)
        self.steps += 1
        return self._next(), reward, False, self.steps == 10, {}


class LinearQuadratic(gymnasium.Env):
    """x' = x + 0.5 a + noise, reward -(x^2 + 0.5 a^2), in episodes cut after 20 steps."""

    observation_space = FREE
    action_space = gymnasium.spaces.Box(-4.0, 4.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.steps = self.np_random.uniform(-1.5, 1.5), 0
        return np.array([self.x], np.float32), {}

    def step(self, action):
        a = float(action[0])
        reward = -(self.x**2 + 0.5 * a * a)
        self.x += 0.5 * a + 0.05 * self.np_random.standard_normal()
        self.steps += 1
        return np.array([self.x], np.float32), reward, False, self.steps == 20, {}


class Recall(gymnasium.Env):
    """The cue of the first observation is asked for three steps later, when nothing shows it any more."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = UNIT

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cue, self.steps = 0.6 * self.np_random.choice([-1.0, 1.0]), 0
        return np.array([self.cue, 0.0], np.float32), {}

    def step(self, action):
        self.steps += 1
        asked = np.array([0.0, float(self.steps == 3)], np.float32)
        if self.steps < 4:
            return asked, 0.0, False, False, {}
        return asked, 1.0 - float(action[0] - self.cue) ** 2 / 0.36, True, False, {}


def trained(environment, steps, seed=0, **settings):
    config = AgentConfig(**settings)
    mode = gymnasium.vector.AutoresetMode.SAME_STEP
    environments = gymnasium.vector.SyncVectorEnv([environment] * 4, autoreset_mode=mode)
    learner = Learner(config, environment.observation_space, environment.action_space, agents=4, seed=seed)
    train_serial(learner, environments, steps, seed)
    return learner


def test_identity_is_learned():
    learner = trained(
        Identity,
        6000,
        hidden=(32, 32),
        gamma=0.0,
        learning_rate=3e-3,
        batch=64,
        memory=2000,
        start=400,
        beta=0.5,
    )
    returns = evaluate(learner.policy(), Identity(), 20)
    # action zero scores -2.1 on average
    assert returns.mean() > -0.05


def test_one_dimensional_linear_quadratic_problem_ends_near_its_known_optimum():
    gamma = 0.9
    p = 1.0
    for _ in range(1000):  # the Riccati equation of x' = x + b a, cost x^2 + r a^2
        p = 1.0 + gamma * p - (gamma * 0.5 * p) ** 2 / (0.5 + gamma * 0.25 * p)
    gain = gamma * 0.5 * p / (0.5 + gamma * 0.25 * p)

    learner = trained(
        LinearQuadratic,
        12_000,
        hidden=(32, 32),
        gamma=gamma,
        learning_rate=2e-3,
        batch=64,
        memory=4000,
        start=1000,
    )
    policy = learner.policy()
    x = np.linspace(-1.0, 1.0, 21)[:, None]
    actions, _ = policy.act(x, policy.initial_state(21), deterministic=True)
    assert np.polyfit(x[:, 0], actions[:, 0], 1)[0] == pytest.approx(-gain, rel=0.2)

    optimal = np.mean([_linear_feedback(gain, seed) for seed in range(40)])
    nothing = np.mean([_linear_feedback(0.0, seed) for seed in range(40)])
    learned = evaluate(policy, LinearQuadratic(), 40).mean()
    assert nothing < 3 * optimal
    assert learned > optimal + 0.05 * (nothing - optimal)


def _linear_feedback(gain, seed):
    environment = LinearQuadratic()
    (x, _), total, ended = environment.reset(seed=seed), 0.0, False
    while not ended:
        x, reward, _, ended, _ = environment.step(np.array([-gain * x[0]]))
        total += reward
    return total


@pytest.mark.parametrize("network", ["lstm", "mlp"])
def test_an_lstm_recalls_what_an_mlp_cannot(network):
    learner = trained(
        Recall,
        8000,
        network=network,
        hidden=(16,),
        window=4,
        gamma=0.9,
        learning_rate=4e-3,
        batch=64,
        memory=2000,
        start=400,
        beta=0.5,
    )
    score = evaluate(learner.policy(), Recall(), 40).mean()
    # without a memory nothing beats the middle of the two cues, which scores 0
    assert score > 0.8 if network == "lstm" else score < 0.2
