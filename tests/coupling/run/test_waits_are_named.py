"""What a run reports: the workers it waits for, its own pauses, and the age of its status."""

import json
import socket
import time

import pytest
import zmq

from coupling.launch import make_launcher
from coupling.run.screen import ConsoleScreen
from coupling.run.status import read_status, write_status
from coupling.run.tables import print_status
from coupling.settings.config import WorkerSettings
from coupling.wire.security import Guard, Keys

GUARD = 120  # seconds, against a hang only


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


class Learner:
    """A ROUTER with its guard that attends only when it is told to."""

    def __init__(self, keys, clock):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.ROUTER)
        self.socket.linger = 0
        self.guard = Guard(self.socket, "tcp://127.0.0.1:*", keys)
        self.endpoint = self.guard.bind(4, clock)

    def attend_until(self, condition):
        until = time.monotonic() + GUARD
        while not condition():
            assert time.monotonic() < until
            self.guard.attend()
            self.socket.poll(5)

    def close(self):
        self.guard.close()
        self.socket.close()
        self.context.term()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def encrypted(clock):
    learner = Learner(Keys.draw(), clock)
    yield learner
    learner.close()


def break_off(learner):
    """Disconnect in the handshake, as a worker does that loses patience with a paused learner."""
    host, _, port = learner.endpoint.removeprefix("tcp://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=GUARD) as peer:
        peer.sendall(b"\xff\0\0\0\0\0\0\0\1\x7f")  # ZMTP's signature
        learner.attend_until(lambda: learner.socket.poll(20) or peer.recv(1))
        peer.shutdown(socket.SHUT_WR)
        refused = learner.guard.refused
        learner.attend_until(lambda: learner.guard.refused > refused)


def test_paused_learner_does_not_blame_its_peers(encrypted, clock):
    clock.now += 7.0
    break_off(encrypted)
    assert (encrypted.guard.refused, encrypted.guard.refusals) == (1, [])
    clock.now += 0.9
    encrypted.guard.attend()  # from here on the learner was never paused
    for _ in range(6):
        clock.now += 0.9
        encrypted.guard.attend()
    break_off(encrypted)
    assert len(encrypted.guard.refusals) == 1


def test_failed_handshake_without_encryption_does_not_mention_encryption(clock):
    learner = Learner(None, clock)
    try:
        break_off(learner)
        assert learner.guard.refusals == [
            "the handshake of a peer failed: it disconnected or took too long"
        ]
    finally:
        learner.close()


@pytest.mark.parametrize(
    ("agents", "said"),
    [
        (4, ("2 environments", '.json", -1, ...)')),
        (5, ("2/3 environments", '.json", N, ...) with N from 0 to 1')),
    ],
)
def test_serve_of_an_external_task_names_the_matching_client(tmp_path, agents, said):
    settings = WorkerSettings(launcher="none", processes=2, agents=agents)
    line = make_launcher(
        settings, tmp_path / "connection.json", tmp_path, external=True
    ).waits_for()
    assert "C, C++, Fortran" in line
    assert "flowsim worker" not in line
    assert all(part in line for part in said)


STATUS = {
    "run": "demo",
    "state": "training",
    "environment_steps": 10,
    "steps_planned": 100,
    "steps_per_second": 5.0,
    "updates_per_second": 1.0,
    "mean_return": None,
    "absent": [],
    "agents": {},
    "workers": [],
    "deaths": [],
    "warnings": [],
}


def shown(tmp_path, capsys, *, age=0.0, **changes):
    """What `flowsim status` prints of a status that was written by this process some time ago."""
    file = tmp_path / "status.json"
    write_status(file, STATUS)
    written = json.loads(file.read_text())
    file.write_text(json.dumps(written | {"written": written["written"] - age} | changes))
    print_status(read_status(file))
    return capsys.readouterr().out


def test_status_shows_its_age_and_what_it_means(tmp_path, capsys):
    assert "no update" not in shown(tmp_path, capsys)
    old = shown(tmp_path, capsys, age=600.0)
    assert "10 min ago" in old
    assert "no update for 10 min: the learner" in old
    assert "the run ended 2 h ago (finished)" not in old
    assert "the run ended 2 h ago (finished)" in shown(
        tmp_path, capsys, age=7205.0, state="finished"
    )
    gone = shown(tmp_path, capsys, age=5.0, pid=2**22 + 1)  # beyond all process ids
    assert "died" in gone
    assert "has died; its last status is" in gone
    elsewhere = shown(tmp_path, capsys, age=5.0, pid=2**22 + 1, host="another-machine")
    assert "died" not in elsewhere  # this cannot be known on this machine


def test_status_shows_warnings_and_absent_workers(tmp_path, capsys):
    warnings = [{"time": time.time(), "text": "worker 3: another process uses its session"}]
    text = shown(tmp_path, capsys, warnings=warnings, absent=[3, 5])
    assert "warning: worker 3: another process uses" in text
    assert "3, 5" in text


@pytest.mark.parametrize(
    ("absent", "state", "said"),
    [
        ([2], "training", "waiting for worker 2"),
        ([0, 1], "training", "waiting for 2 workers"),
        ([0], "finished", ""),
    ],
)
def test_progress_line_says_who_is_waited_for(capsys, absent, state, said):
    ConsoleScreen().progress(STATUS | {"absent": absent, "state": state})
    line = capsys.readouterr().err
    assert ("waiting" in line) == bool(said)
    assert said in line
