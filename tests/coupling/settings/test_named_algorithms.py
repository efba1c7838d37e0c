"""A user's own algorithm, named as ``module:name`` on the command line: the example of CONTRIBUTING.md."""

import re
import sys
from pathlib import Path

import pytest

from coupling.errors import ConfigError
from coupling.run.folder import RunFolder
from coupling.run.trust import config_to_run
from coupling.settings.config import dump_config, load_config
from rl_agent.config import AgentConfig, registry
from rl_agent.config.registry import NotImportedError

ROOT = Path(__file__).parents[3]
FILE = re.compile(r"^```python\n# rl_agent/algorithms/(\w+)/(\w+\.py)\n(.*?)^```$", re.M | re.S)
SMALL = ("workers.agents=2", "workers.processes=1", "agent.learning_starts=100", "agent.hidden=[8]")


def write_package(folder):
    """Write the example as a user's package, which registers the algorithm when it is imported."""
    package = folder / "offpac"
    package.mkdir()
    (package / "__init__.py").write_text("import offpac.config\n")
    for _, name, code in FILE.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")):
        (package / name).write_text(code.replace("rl_agent.algorithms.offpac", "offpac"))
    return package


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A current folder with a module that registers an algorithm; the registry is restored afterwards."""
    registry.algorithms()
    monkeypatch.setattr(registry, "_kinds", dict(registry._kinds))
    monkeypatch.setattr(registry, "_implementations", dict(registry._implementations))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "named_here.py").write_text("""
from typing import Literal

from rl_agent.config import TwoCritics, register


class Nothing:
    pass


@register("rl_agent.algorithms.td3.loss:TD3")
class MineConfig(TwoCritics):
    algorithm: Literal["mine"] = "mine"
    of_mine: str = "one"
""")
    yield tmp_path
    sys.modules.pop("named_here", None)


def test_settings_are_read_in_two_stages_and_written_with_the_module(here):
    words = ["env=Pendulum-v1", "agent.algorithm=named_here:mine", "agent.of_mine=1e5"]
    config = load_config(None, words)
    assert (config.agent.algorithm, config.agent.of_mine) == ("mine", "1e5")  # a text stays a text
    (here / "mine.yaml").write_text(dump_config(config))
    assert "algorithm: named_here:mine" in (here / "mine.yaml").read_text()
    assert load_config("mine.yaml") == config
    assert load_config("mine.yaml", ["agent.of_mine=2"]).agent.of_mine == "2"
    assert load_config(None, ["env=Pendulum-v1", "agent=named_here:mine"]).agent.algorithm == "mine"
    with pytest.raises(ConfigError, match=r"did you mean 'agent\.of_mine'"):
        load_config("mine.yaml", ["agent.off_mine=2"])


def test_reading_settings_imports_nothing(here):
    settings = AgentConfig(algorithm="sac").model_dump(mode="json")
    settings |= {"algorithm": "named_here:mine", "of_mine": "two"}
    config = AgentConfig.model_validate(settings)
    assert config.written_name == "named_here:mine"
    assert (config.of_mine, config.hidden) == ("two", (256, 256))
    assert config.model_dump(mode="json") == settings
    assert "named_here" not in sys.modules
    with pytest.raises(NotImportedError, match="import named_here first"):
        registry.implementation(config)


def test_algorithm_of_a_run_folder_is_imported_only_if_trusted(here):
    (here / "run").mkdir()
    (here / "run" / "config.yaml").write_text(
        "env: Pendulum-v1\nagent: {algorithm: 'named_here:mine', of_mine: two}\n"
    )
    folder = RunFolder.find(here / "run")
    assert folder.config().agent.written_name == "named_here:mine"
    with pytest.raises(ConfigError, match=r"named_here\.py.*--trust"):
        config_to_run(folder, trust=False)
    assert "named_here" not in sys.modules
    assert config_to_run(folder, trust=True).agent.of_mine == "two"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("named_here:yours", "registers no yours: it has named_here:mine"),
        ("named_here:mime", "did you mean 'named_here:mine'?"),
        ("named_here:Nothing", "has Nothing, but that is no registered algorithm"),
        ("named_here:MineConfig", "did you mean 'named_here:mine'?"),
        ("named_here.py:mine", "did you mean 'named_here:mine'?"),
        ("no_such_module:mine", "there is no module 'no_such_module'"),
        ("json:loads", "has loads, but that is no registered algorithm"),
        ("json:mine", "json registers no algorithm"),
    ],
)
def test_unknown_algorithm_is_refused(here, name, said):
    with pytest.raises(ConfigError, match=re.escape(said)):
        load_config(None, ["env=Pendulum-v1", f"agent.algorithm={name}"])


@pytest.mark.slow
def test_the_example_is_trained_resumed_evaluated_and_exported_from_the_command_line(shell):
    package = write_package(shell.folder)
    named = ("env=Pendulum-v1", "agent.algorithm=offpac:offpac", "agent.weight_bound=2", *SMALL)
    done = shell.run("train", *named, "run.name=run", "run.steps=500")
    assert done.returncode == 0, done.stderr
    assert "algorithm: offpac.config:offpac" in (shell.run_folder / "config.yaml").read_text()
    used = (
        ["resume", "runs/run", "run.steps=600"],
        ["evaluate", "runs/run", "--episodes", "1"],
        ["export", "runs/run", "-o", "policy.onnx"],
    )
    for words in used:
        done = shell.run(*words)
        assert done.returncode == 0, done.stderr
    # the same folder on the machine of somebody who has not trained with it
    shell.environment["XDG_STATE_HOME"] = str(shell.folder / "of-somebody-else")
    (package / "__init__.py").write_text("print('CODE OF THE FOLDER RUNS')\nimport offpac.config\n")
    for words in (*used, ["render", "runs/run", "-o", "f.mp4"], ["serve", "runs/run"]):
        done = shell.run(*words)
        assert done.returncode == 2, done.stderr
        assert str(package / "config.py") in done.stderr
        assert "--trust" in done.stderr
        assert "CODE OF THE FOLDER" not in done.stdout
    for words in (["status", "runs/run"], ["report", "runs/run", "-o", "r.html"]):
        done = shell.run(*words)
        assert done.returncode == 0, done.stderr
        assert "CODE OF THE FOLDER" not in done.stdout
    trusted = shell.run("evaluate", "runs/run", "--episodes", "1", "--trust")
    assert trusted.returncode == 0, trusted.stderr
    assert "CODE OF THE FOLDER" in trusted.stdout


@pytest.mark.slow
def test_error_in_an_algorithm_is_reported_with_its_location(shell):
    package = write_package(shell.folder)
    loss = (package / "loss.py").read_text()
    broken = loss.replace("delta = target - value", "delta = target - nothing")
    assert broken != loss
    (package / "loss.py").write_text(broken)
    named = ("env=Pendulum-v1", "agent.algorithm=offpac:offpac", *SMALL)
    done = shell.run("train", *named, "run.name=run", "run.steps=500")
    assert done.returncode == 1
    assert "NameError: name 'nothing' is not defined (loss.py, line " in done.stderr
    assert "Traceback" not in done.stderr
