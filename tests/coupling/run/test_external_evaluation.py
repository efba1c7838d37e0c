"""A trained policy acts for programs outside Python, and the evaluation agrees with what they report."""

import json
import re
import subprocess

import numpy as np
import pytest
from learner_by_hand import GUARD, OPTIONS
from shell import complaint, wait_until
from test_export import trained_policy

from coupling.evaluation.acting import Acting
from coupling.run.folder import RunFolder
from coupling.settings.config import RunConfig, dump_config
from coupling.settings.external import EXTERNAL


def episode_of(acting, agent, rewards, *, terminated):
    """Play an episode of one environment; return its actions."""
    agents, one = np.array([agent]), np.ones((1, 2), np.float32)
    acting.begin(agents, 0.1 * one)
    taken = []
    for step, reward in enumerate(rewards):
        taken.append(float(acting.issue(acting.decide(agents))[0, 0]))
        last = np.array([step == len(rewards) - 1])
        acting.observe(
            agents, np.array([reward]), last & terminated, last & (not terminated), 0.2 * one
        )
    return taken


def test_every_environment_plays_its_share_of_each_controller():
    policy = trained_policy()
    acting = Acting(policy, 2, 3, deterministic=True, seed=5)
    first = policy.act([0.1, 0.1])[0][0]
    # environment 0 has two of the three episodes, environment 1 has one
    assert episode_of(acting, 0, [1.0, 2.0], terminated=True)[0] == pytest.approx(first)
    assert episode_of(acting, 0, [3.0], terminated=False) == pytest.approx([first])
    assert episode_of(acting, 0, [4.0, 5.0], terminated=True) == [0.0, 0.0]  # zero
    assert episode_of(acting, 1, [6.0], terminated=True) == pytest.approx([first])
    assert episode_of(acting, 0, [7.0], terminated=True) == [0.0]
    assert episode_of(acting, 1, [8.0], terminated=True) == [0.0]
    drawn = episode_of(acting, 0, [9.0] * 5, terminated=True)
    assert len(set(drawn)) == 5
    episode_of(acting, 1, [10.0], terminated=False)
    assert not acting.is_over
    episode_of(acting, 0, [11.0], terminated=True)
    assert acting.is_over
    episode_of(acting, 1, [100.0], terminated=True)  # while the others were waited for
    found = acting.evaluations()
    assert found["agent"].returns.tolist() == [3.0, 3.0, 6.0]
    assert found["agent"].summary()["failed"] == found["agent"].summary()["cut"] == 0
    assert acting.longest == 0  # nobody's episode counts any more
    assert found["agent"].lengths.tolist() == [2, 1, 1]
    assert found["agent"].survived.tolist() == [False, True, False]
    assert found["zero"].returns.tolist() == [9.0, 7.0, 8.0]
    assert found["random"].returns.tolist() == [45.0, 11.0, 10.0]


def test_abandoned_episode_is_played_again():
    acting = Acting(trained_policy(), 1, 1, deterministic=True, seed=0)
    agents = np.array([0])
    acting.begin(agents, np.zeros((1, 2), np.float32))
    acting.issue(acting.decide(agents))
    acting.observe(agents, np.array([50.0]), np.zeros(1, bool), np.zeros(1, bool), np.ones((1, 2)))
    assert acting.longest == 1
    acting.abandon(agents)
    assert acting.longest == 0
    for _ in range(3):
        episode_of(acting, 0, [1.0], terminated=True)
    assert acting.evaluations()["agent"].returns.tolist() == [1.0]


def external_run(shell, **workers):
    """Write the folder of an agent for the example in C."""
    folder = RunFolder(shell.folder / "runs" / "balls")
    folder.path.mkdir(parents=True)
    policy = trained_policy()
    policy.save(folder.checkpoint)
    content = {
        "env": EXTERNAL, "env_options": OPTIONS, "agent": policy.config.model_dump(mode="json"),
        "workers": {"launcher": "none", "processes": 2, "agents": 4, "dead_after": 120.0} | workers,
    }  # fmt: skip
    folder.config_file.write_text(dump_config(RunConfig.model_validate(content)))
    return folder


def test_evaluation_equals_what_the_c_programs_report(built, shell):
    folder = external_run(shell)
    evaluation = shell.start("evaluate", "runs/balls", "--episodes", "8", "--json")
    wait_until(folder.connection.exists)
    command = [str(built / "example"), str(folder.connection), "-1", "2"]
    programs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    told = [program.communicate(timeout=2 * GUARD)[0] for program in programs]
    out, err = evaluation.communicate(timeout=GUARD)
    assert evaluation.returncode == 0, err
    assert [program.returncode for program in programs] == [0, 0]
    result = json.loads(out)
    played = {name: [] for name in ("agent", "zero", "random")}
    for text in told:
        of_each = {}
        for number, total in re.findall(r"environment (\d) steps \d+ return (\S+) t", text):
            of_each.setdefault(number, []).append(float(total))
        for returns in of_each.values():
            for name, first in zip(played, (0, 2, 4), strict=True):
                played[name] += returns[first : first + 2]
    assert result["episodes"] == 8
    assert result["mean_return"] == pytest.approx(np.mean(played["agent"]), abs=1e-4)
    for name, baseline in result["baselines"].items():
        assert baseline["mean_return"] == pytest.approx(np.mean(played[name]), abs=1e-4)
    assert not folder.connection.exists()


def test_evaluation_without_workers_ends_after_workers_wait(shell):
    folder = external_run(shell, wait=1.0)
    done = shell.run("evaluate", "runs/balls")
    assert done.returncode == 1
    assert "no worker was connected for workers.wait = 1 s" in done.stderr.splitlines()[-1]
    assert not folder.connection.exists()


def test_fewer_episodes_than_environments_are_refused(shell):
    external_run(shell)
    done = shell.run("evaluate", "runs/balls", "--episodes", "3")
    assert done.returncode == 2
    assert "each plays at least one episode" in complaint(done.stderr)
