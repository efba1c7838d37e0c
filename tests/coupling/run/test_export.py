"""Exported agents: a folder that others can evaluate, an ONNX file, and what neither can be used for."""

import json
import os
import stat
from pathlib import Path

import numpy as np
import pytest
from gymnasium.spaces import Box
from shell import complaint

from coupling.errors import RunError
from coupling.run.agents import find_agent
from coupling.run.export import export
from coupling.run.folder import RunFolder
from coupling.settings.config import load_config
from coupling.worker.environments import describe_task
from rl_agent import AgentConfig, Learner, Policy


def trained_policy():
    """A policy of an environment with two observed numbers and an action in [-1, 1]."""
    spaces = Box(-np.inf, np.inf, (2,), np.float32), Box(-1.0, 1.0, (1,), np.float32)
    learner = Learner(AgentConfig(hidden=(8,)), *spaces, agents=1, seed=1)
    weights = learner.algorithm.weights
    weights[:] = np.random.default_rng(0).normal(0.0, 0.3, weights.shape)
    return learner.policy()


def test_exported_folder_has_policy_and_task(shell):
    done = shell.run("export", "wake", "-o", "mine")
    assert done.returncode == 0, done.stderr
    shipped, mine = find_agent(Path("wake")), shell.folder / "mine"
    seen = np.random.default_rng(0).normal(size=(4, 14))
    expected, _ = Policy.load(shipped.checkpoint).act(seen)
    np.testing.assert_array_equal(Policy.load(mine).act(seen)[0], expected)
    assert (mine / "config.yaml").read_bytes() == shipped.config_file.read_bytes()
    assert json.loads((mine / "evaluation.json").read_text())["after"]["episodes"] == 96


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_exported_files_have_the_mode_of_the_umask(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        export(find_agent(Path("pendulum")), tmp_path / "mine")
        assert os.umask(umask) == umask
    finally:
        os.umask(before)
    files = list((tmp_path / "mine").iterdir())
    assert {"config.yaml", "checkpoint.npz", "evaluation.json"} <= {file.name for file in files}
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {mode}


@pytest.mark.parametrize(
    ("output", "says"),
    [
        ("mine", "mine exists already"),
        ("policy.pt", "give a file that ends in .onnx"),
        ("/proc/policy.onnx", "cannot be written to"),
    ],
)
def test_invalid_output_is_refused(shell, output, says):
    (shell.folder / "mine").mkdir()
    (shell.folder / "mine" / "something").write_text("")
    done = shell.run("export", "wake", "-o", output)
    assert done.returncode == 2
    assert says in complaint(done.stderr)


@pytest.mark.slow
def test_onnx_file_acts_like_the_shipped_agent(shell):
    onnxruntime = pytest.importorskip("onnxruntime")
    done = shell.run("export", "swimmer", "-o", "new/policy.onnx")
    assert done.returncode == 0, done.stderr
    assert "checked against the policy" in done.stdout
    session = onnxruntime.InferenceSession(shell.folder / "new" / "policy.onnx")
    policy = Policy.load(find_agent(Path("swimmer")).checkpoint)
    seen = np.random.default_rng(0).normal(size=(6, policy.sizes.observation)).astype(np.float32)
    (actions,) = session.run(None, {"observation": seen})
    np.testing.assert_allclose(actions, policy.act(seen)[0], atol=1e-5)
    assert (
        session.get_modelmeta().custom_metadata_map["task"]
        == find_agent(Path("swimmer")).config().env
    )


@pytest.mark.parametrize(
    ("algorithm", "env", "value", "says"),
    [
        ("vracer", "Pendulum-v1", np.nan, "its weights are not finite"),
        ("dqn", "CartPole-v1", np.nan, "its weights are not finite"),
        ("vracer", "Pendulum-v1", 3e38, "its actions, or those of the policy, are NaN"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_policy_whose_actions_are_nan_is_no_onnx_file(tmp_path, algorithm, env, value, says):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    words = [f"env={env}", f"agent.algorithm={algorithm}", "agent.hidden=[8]"]
    config, task = load_config(None, words), describe_task(env, {})
    learner = Learner(config.agent, task.observation_space, task.action_space, agents=1, seed=0)
    learner.algorithm.weights[::2], learner.algorithm.weights[1::2] = value, -value
    folder = RunFolder(tmp_path / "run")
    folder.create(config, lambda: learner.save(folder.checkpoint))
    with pytest.raises(RunError, match=says):
        export(folder, tmp_path / "policy.onnx")


@pytest.mark.slow
def test_exported_folder_may_be_edited(shell):
    done = shell.run("train", shell.preset(), "run.steps=300", "run.name=first")
    assert done.returncode == 0, done.stderr
    assert shell.run("export", "runs/first", "-o", "mine").returncode == 0
    config = shell.folder / "mine" / "config.yaml"
    config.write_text(config.read_text() + "# mine\n")
    assert (
        find_agent(shell.folder / "mine").config()
        == find_agent(shell.folder / "runs" / "first").config()
    )
    shell.run("export", "mine", "-o", "yours")
    assert (shell.folder / "yours" / "config.yaml").read_bytes() == config.read_bytes()


def test_policy_without_a_learner_is_not_resumed_and_not_changed(shell):
    assert shell.run("export", "wake", "-o", "mine").returncode == 0
    folder = shell.folder / "mine"
    folder.chmod(0o755)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    done = shell.run("resume", "mine", "run.steps=300000")
    assert done.returncode == 2
    assert "has a policy without its learner" in complaint(done.stderr)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


def test_folder_without_a_task_reports_the_missing_file(shell):
    (shell.folder / "mine").mkdir()
    trained_policy().save(shell.folder / "mine" / "checkpoint.npz")
    for command in (["evaluate"], ["render"], ["resume"], ["export", "-o", "x.onnx"]):
        done = shell.run(command[0], "mine", *command[1:])
        assert done.returncode == 2, command
        assert "config.yaml" in complaint(done.stderr)
