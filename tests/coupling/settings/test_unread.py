"""Settings of a run and its workers that are not read are named, as those of agents are."""

import re

import pytest

from coupling.settings.config import load_config
from coupling.settings.content import shipped_presets
from coupling.settings.unread import unread_settings


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["workers.ray.cpus=4"],
            "workers.ray.cpus = 4.0 is a setting of workers.launcher = ray, "
            "which workers.launcher = local does not read",
        ),
        (
            ["workers.slurm.sbatch.qos=high"],
            "workers.slurm.sbatch = {'qos': 'high'} is a setting of workers.launcher = slurm, "
            "which workers.launcher = local does not read",
        ),
        (
            ["workers.launcher=none", "workers.outbox=false"],
            "workers.outbox = False is a setting of workers that flowsim starts, "
            "which workers.launcher = none does not read",
        ),
        (
            ["workers.transport=ipc", "workers.bind=localhost:7000"],
            "workers.bind = localhost:7000 is a setting of workers.transport = tcp, "
            "which workers.transport = ipc does not read",
        ),
        (
            ["env=flowsim/CylinderJets-v0", "workers.devices=[0,1]"],
            "workers.devices = [0, 1] assigns GPUs, which env_options.backend = cpu does without",
        ),
        (
            ["run.select_max_actions=9"],
            "run.select_max_actions = 9 limits episodes that choose the final policy, "
            "which run.select_episodes = 0 does without",
        ),
        (
            ["run.evaluate_max_actions=9"],
            "run.evaluate_max_actions = 9 limits episodes of an evaluation, "
            "which run.evaluate_episodes = 0 does without",
        ),
    ],
)
def test_unread_setting_is_named_with_the_one_that_does_not_read_it(words, sentence):
    assert list(unread_settings(load_config(None, ["env=Pendulum-v1", *words]))) == [sentence]


@pytest.mark.parametrize(
    "words",
    [
        ["workers.launcher=ray", "workers.ray.cpus=4", "workers.threads=2"],
        ["workers.launcher=slurm", "workers.slurm.cluster=local", "workers.slurm.cpus=4"],
        ["workers.devices=[0]"],  # Pendulum-v1 could be anybody's environment, on a GPU
        ["env=flowsim/CylinderJets-v0", "env_options.backend=cuda", "workers.devices=[0]"],
        ["run.select_max_actions=9", "run.select_episodes=2"],
        ["run.evaluate_max_actions=9", "run.select_episodes=2"],
        ["run.evaluate_max_actions=9", "run.evaluate_episodes=2"],
        ["workers.ray.cpus=1", "workers.slurm.setup=[]"],  # defaults
    ],
)
def test_read_settings_are_not_named(words):
    assert list(unread_settings(load_config(None, ["env=Pendulum-v1", *words]))) == []


@pytest.mark.parametrize("name", shipped_presets())
def test_every_setting_of_a_shipped_preset_is_read(name):
    assert list(unread_settings(load_config(name))) == []


def warnings_in(stderr):
    return [line for line in stderr.splitlines() if re.match(r"warning: (run|workers)\.", line)]


def test_unread_settings_are_reported_when_a_run_begins_and_when_they_change(shell):
    preset = shell.preset(run={"steps": 300}, workers={"processes": 1, "agents": 2})
    begun = shell.run("train", preset, "workers.ray.cpus=4", "run.select_max_actions=9")
    assert begun.returncode == 0, begun.stderr
    told = warnings_in(begun.stderr)
    assert [line.split(" is ")[0].split(" limits ")[0] for line in told] == [
        "warning: workers.ray.cpus = 4.0",
        "warning: run.select_max_actions = 9",
    ]
    resumed = shell.run("resume", "runs/run", "run.steps=400", "workers.slurm.gpus=1")
    assert resumed.returncode == 0, resumed.stderr
    told = warnings_in(resumed.stderr)
    assert [line.split(" is ")[0] for line in told] == ["warning: workers.slurm.gpus = 1"]
