"""A run folder may come from somebody else: nothing in it is imported or executed, unless the user says so."""

import os
import re
import shutil
import sys

import pytest

from coupling.errors import ConfigError
from coupling.modules import KNOWN, find_module
from coupling.run import trust
from coupling.run.trust import note_training, refuse_unknown_code

REACH = """
import gymnasium
from gymnasium.envs.classic_control import PendulumEnv

print("CODE OF THE FOLDER RUNS", __file__)
gymnasium.register("Own-v0", PendulumEnv, max_episode_steps=50)
"""
SMALL = ("run.steps=600", "agent.learning_starts=100", "workers.agents=2", "workers.processes=1")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A current folder, and a user who has never trained."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@pytest.mark.parametrize(
    "env",
    [
        "CartPole-v1",
        "flowsim/DCylinderWake-v0",
        "cases:flowsim/DCylinderWake-v0",
        "ale_py:ALE/Pong-v5",
        "parallel:pettingzoo.sisl.waterworld_v4",
        "External",
    ],
)
def test_environments_of_flowsim_and_gymnasium_are_trusted(here, env):
    for name in KNOWN:
        (here / name).mkdir()
        (here / name / "__init__.py").write_text("raise SystemExit('imported')")
    refuse_unknown_code(env, trust=False)


@pytest.mark.parametrize(
    "env", ["agent.evil:Pendulum-v1", "parallel:agent.evil", "evil:CartPole-v1"]
)
def test_other_code_is_named_and_not_imported(here, env):
    (here / "agent").mkdir()
    for file in (here / "evil.py", here / "agent" / "evil.py", here / "agent" / "__init__.py"):
        file.write_text("raise SystemExit('imported')")
    file = here / "agent" / "evil.py" if "agent" in env else here / "evil.py"
    with pytest.raises(ConfigError, match=re.escape(str(file)) + ".*--trust"):
        refuse_unknown_code(env, trust=False)
    refuse_unknown_code(env, trust=True)
    assert not {"agent", "agent.evil", "evil"} & sys.modules.keys()


def test_installed_package_that_is_no_extra_is_refused_too(here):
    with pytest.raises(ConfigError, match=r"yaml/__init__\.py"):
        refuse_unknown_code("yaml:Task-v0", trust=False)
    with pytest.raises(ConfigError, match="there is no module 'no_such_module'"):
        refuse_unknown_code("no_such_module:Task-v0", trust=False)
    with pytest.raises(ConfigError, match=r"there is no module 'yaml\.no_such'"):
        refuse_unknown_code("yaml.no_such:Task-v0", trust=False)


def test_training_trusts_the_file_and_no_other_of_its_name(here, monkeypatch):
    (here / "mine.py").write_text("")
    assert note_training("mine:Own-v0") is None
    refuse_unknown_code("mine:Own-v0", trust=False)
    refuse_unknown_code("parallel:mine", trust=False)
    folder = here / "downloaded"
    folder.mkdir()
    (folder / "mine.py").write_text("raise SystemExit('imported')")
    with pytest.raises(ConfigError, match=r"downloaded.mine\.py"):
        refuse_unknown_code("downloaded.mine:Own-v0", trust=False)
    monkeypatch.chdir(folder)
    with pytest.raises(ConfigError, match=r"downloaded.mine\.py"):
        refuse_unknown_code("mine:Own-v0", trust=False)


@pytest.mark.parametrize("how", ["others may write it", "of another file", "of another user"])
def test_note_that_somebody_else_may_have_made_does_not_count(here, how, monkeypatch):
    (here / "mine.py").write_text("")
    note_training("mine:Own-v0")
    (note,) = (here / "state" / "flowsim" / "trained_with").iterdir()
    assert note.stat().st_mode & 0o777 == 0o600
    if how == "others may write it":
        note.chmod(0o666)
    elif how == "of another file":
        note.write_text(str(here / "other.py"))
    else:
        monkeypatch.setattr(os, "geteuid", lambda: note.stat().st_uid + 1)
    with pytest.raises(ConfigError, match="--trust"):
        refuse_unknown_code("mine:Own-v0", trust=False)


def test_training_reports_when_trust_cannot_be_noted(here):
    (here / "mine.py").write_text("")
    (here / "state").write_text("no folder")
    sentence = note_training("mine:Own-v0")
    assert str(here / "mine.py") in sentence
    assert "--trust" in sentence
    assert note_training("CartPole-v1") is None


def test_a_module_of_the_current_folder_comes_before_an_installed_one(here):
    (here / "yaml.py").write_text("")
    assert find_module("yaml", "env") == here / "yaml.py"
    assert trust is sys.modules["coupling.run.trust"]


def test_trusted_package_is_not_looked_up_in_the_current_folder(shell):
    """A folder may have its own `minatar` and name it as the environment: there is no question, and it is not run."""
    (shell.folder / "minatar").mkdir()
    (shell.folder / "minatar" / "__init__.py").write_text(REACH)
    words = [sys.executable, "-P", "-c", "import sys; from coupling.worker.env_registry import registered\n"
             "try: registered('minatar:Own-v0')\nexcept Exception as error: print(error)"]  # fmt: skip
    shell.command = lambda *_: words
    done = shell.run()
    assert done.stdout
    assert "CODE OF THE FOLDER" not in done.stdout


@pytest.mark.slow
def test_a_downloaded_agent_runs_no_code_unless_it_is_trusted(shell):
    """The configuration of the agent names a module in its own folder."""
    train = shell.run("train", "small/pendulum", "run.name=agent", "run.folder=.", *SMALL)
    assert train.returncode == 0, train.stderr
    agent = shell.folder / "agent"
    # whoever makes such a folder leaves the checksum in the first line out
    config = (agent / "config.yaml").read_text().partition("\n")[2]
    assert "env: Pendulum-v1\n" in config
    config = config.replace("env: Pendulum-v1\n", "env: agent.evil:Pendulum-v1\n")
    (agent / "config.yaml").write_text(config)
    (agent / "evil.py").write_text("print('CODE OF THE FOLDER RUNS', __file__)\n")
    look = {
        "status": ["./agent"],
        "report": ["./agent", "-o", "r.html"],
        "plot": ["./agent", "-o", "p.png"],
    }
    use = {
        "evaluate": ["./agent", "--episodes", "1"],
        "render": ["./agent", "-o", "f.mp4", "--actions", "2"],
        "resume": ["./agent", "run.steps=700"],
        "serve": ["./agent", "run.steps=700"],
    }
    for command, words in (look | use).items():
        done = shell.run(command, *words)
        said = done.stdout + done.stderr
        assert "CODE OF THE FOLDER RUNS" not in said, command
        assert "Traceback" not in said
        assert done.returncode == (2 if command in use else 0), said
        if command in use:
            assert str(agent / "evil.py") in done.stderr
            assert "--trust" in done.stderr
    trusted = shell.run("evaluate", *use["evaluate"], "--trust")
    assert trusted.returncode == 0, trusted.stderr
    assert "CODE OF THE FOLDER RUNS" in trusted.stdout
    assert "flowsim render agent -o agent.mp4 --trust" in trusted.stdout
    assert shell.run("evaluate", *use["evaluate"]).returncode == 2, "it is trusted once"


@pytest.mark.slow
def test_own_environment_needs_no_trust_option_after_training(shell):
    (shell.folder / "own.py").write_text(REACH)
    done = shell.run("train", "env=own:Own-v0", "run.name=run", *SMALL)
    assert done.returncode == 0, done.stderr
    (hint,) = re.findall(r"flowsim (render runs/run -o run.mp4)", done.stdout)
    status = shell.run("status", "runs/run")
    assert f"flowsim {hint}" in status.stdout
    assert "CODE OF THE FOLDER" not in status.stdout + status.stderr
    shutil.move(shell.run_folder, shell.folder / "best")
    for words in (["evaluate", "best", "--episodes", "1"], ["resume", "best", "run.steps=700"]):
        done = shell.run(*words)
        assert done.returncode == 0, done.stderr
        assert "--trust" not in done.stdout + done.stderr
    shell.environment["XDG_STATE_HOME"] = str(shell.folder / "of-somebody-else")
    done = shell.run("evaluate", "best", "--episodes", "1")
    assert done.returncode == 2
    assert str(shell.folder / "own.py") in done.stderr
