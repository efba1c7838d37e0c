"""Training with the C client: its examples are the workers of the real learner."""

import json
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from learner_by_hand import GUARD, HASH, OPTIONS, ended

from coupling.service.experience import ExperienceLog
from coupling.service.server import Server, Terms
from coupling.settings.config import load_config
from coupling.settings.external import EXTERNAL
from coupling.wire import protocol
from coupling.wire.connection import Connection, write_connection
from coupling.worker.environments import describe_task
from coupling.worker.outbox import read_outbox
from rl_agent.config import AgentConfig
from rl_agent.learner import Learner

ROOT = Path(__file__).parents[3]
GOLDEN = json.loads(
    (ROOT / "coupling" / "wire" / "golden_vectors.json").read_text(encoding="utf-8")
)
READ_BY_A_CLIENT = {"WELCOME", "REJECT", "ACTION", "PAUSE", "ERROR", "GOODBYE"}
WRITTEN_BY_A_CLIENT = {"HELLO", "RESET", "STEP", "HEARTBEAT", "ERROR", "GOODBYE"}


class Run:
    """A learner, its service and processes of an example that are its workers."""

    def __init__(self, folder, *, processes, environments, steps, dead_after=600.0):
        self.folder, self.layout, self.steps, self.dead_after = (
            folder,
            [environments] * processes,
            steps,
            dead_after,
        )
        self.file, self.processes = folder / "connection.json", []
        self.begin()

    def begin(self):
        """Start the learner, from nothing or from the log of its predecessor."""
        task = describe_task(EXTERNAL, OPTIONS)
        config = AgentConfig(
            learning_starts=100,
            buffer_size=4096,
            batch_size=16,
            hidden=(8,),
            env_steps_per_gradient_step=2.0,
        )
        spaces = task.observation_space, task.action_space
        self.learner = Learner(config, *spaces, agents=sum(self.layout), seed=1)
        self.log = ExperienceLog(self.folder / "experience")
        low, high = task.action_bounds
        terms = Terms(
            self.layout, 2, low, high, HASH, lambda agent, session: 1000 * session + agent,
            heartbeat=0.1, dead_after=self.dead_after,
        )  # fmt: skip
        self.server = Server(self.learner, "tcp://127.0.0.1:*", terms, self.steps, self.log)
        if self.log.segments():
            self.server.replay(self.log.records_since(0))
        self.log.begin(len(self.log.segments()))
        write_connection(
            self.file, Connection(self.server.endpoint, "run", EXTERNAL, OPTIONS, 600.0)
        )

    def kill_learner(self):
        """End the learner without a GOODBYE, as a kill does."""
        self.server._context.destroy(linger=0)
        self.log.close()

    def start(self, program, *more):
        command = [str(word) for word in (program, self.file, *more)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self.processes.append(subprocess.Popen(command, **pipes))
        return self.processes[-1]

    def turn_until(self, condition):
        until = time.monotonic() + GUARD
        while not condition():
            self.server.turn(0.01)
            for slot, _ in self.server.liveness.lost():
                self.server.liveness.drop(slot)
            assert not self.server.errors
            assert time.monotonic() < until

    def finish(self):
        """Train to the end; return what the processes report, in order."""
        self.turn_until(lambda: self.server.exchange.finished)
        return self.close()

    def close(self):
        self.server.close("the run is finished", patience=GUARD)
        self.log.close()
        results = [ended(process) for process in self.processes]
        assert all(code in (0, -signal.SIGKILL) for code, *_ in results), results
        return [out for _, out, _ in results]


def test_workers_hear_the_goodbye_of_a_learner_that_ends_right_after_a_restart(built, tmp_path):
    run = Run(tmp_path, processes=2, environments=1, steps=100_000)
    for slot in range(2):
        run.start(built / "example", slot, 1)
    run.turn_until(lambda: run.learner.environment_steps >= 100)
    run.kill_learner()
    run.begin()
    run.close()  # before any of them has found it


def reported(outputs, environments):
    """Episodes (agent, length, terminated, return) and the lengths of the open ones, as the examples report them."""
    episodes, running = [], {}
    for slot, out in enumerate(outputs):
        for line in out.splitlines():
            _, environment, _, steps, _, total, how = line.split()
            agent = slot * environments + int(environment)
            if how == "open":
                running[agent] = int(steps)
            else:
                episodes.append((agent, int(steps), how == "terminated", float(total)))
    return np.array(sorted(episodes)), running


def in_the_memory(learner):
    """Episodes (length, terminated, return) that the memory holds, after a check of every single step."""
    storage = learner.memory.storage
    places = storage.indices()
    observation, action = (
        storage.observation[places].astype(float),
        storage.action[places].astype(float),
    )
    final = storage.final_observation[storage.rows(places)].astype(float)
    last = storage.position[places] + 1 == storage.length[storage.rows(places)]
    following = np.where(last[:, None], final, np.roll(observation, -1, axis=0))
    applied = np.clip(action[:, 0], -1.0, 1.0)
    v = observation[:, 1] + 0.05 * (observation[:, 0] - 0.1 * observation[:, 1] + 2 * applied)
    x = observation[:, 0] + 0.05 * v
    np.testing.assert_allclose(following, np.stack([x, v], axis=1), atol=1e-5)
    np.testing.assert_allclose(storage.reward[places], 1 - x**2, atol=1e-5)
    rows = np.arange(storage.first_id, storage.next_id) % len(storage.start)
    places = [
        (storage.start[row] + np.arange(storage.length[row])) % storage.capacity for row in rows
    ]
    totals = [storage.reward[each].astype(float).sum() for each in places]
    return np.array(
        sorted(zip(storage.length[rows], storage.terminated[rows], totals, strict=True))
    )


@pytest.mark.parametrize("learners", [1, 4])
@pytest.mark.parametrize("language", ["c", "fortran"])
def test_the_memory_holds_exactly_what_the_example_reports(built, tmp_path, language, learners):
    program = built / {"c": "example", "fortran": "example_fortran"}[language]
    if language == "fortran" and not shutil.which("gfortran"):
        pytest.skip("no gfortran")
    run = Run(tmp_path, processes=2, environments=3, steps=1500)
    for slot in range(2):
        run.start(program, slot, 3)
    for life in range(1, learners):
        run.turn_until(lambda life=life: run.learner.environment_steps >= 300 * life)
        run.kill_learner()
        run.begin()
    outputs = run.finish()
    learner = run.learner
    episodes, running = reported(outputs, 3)
    assert len(episodes) > 5
    ends = sorted(
        (e.agent, e.length, e.terminated, e.episode_return) for e in learner.finished_episodes()
    )
    np.testing.assert_allclose(np.array(ends), episodes, atol=1e-4)
    np.testing.assert_allclose(in_the_memory(learner), sorted(episodes[:, 1:].tolist()), atol=1e-4)
    assert learner.collector.open_episodes.length.tolist() == [running[agent] for agent in range(6)]
    assert learner.memory.storage.steps + sum(running.values()) == learner.environment_steps >= 1500
    assert learner.gradient_steps > 300
    assert run.server.counts.violations == 0


def test_the_example_of_the_docs_trains(built, tmp_path):
    text = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
    blocks = dict(re.findall(r"```(c|yaml)\n(.*?)```", text, re.DOTALL))
    (tmp_path / "balls.yaml").write_text(blocks["yaml"])
    # as flowsim serve does
    config = load_config(str(tmp_path / "balls.yaml"), ["workers.launcher=none"])
    assert (config.env, config.env_options) == (EXTERNAL, OPTIONS | {"episode_steps": 50})
    (tmp_path / "solver.c").write_text(blocks["c"])
    (command,) = re.findall(r"^gcc solver.c .*", text, re.MULTILINE)
    words = command.replace("solver.c", str(tmp_path / "solver.c")).split()
    done = subprocess.run(
        [*words[:-1], str(tmp_path / "solver"), "-Wall", "-Wextra", "-Werror"], cwd=ROOT
    )
    assert done.returncode == 0
    agents = config.workers.agents_of_each()
    (environments,) = set(agents)
    run = Run(tmp_path, processes=len(agents), environments=environments, steps=1600)
    for _ in agents:
        run.start(tmp_path / "solver")
    assert run.finish() == [""] * len(agents)
    storage, places = run.learner.memory.storage, run.learner.memory.storage.indices()
    lengths = storage.length[: storage.episodes].tolist()
    assert lengths == [50] * len(lengths)
    assert 20 < len(lengths) <= 32  # the last episode of each agent may be under way
    assert not storage.terminated.any()
    x, v = storage.observation[places].T.astype(float)
    v_next = v + 0.1 * (np.clip(storage.action[places, 0], -1, 1) - x)
    np.testing.assert_allclose(
        storage.reward[places], -((x + 0.1 * v_next) ** 2) - v_next**2, atol=1e-5
    )


def test_killed_process_loses_and_duplicates_no_steps(built, tmp_path):
    run = Run(tmp_path, processes=1, environments=3, steps=900, dead_after=1.0)
    learner, sent = run.learner, 0
    for planned in (300, 600, None):
        process = run.start(built / "example", 0, 3, tmp_path / "outbox")
        if planned is None:
            break
        run.turn_until(lambda planned=planned: learner.environment_steps >= planned)
        # nobody answers: usually it has sent its message by now, but the test must pass at any moment
        time.sleep(0.2)
        process.kill()
        process.wait()
        sent += 3 * (protocol.decode(read_outbox(tmp_path / "outbox"))[0].sequence - 1)
        run.turn_until(lambda: not run.server.liveness.connected(0))
    outputs = run.finish()
    of_the_last, running = reported(outputs[-1:], 3)
    sent += int(of_the_last[:, 1].sum()) + sum(running.values())
    assert learner.environment_steps == sent == learner.memory.storage.steps + sum(running.values())
    told = np.concatenate([reported([out], 3)[0] for out in outputs])[:, 1:]
    kept = in_the_memory(learner)
    left = [
        episode for episode in kept if not np.isclose(episode, told, atol=1e-4).all(axis=1).any()
    ]
    assert len(kept) - len(told) == len(left) <= 6  # what the killed processes left open
    assert not any(terminated for _, terminated, _ in left)
