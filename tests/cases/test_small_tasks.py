"""The small tasks: their best returns, and that learners come near them with default settings."""

import re
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import scipy.linalg
import yaml

from cases.small import best
from cases.small.env import Chain, Glide, HiddenPendulum, LinearQuadratic, Reach, Recall
from coupling.evaluation.evaluate import PolicyController, evaluate
from coupling.settings.config import dump_config, fitted, load_config
from coupling.settings.content import shipped_presets
from coupling.worker.env_registry import PARALLEL
from coupling.worker.environments import describe_task, make_vector
from rl_agent.config.defaults import warnings_of
from rl_agent.learner import Learner
from rl_agent.rollout.in_process import SerialRun

ROOT = Path(__file__).parents[2]


def test_best_return_of_the_linear_quadratic_task_is_that_of_a_clipped_feedback():
    # for one component the clipped feedback of the unbounded problem is optimal to a thousandth
    task = LinearQuadratic(1)
    push = np.array([[LinearQuadratic.STEP]])
    p = scipy.linalg.solve_discrete_are(
        np.eye(1), push, np.eye(1), np.array([[LinearQuadratic.EFFORT]])
    )
    gain = push @ p / (LinearQuadratic.EFFORT + push @ p @ push)
    returns = []
    starts = np.linspace(-1.0, 1.0, 401)
    for start in starts:
        task.reset(seed=0)
        task.x = np.array([start])
        returns.append(sum(task.step(-gain[0] * task.x)[1] for _ in range(best.LQ_STEPS)))
    assert np.trapezoid(returns, starts) / 2.0 == pytest.approx(best.linear_quadratic(1), rel=0.002)
    assert best.linear_quadratic(4) == pytest.approx(4 * best.linear_quadratic(1))


def test_best_return_of_the_glide_is_that_of_the_infinite_horizon_feedback():
    dt = Glide.DT
    forward, push = np.array([[1.0, dt * (1.0 - dt)], [0.0, 1.0 - dt]]), np.array([[dt * dt], [dt]])
    p = scipy.linalg.solve_discrete_are(forward, push, np.diag([dt, 0.0]), np.array([[dt]]))
    gain = np.linalg.solve(dt + push.T @ p @ push, push.T @ p @ forward)
    task = Glide()
    task.reset(seed=0)
    task.x, total = 1.0, 0.0
    for _ in range(best.GLIDE_STEPS):
        action = -gain @ np.array([task.x, task.v])
        assert abs(action[0]) < 2.0
        total += task.step(action)[1]
    assert total / 3.0 == pytest.approx(best.glide(), rel=1e-6)


def test_best_return_of_the_chain_is_that_of_going_up():
    task, returns = Chain(), []
    for seed in range(1000):
        task.reset(seed=seed)
        returns.append(sum(task.step(np.int64(1))[1] for _ in range(best.CHAIN_STEPS)))
    assert np.mean(returns) == pytest.approx(
        best.chain(), abs=4 * np.std(returns) / np.sqrt(len(returns))
    )


def test_best_return_of_recall_and_reach_is_one():
    recall, reach = Recall(), Reach()
    for seed in range(5):
        (cue, _), _ = recall.reset(seed=seed)
        rewards = [recall.step(np.array([cue]))[1] for _ in range(4)]
        assert rewards == pytest.approx([0.0, 0.0, 0.0, 1.0])
        x, _ = reach.reset(seed=seed)
        total = there = 0.0
        while not there:
            x, reward, there, *_ = reach.step(-x / np.abs(x).max())
            total += reward
        assert total == 1.0


def test_long_recall_asks_after_twenty_steps_of_nothing():
    task = gym.make("flowsim/LongRecall-v0")
    (cue, _), _ = task.reset(seed=1)
    seen = [task.step(np.array([cue], np.float32)) for _ in range(21)]
    assert [observation.tolist() for observation, *_ in seen[:20]] == [[0.0, 0.0]] * 19 + [
        [0.0, 1.0]
    ]
    assert [reward for _, reward, *_ in seen] == pytest.approx([0.0] * 20 + [1.0])
    assert [terminated for *_, terminated, _, _ in seen] == [False] * 20 + [True]


def test_recall_must_wait_at_least_one_step():
    with pytest.raises(ValueError, match="wait = 0 must be at least 1 step"):
        Recall(wait=0)


def test_the_hidden_pendulum_is_that_of_gymnasium_without_its_velocity():
    seen, hidden = gym.make("Pendulum-v1"), gym.make("flowsim/HiddenPendulum-v0")
    assert isinstance(hidden.unwrapped, HiddenPendulum)
    (full, _), (part, _) = seen.reset(seed=3), hidden.reset(seed=3)
    rng = np.random.default_rng(0)
    for step in range(1, 201):
        assert part == pytest.approx(full[:2])
        assert part in hidden.observation_space
        push = rng.uniform(-2.0, 2.0, 1).astype(np.float32)
        (full, reward, *_), (part, same, terminated, truncated, _) = (
            seen.step(push),
            hidden.step(push),
        )
        assert (same, terminated, truncated) == (reward, False, step == 200)


def test_zero_action_has_the_listed_return():
    for name in ("lq1", "lq2", "glide", "pendulum", "chain"):
        config = load_config(best.TASKS[name].preset)
        vector = make_vector(config.env, config.env_options, 40)
        vector.reset(seed=0)
        low = np.zeros((40, *vector.single_action_space.shape), np.float32)
        total = sum(
            vector.step(low)[1].mean()
            for _ in range(describe_task(config.env, config.env_options).episode_steps)
        )
        assert total == pytest.approx(best.TASKS[name].nothing, rel=0.25)


def trained(preset, words, agents):
    """Train as `flowsim train` does, in this process."""
    config = load_config(preset, [*words, f"workers.agents={agents}", "workers.processes=1"])
    task = describe_task(config.env, config.env_options)
    config = fitted(config, task.episode_steps)
    learner = Learner(
        config.agent, task.observation_space, task.action_space, agents=agents, seed=0
    )
    SerialRun(learner, make_vector(config.env, config.env_options, agents), 0).run(config.run.steps)
    controller = PolicyController(learner.policy(), deterministic=True, seed=0)
    return evaluate(
        config.env, config.env_options, controller, episodes=50, seed=10**6
    ).returns.mean()


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "steps"), [("vracer", 5000), ("ppo", 8000)])
def test_task_is_learned_with_default_settings(algorithm, steps):
    task = best.TASKS["lq2"]
    learned = trained(task.preset, [f"agent={algorithm}", f"run.steps={steps}"], 8)
    assert (learned - task.nothing) / (task.best() - task.nothing) > 0.8


def test_the_smallest_task_is_learned_in_seconds():
    task = best.TASKS["lq1"]
    learned = trained(task.preset, ["agent=ppo", "run.steps=4000"], 8)
    assert (learned - task.nothing) / (task.best() - task.nothing) > 0.8


def test_resolved_configuration_shows_and_keeps_fitted_defaults(tmp_path):
    config = fitted(load_config("small/lq2", ["agent.gamma=0.9"]), 20)
    shown = yaml.safe_load(dump_config(config))["agent"]
    assert (shown["gamma"], shown["beta"], shown["learning_starts"], shown["learning_rate"]) == (
        0.9,
        1.0,
        1200,
        1e-3,
    )
    # a resumed run reads it back and takes no defaults fitted to another length, even one from before there were rules
    older = yaml.safe_load(dump_config(config))
    del older["agent"]["defaults"]
    for content in (dump_config(config), yaml.safe_dump(older)):
        (tmp_path / "config.yaml").write_text(content)
        again = load_config(str(tmp_path / "config.yaml"), ["run.steps=1000000"])
        assert fitted(again, 500).agent == config.agent


TAKE_WHAT_FITS = {
    "small",
    "cylinder_jets",
    "square_jets",
    "rotating_cylinder",
    "fluidic_pinball",
    "pitching_foil",
    "backward_step",
    "open_cavity",
    "rayleigh_benard",
}
"""Tasks whose presets name an algorithm and take the settings that fit the length of the run."""


@pytest.mark.parametrize("name", shipped_presets())
def test_the_shipped_presets_fit_their_runs(name):
    config = load_config(name)
    options = config.env_options
    registered = None if config.env.startswith(PARALLEL) else gym.spec(config.env).max_episode_steps
    limit = registered or options.get("max_cycles") or options["episode_actions"]
    resolved = fitted(config, limit)
    assert warnings_of(resolved.agent, config.run.steps, limit, config.workers.agents) == []
    if name.partition("/")[0] not in TAKE_WHAT_FITS:
        assert resolved == config  # they are tuned on top of the published values


class Oscillator(gym.Env):
    """The solver of docs/clients.md."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.v = self.np_random.uniform(0.5, 1.0), 0.0
        return np.array([self.x, self.v], np.float32), {}

    def step(self, action):
        self.v += 0.1 * (float(action[0]) - self.x)
        self.x += 0.1 * self.v
        return (
            np.array([self.x, self.v], np.float32),
            -self.x * self.x - self.v * self.v,
            False,
            False,
            {},
        )


@pytest.mark.slow
def test_first_solver_example_of_the_docs_learns(tmp_path):
    text = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
    (tmp_path / "balls.yaml").write_text(re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)[0])
    config = load_config(str(tmp_path / "balls.yaml"), ["workers.launcher=none", "run.steps=4000"])
    task = describe_task(config.env, config.env_options)
    Oscillator.observation_space, Oscillator.action_space = (
        task.observation_space,
        task.action_space,
    )
    limited = lambda: gym.wrappers.TimeLimit(Oscillator(), task.episode_steps)  # noqa: E731
    config, agents = fitted(config, task.episode_steps), config.workers.agents
    learner = Learner(
        config.agent, task.observation_space, task.action_space, agents=agents, seed=0
    )
    mode = gym.vector.AutoresetMode.SAME_STEP
    SerialRun(learner, gym.vector.SyncVectorEnv([limited] * agents, autoreset_mode=mode), 0).run(
        config.run.steps
    )

    # the clipped feedback of the endless problem with unbounded actions: a lower bound of the best return
    forward, push = np.array([[0.99, 0.1], [-0.1, 1.0]]), np.array([[0.01], [0.1]])
    p = scipy.linalg.solve_discrete_are(forward, push, np.eye(2), np.array([[1e-4]]))
    gain = np.linalg.solve(1e-4 + push.T @ p @ push, push.T @ p @ forward)[0]
    policy = learner.policy()
    state = policy.initial_state(1)

    def mean_return(act):
        returns = []
        for seed in range(30):
            environment = limited()
            (x, _), total, ended = environment.reset(seed=10**6 + seed), 0.0, False
            while not ended:
                x, reward, _, ended, _ = environment.step(act(x))
                total += reward
            returns.append(total)
        return np.mean(returns)

    nothing = mean_return(lambda x: np.zeros(1))
    best = mean_return(lambda x: np.clip([-gain @ x], -1.0, 1.0))
    learned = mean_return(
        lambda x: np.clip(policy.act(x[None], state, deterministic=True)[0][0], -1.0, 1.0)
    )
    assert nothing < 2 * best
    assert (learned - nothing) / (best - nothing) > 0.8
