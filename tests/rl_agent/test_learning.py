"""The learner learns: small problems with known answers, each in seconds."""

import gymnasium
import numpy as np
import pytest

from rl_agent import AgentConfig, Learner, evaluate, train_serial

pytestmark = pytest.mark.slow

GAMMA = 0.9
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
    """The agent has to repeat the cue of the first observation three steps later, when it is no longer visible."""

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


class Thirds(gymnasium.Env):
    """The right one of three choices says in which third of [-1, 1] the observation lies."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._next(), {}

    def _next(self):
        self.seen = self.np_random.uniform(-1.0, 1.0, 1).astype(np.float32)
        return self.seen

    def step(self, action):
        reward = float(action == int((self.seen[0] + 1.0) * 1.5))
        self.steps += 1
        return self._next(), reward, False, self.steps == 10, {}


class Corridor(gymnasium.Env):
    """Two doors: the left one ends the episode at once with 1, the right one after three more steps with 2."""

    observation_space = gymnasium.spaces.Box(-1.0, 10.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        if action == 0:
            return np.full(1, -1.0, np.float32), 1.0, True, False, {}
        self.at += 1
        return np.full(1, self.at, np.float32), 2.0 * (self.at == 4), self.at == 4, False, {}


def trained(environment, steps, seed=0, **settings):
    config = AgentConfig(**settings)
    mode = gymnasium.vector.AutoresetMode.SAME_STEP
    environments = gymnasium.vector.SyncVectorEnv([environment] * 4, autoreset_mode=mode)
    learner = Learner(
        config, environment.observation_space, environment.action_space, agents=4, seed=seed
    )
    train_serial(learner, environments, steps, seed)
    return learner


def test_identity_is_learned():
    learner = trained(
        Identity,
        3000,
        hidden=(32, 32),
        gamma=0.0,
        learning_rate=3e-3,
        batch_size=64,
        buffer_size=2000,
        learning_starts=400,
        beta=0.5,
    )
    returns = evaluate(learner.policy(), Identity(), 20)
    # action zero scores -2.1 on average
    assert returns.mean() > -0.05


IDENTITY = {
    "trust-a3c": {
        "learning_rate": 1e-2,
        "policy_learning_rate": 3e-3,
        "horizon": 20,
        "tau": 0.05,
    },
    "tis": {
        "learning_rate": 5e-3,
        "policy_learning_rate": 2e-3,
        "episodes": 8,
        "segment": 5,
        "buffer_size": 500,
    }
    | {"learning_starts": 100, "env_steps_per_gradient_step": 8.0},
}


@pytest.mark.parametrize("algorithm", IDENTITY)
def test_identity_is_learned_by_the_baselines_of_acer(algorithm):
    learner = trained(
        Identity, 6000, algorithm=algorithm, hidden=(32,), gamma=0.0, **IDENTITY[algorithm]
    )
    # action zero scores -2.1 on average
    assert evaluate(learner.policy(), Identity(), 20).mean() > -0.3


@pytest.mark.parametrize("replay", ["refer-1", "refer-2"])
def test_identity_is_learned_with_one_rule_alone(replay):
    learner = trained(
        Identity,
        2500,
        replay=replay,
        hidden=(32, 32),
        gamma=0.0,
        learning_rate=1e-3,
        batch_size=64,
        buffer_size=1500,
        learning_starts=400,
    )
    assert evaluate(learner.policy(), Identity(), 20).mean() > -0.15


@pytest.mark.parametrize(("algorithm", "sampler"), [("ddpg", "rank"), ("vracer", "proportional")])
def test_identity_is_learned_from_prioritised_steps(algorithm, sampler):
    settings = {
        "replay": "none",
        "sampler": sampler,
        "hidden": (32, 32),
        "gamma": 0.0,
        "learning_rate": 3e-3,
    }
    settings |= {
        "batch_size": 64,
        "buffer_size": 2000,
        "learning_starts": 400,
        "env_steps_per_gradient_step": 3.0,
    }
    if algorithm == "ddpg":
        settings |= {"policy_learning_rate": 1e-3, "noise": "gaussian"}
    learner = trained(Identity, 2500, algorithm=algorithm, **settings)
    assert evaluate(learner.policy(), Identity(), 20).mean() > -0.15


class Gentle(LinearQuadratic):
    """The same with weaker actions, so that the first random ones do not move the state far away."""

    action_space = gymnasium.spaces.Box(-2.0, 2.0, (1,), np.float32)


REPLAY = {
    "buffer_size": 4000,
    "learning_starts": 1000,
    "env_steps_per_gradient_step": 4.0,
    "learning_rate": 2e-3,
}
OFF_POLICY = REPLAY | {"batch_size": 64}
LINEAR_QUADRATIC = {
    "ddpg": OFF_POLICY | {"policy_learning_rate": 5e-4, "critic_l2": 0.0},
    "naf": OFF_POLICY,
    "td3": OFF_POLICY
    | {"policy_learning_rate": 5e-4, "tau": 0.02, "sigma": 0.3, "random_start": False},
    "sac": OFF_POLICY
    | {
        "policy_learning_rate": 1e-3,
        "tau": 0.02,
        "target_entropy": -2.0,
        "temperature": 0.02,
    }
    | {"sigma": 0.3, "random_start": False},
    "acer": REPLAY
    | {"policy_learning_rate": 2e-3, "learning_rate": 3e-3, "tau": 0.01, "sigma": 0.3}
    | {"episodes": 8, "segment": 10},
    "ppo": {"learning_rate": 3e-3, "policy_learning_rate": 1e-3, "horizon": 1000, "epochs": 8},
    "vracer, quadratic": OFF_POLICY | {"advantage": "quadratic", "beta": 0.6},
}


@pytest.mark.parametrize("name", LINEAR_QUADRATIC)
def test_every_algorithm_solves_the_linear_quadratic_problem(name):
    settings = {
        "algorithm": name.split(",")[0],
        "hidden": (32, 32),
        "gamma": GAMMA,
    } | LINEAR_QUADRATIC[name]
    learner = trained(Gentle, {"ppo": 10_000, "naf": 12_000}.get(name, 8000), **settings)
    check_linear_quadratic(learner, Gentle())


def check_linear_quadratic(learner, environment):
    p = 1.0
    for _ in range(1000):  # the Riccati equation of x' = x + b a, cost x^2 + r a^2
        p = 1.0 + GAMMA * p - (GAMMA * 0.5 * p) ** 2 / (0.5 + GAMMA * 0.25 * p)
    gain = GAMMA * 0.5 * p / (0.5 + GAMMA * 0.25 * p)
    policy = learner.policy()
    x = np.linspace(-1.0, 1.0, 21)[:, None]
    actions, _ = policy.act(x, policy.initial_state(21), deterministic=True)
    assert np.polyfit(x[:, 0], actions[:, 0], 1)[0] == pytest.approx(-gain, rel=0.25)

    optimal = np.mean([_linear_feedback(gain, seed) for seed in range(40)])
    nothing = np.mean([_linear_feedback(0.0, seed) for seed in range(40)])
    learned = evaluate(policy, environment, 40).mean()
    assert nothing < 3 * optimal
    assert learned > optimal + 0.05 * (nothing - optimal)


DISCRETE = {
    "a3c": {"learning_rate": 1e-2, "policy_learning_rate": 1e-2, "horizon": 40},
    "trust-tis": {
        "learning_rate": 5e-3,
        "policy_learning_rate": 5e-3,
        "episodes": 8,
        "segment": 10,
        "buffer_size": 2000,
    }
    | {"learning_starts": 400, "env_steps_per_gradient_step": 8.0, "tau": 0.05},
    "vracer": {
        "learning_rate": 3e-3,
        "batch_size": 64,
        "buffer_size": 2000,
        "learning_starts": 400,
        "beta": 0.5,
        "env_steps_per_gradient_step": 2.0,
    },
    "acer": {
        "learning_rate": 5e-3,
        "policy_learning_rate": 5e-3,
        "episodes": 8,
        "segment": 10,
        "buffer_size": 2000,
    }
    | {"learning_starts": 400, "env_steps_per_gradient_step": 8.0, "tau": 0.02},
    "ppo": {"learning_rate": 3e-3, "policy_learning_rate": 3e-3, "horizon": 500},
}


@pytest.mark.parametrize("algorithm", DISCRETE)
def test_discrete_choice_is_learned(algorithm):
    steps = 6000 if algorithm == "a3c" else 3000
    learner = trained(
        Thirds, steps, algorithm=algorithm, hidden=(32, 32), gamma=0.0, **DISCRETE[algorithm]
    )
    # blind choice scores 3.3 of 10, two thirds right 6.7
    assert evaluate(learner.policy(), Thirds(), 40).mean() > 8.5


@pytest.mark.parametrize(("gamma", "best"), [(0.5, 1.0), (0.98, 2.0)])
@pytest.mark.parametrize("algorithm", ["vracer", "acer", "ppo"])
def test_discount_decides_between_early_and_late_reward(algorithm, gamma, best):
    settings = DISCRETE[algorithm] | (
        {"env_steps_per_gradient_step": 3.0} if algorithm == "vracer" else {}
    )
    learner = trained(Corridor, 3000, algorithm=algorithm, hidden=(32,), gamma=gamma, **settings)
    assert evaluate(learner.policy(), Corridor(), 1).mean() == best


def _linear_feedback(gain, seed):
    environment = LinearQuadratic()
    (x, _), total, ended = environment.reset(seed=seed), 0.0, False
    while not ended:
        x, reward, _, ended, _ = environment.step(np.array([-gain * x[0]]))
        total += reward
    return total


MEMORIES = {
    "lstm": {"network": "lstm", "window": 4},
    "four frames": {"frames": 4},
    "mlp": {},
    "three frames": {"frames": 3},
}


@pytest.mark.parametrize("memory", MEMORIES)
def test_an_lstm_and_four_frames_recall_what_an_mlp_and_three_cannot(memory):
    learner = trained(
        Recall,
        4000,
        **MEMORIES[memory],
        hidden=(16,),
        gamma=0.9,
        learning_rate=4e-3,
        batch_size=64,
        buffer_size=2000,
        learning_starts=400,
        beta=0.5,
    )
    score = evaluate(learner.policy(), Recall(), 40).mean()
    # without a memory nothing beats the middle of the two cues, which scores 0
    assert score > 0.8 if memory in ("lstm", "four frames") else score < 0.2


MEMORY = {
    "ddpg": {
        "batch_size": 32,
        "policy_learning_rate": 2e-3,
        "critic_l2": 0.0,
        "beta": 0.5,
        "tau": 0.05,
    },
    "naf": {"batch_size": 32, "beta": 0.5, "tau": 0.05},
    "acer": {
        "policy_learning_rate": 4e-3,
        "episodes": 8,
        "segment": 4,
        "sigma": 0.3,
        "tau": 0.02,
    },
}


@pytest.mark.parametrize("algorithm", MEMORY)
def test_every_lstm_algorithm_recalls_the_cue(algorithm):
    common = {
        "network": "lstm",
        "hidden": (16,),
        "window": 4,
        "gamma": GAMMA,
        "learning_rate": 4e-3,
    }
    common |= {"buffer_size": 2000, "learning_starts": 400, "env_steps_per_gradient_step": 4.0}
    learner = trained(Recall, 2500, algorithm=algorithm, **common | MEMORY[algorithm])
    assert evaluate(learner.policy(), Recall(), 40).mean() > 0.8
