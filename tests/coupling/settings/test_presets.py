"""Every shipped preset of MuJoCo and classic control runs with every algorithm that takes its actions."""

import re

import numpy as np
import pytest

from coupling.evaluation.evaluate import PolicyController, baselines_of, evaluate
from coupling.settings.config import load_config
from coupling.settings.content import shipped_presets
from coupling.settings.presets import describe_presets
from coupling.worker.environments import Numbered, describe_task, make_single, make_vector
from rl_agent.config import OnPolicyConfig, algorithms
from rl_agent.learner import Learner
from rl_agent.rollout.in_process import SerialRun

PRESETS = [name for name in shipped_presets() if name.startswith(("mujoco/", "classic/"))]
# short runs for the test; the sizes of networks and actions stay those of the preset
SHORT = [
    "agent.learning_starts=30",
    "agent.buffer_size=4000",
    "agent.batch_size=8",
    "workers.agents=1",
]


def test_every_task_has_a_preset():
    tasks = {load_config(name).env for name in PRESETS}
    mujoco = (
        "HalfCheetah Hopper Walker2d Ant Humanoid HumanoidStandup Swimmer Reacher InvertedPendulum"
    )
    assert tasks == {f"{name}-v5" for name in [*mujoco.split(), "InvertedDoublePendulum"]} | {
        "CartPole-v1",
        "Pendulum-v1",
    }


@pytest.mark.parametrize("row", describe_presets(), ids=lambda row: row["preset"])
def test_a_preset_is_described_by_a_whole_sentence(row):
    about = row["about"]
    assert 10 < len(about) <= 120
    assert about.count("(") == about.count(")")
    assert not re.search(r"[.;,:]$|\bet al$|\(extra \w+$", about)


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_every_algorithm_runs_on_the_preset(preset):
    if preset.startswith("mujoco/"):
        pytest.importorskip("mujoco")
    task = describe_task(load_config(preset).env, {})
    for algorithm in algorithms():
        kind = algorithms()[algorithm]
        more = [
            f"agent.{key}={n}"
            for key, n in (("horizon", 40), ("segment", 10))
            if key in kind.model_fields
        ]
        config = load_config(preset, [f"agent.algorithm={algorithm}", *SHORT, *more])
        build = lambda config=config: Learner(  # noqa: E731
            config.agent, task.observation_space, task.action_space, agents=1, seed=0
        )
        is_discrete, kind = preset == "classic/cartpole", algorithms()[algorithm]
        if not (kind.serves_choices if is_discrete else kind.serves_boxes):
            with pytest.raises(
                ValueError, match=f"needs {'continuous' if is_discrete else 'discrete'} actions"
            ):
                build()
            continue
        learner = build()
        run = SerialRun(learner, make_vector(config.env, {}, 1), 0)
        run.run(30)
        if learner.memory.storage.steps < 30 and not issubclass(
            kind, OnPolicyConfig
        ):  # an episode that goes on; what is stored is enough
            learner.abandon([0])
            learner.begin([0], run.environments.reset(seed=1)[0])
        before = learner.algorithm.weights.copy()
        run.run(15)
        assert learner.gradient_steps > 0, algorithm
        assert np.isfinite(learner.algorithm.weights).all()
        assert np.abs(learner.algorithm.weights - before).max() > 0


def test_policy_with_discrete_actions_is_evaluated():
    config = load_config("classic/cartpole")
    task = describe_task(config.env, {})
    learner = Learner(config.agent, task.observation_space, task.action_space, agents=1, seed=0)
    controller = PolicyController(learner.policy(), deterministic=False, seed=0)
    evaluated = evaluate(config.env, {}, controller, episodes=3, seed=0)
    assert (evaluated.returns == evaluated.lengths).all()
    assert (evaluated.lengths >= 8).all()


def test_random_baseline_takes_all_choices_equally_often():
    space = make_vector("CartPole-v1", {}, 1).single_action_space
    assert isinstance(space, Numbered)
    random = baselines_of("Acrobot-v1", {}, 0)["random"]
    actions = np.clip(random(np.zeros((30_000, 6))), 0, 2)
    shares = np.bincount(np.rint(actions[:, 0]).astype(int), minlength=3) / 30_000
    np.testing.assert_allclose(shares, 1 / 3, atol=0.015)


def test_mujoco_warnings_of_the_simulation_are_shown_and_those_of_models_are_not(
    tmp_path, monkeypatch, capfd
):
    mujoco = pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)
    make_vector(
        "HalfCheetah-v5", {}, 3
    ).close()  # its model has an attribute that MuJoCo 4 warns of
    assert capfd.readouterr() == ("", "")

    env = make_single("HalfCheetah-v5", {})
    env.reset(seed=0)
    env.unwrapped.data.qpos[0] = np.nan
    mujoco.mj_step(env.unwrapped.model, env.unwrapped.data)
    out, err = capfd.readouterr()
    assert not out
    assert err.startswith("MuJoCo: Nan, Inf or huge value in QPOS at DOF 0.")
    assert not list(tmp_path.iterdir())
