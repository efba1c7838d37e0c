"""The small tasks: their best returns, and that learners come near them with what a user gets by default."""

import numpy as np
import pytest
import scipy.linalg
import yaml

from cases.small import best
from cases.small.env import Chain, Glide, LinearQuadratic, Reach, Recall
from coupling.config import dump_config, fitted, load_config
from coupling.environments import describe_task, make_vector
from coupling.evaluate import PolicyController, evaluate
from rl_agent.learner import Learner
from rl_agent.serial import SerialRun


def test_the_best_of_the_linear_quadratic_task_is_a_clipped_feedback():
    # for one component alone the feedback of the unbounded problem, clipped, is as good as anything to a thousandth
    task = LinearQuadratic(1)
    push = np.array([[LinearQuadratic.STEP]])
    p = scipy.linalg.solve_discrete_are(np.eye(1), push, np.eye(1), np.array([[LinearQuadratic.EFFORT]]))
    gain = push @ p / (LinearQuadratic.EFFORT + push @ p @ push)
    returns = []
    starts = np.linspace(-1.0, 1.0, 401)
    for start in starts:
        task.reset(seed=0)
        task.x = np.array([start])
        returns.append(sum(task.step(-gain[0] * task.x)[1] for _ in range(best.LQ_STEPS)))
    assert np.trapezoid(returns, starts) / 2.0 == pytest.approx(best.linear_quadratic(1), rel=0.002)
    assert best.linear_quadratic(4) == pytest.approx(4 * best.linear_quadratic(1))


def test_the_best_of_the_glide_is_the_feedback_of_an_endless_one():
    dt = Glide.DT
    forward, push = np.array([[1.0, dt], [0.0, 1.0]]), np.array([[dt * dt], [dt]])
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


def test_the_best_of_the_chain_is_to_go_up():
    task, returns = Chain(), []
    for seed in range(1000):
        task.reset(seed=seed)
        returns.append(sum(task.step(np.int64(1))[1] for _ in range(best.CHAIN_STEPS)))
    assert np.mean(returns) == pytest.approx(best.chain(), abs=4 * np.std(returns) / np.sqrt(len(returns)))


def test_the_best_of_recall_and_reach_is_one():
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


def test_doing_nothing_has_the_return_that_is_told():
    for name in ("lq1", "lq2", "glide", "pendulum", "chain"):
        config = load_config(best.TASKS[name].preset)
        vector = make_vector(config.env, config.env_options, 100)
        vector.reset(seed=0)
        low = np.zeros((100, *vector.single_action_space.shape), np.float32)
        total = sum(
            vector.step(low)[1].mean() for _ in range(describe_task(config.env, config.env_options).episode_steps)
        )
        assert total == pytest.approx(best.TASKS[name].nothing, rel=0.25)


def trained(preset, words, agents):
    """Train as `flowsim train` does, in this process."""
    config = load_config(preset, [*words, f"workers.agents={agents}", "workers.processes=1"])
    task = describe_task(config.env, config.env_options)
    config = fitted(config, task.episode_steps)
    learner = Learner(config.agent, task.observation_space, task.action_space, agents=agents, seed=0)
    SerialRun(learner, make_vector(config.env, config.env_options, agents), 0).run(config.run.steps)
    controller = PolicyController(learner.policy(), deterministic=True, seed=0)
    return evaluate(config.env, config.env_options, controller, episodes=50, seed=10**6).returns.mean()


@pytest.mark.parametrize(("algorithm", "steps"), [("vracer", 5000), ("ppo", 15_000)])
def test_a_task_that_is_named_and_nothing_else_is_learned(algorithm, steps):
    task = best.TASKS["lq2"]
    learned = trained(task.preset, [f"agent={algorithm}", f"run.steps={steps}"], 8)
    assert (learned - task.nothing) / (task.best() - task.nothing) > 0.8


def test_the_resolved_configuration_shows_what_fits_and_stays(tmp_path):
    config = fitted(load_config("small/lq2", ["agent.gamma=0.9"]), 20)
    shown = yaml.safe_load(dump_config(config))["agent"]
    assert (shown["gamma"], shown["beta"], shown["start"], shown["learning_rate"]) == (0.9, 1.0, 1200, 1e-3)
    # a resumed run reads it back, and takes nothing that fits another length
    (tmp_path / "config.yaml").write_text(dump_config(config))
    again = load_config(str(tmp_path / "config.yaml"), ["run.steps=1000000"])
    assert fitted(again, 500).agent == config.agent
