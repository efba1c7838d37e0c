"""Runs, arguments and files with old names of settings."""

import json

import pytest
import yaml

from coupling.errors import ConfigError
from coupling.settings.config import load_config, with_overrides
from coupling.settings.suggestions import meant_by_option
from rl_agent.config.old_names import OLD_NAMES, OldNameWarning, warn_once
from rl_agent.saving.checkpoint import read_checkpoint, write_checkpoint


@pytest.fixture(autouse=True)
def _nothing_told_yet():
    warn_once.cache_clear()


def written_before(folder):
    """Turn a run folder into one of the previous version, whose settings had the old names."""
    old = {new: name for name, new in OLD_NAMES.items()}

    def before(settings):
        names = {old.get(key, key): value for key, value in settings.items()}
        return names | {"deviation": "shared"}

    content = yaml.safe_load((folder / "config.yaml").read_text())
    content["agent"] = before(content["agent"])
    (folder / "config.yaml").write_text(yaml.safe_dump(content))
    arrays, meta = read_checkpoint(folder / "checkpoint.npz")
    meta["config"] = before(meta["config"])
    write_checkpoint(folder / "checkpoint.npz", arrays, meta)


def names_in(folder):
    """Return the names of the settings that a run folder holds."""
    content = yaml.safe_load((folder / "config.yaml").read_text())
    meta = read_checkpoint(folder / "checkpoint.npz")[1]
    return content["agent"].keys() | meta["config"].keys()


@pytest.mark.slow
def test_run_with_old_names_is_read_with_one_warning_and_resumed_with_new_names(shell):
    done = shell.run("train", shell.preset(env="Pendulum-v1", run={"steps": 1000}))
    assert done.returncode == 0, done.stderr
    run = shell.folder / "runs" / "run"
    written_before(run)
    as_found = (run / "config.yaml").read_bytes()
    for words in (
        ("status", "runs/run"),
        ("report", "runs/run"),
        ("plot", "runs/run"),
        ("evaluate", "runs/run", "--episodes", "2", "--json"),
        ("resume", "runs/run", "run.steps=1200"),
    ):
        if words[0] == "resume":
            assert (run / "config.yaml").read_bytes() == as_found  # reading changed nothing
        said = shell.run(*words)
        assert said.returncode == 0, said.stderr
        told = [line for line in said.stderr.splitlines() if "is now" in line]
        if words[0] != "status":
            assert len(told) == 1, said.stderr
            assert told[0].startswith("warning: old names of agent settings: ")
            assert "start is now learning_starts" in told[0]
        if "--json" in words:
            assert json.loads(said.stdout)["episodes"] == 2
    assert not names_in(run) & OLD_NAMES.keys()
    content = yaml.safe_load((run / "config.yaml").read_text())
    assert content["agent"]["learning_starts"] == 200
    assert content["run"]["steps"] == 1200


def test_arguments_may_use_old_names():
    with pytest.warns(OldNameWarning, match="start is now learning_starts.* deviation is now"):
        config = load_config("classic/pendulum", ["agent.start=77", "agent.deviation=state"])
    assert (config.agent.learning_starts, config.agent.state_dependent_std) == (77, True)
    with pytest.warns(OldNameWarning):
        assert with_overrides(config, ["agent.batch=8"]).agent.batch_size == 8


def test_argument_overrides_a_file_under_either_name(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("env: Pendulum-v1\nagent: {start: 50, memory: 900}\n")
    for word in ("agent.learning_starts=60", "agent.start=60"):
        with pytest.warns(OldNameWarning):
            agent = load_config(str(file), [word]).agent
        assert (agent.learning_starts, agent.buffer_size) == (60, 900)


def test_env_options_are_not_renamed():
    config = load_config("d_cylinder_wake/quick", ["env_options.start=impulsive"])
    assert config.env_options["start"] == "impulsive"


@pytest.mark.parametrize("content", ["agent: {start: 50, learning_starts: 60}", "agent: {}"])
def test_giving_both_names_is_refused(tmp_path, content):
    file = tmp_path / "mine.yaml"
    file.write_text(f"env: Pendulum-v1\n{content}\n")
    words = [] if "start" in content else ["agent.start=50", "agent.learning_starts=60"]
    with pytest.raises(
        ConfigError, match=r"start and learning_starts are the old and .* leave out start$"
    ):
        load_config(str(file), words)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("agent.memroy=5", "agent.buffer_size"),
        ("agent.truncations=5", "agent.importance_clip"),
        ("memory=5", "agent.buffer_size"),
        ("agent.bufer_size=5", "agent.buffer_size"),
    ],
)
def test_typo_of_an_old_name_suggests_the_new_one(word, meant):
    with pytest.raises(ConfigError, match=f"did you mean '{meant}'"):
        load_config("classic/pendulum", [word])


def test_option_with_an_old_name_means_the_new_setting():
    from coupling.settings.config import RunConfig

    assert meant_by_option("--memory", "5", [RunConfig]) == "agent.buffer_size=5"
    assert (
        meant_by_option("--steps-per-update", "5", [RunConfig])
        == "agent.env_steps_per_gradient_step=5"
    )
    assert meant_by_option("--tau", "0.1", [RunConfig]) == "agent.tau=0.1"
