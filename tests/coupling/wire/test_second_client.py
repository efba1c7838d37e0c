"""A client that was written from PROTOCOL.md alone: the golden vectors, and real learners.

All tests of this client are in one file, like those of the client in C.
"""

import ast
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import second_client
import zmq
from audit import audit
from proxy import TcpProxy
from shell import HERE, ROOT, wait_until

from coupling.service.experience import ExperienceLog
from coupling.service.server import Server, Terms
from coupling.settings.config import AgentConfig
from coupling.wire import protocol
from coupling.wire.connection import Connection, task_hash, write_connection
from coupling.wire.protocol import Header, Kind
from coupling.wire.security import Keys
from rl_agent.learner import Learner

GOLDEN = json.loads(
    (ROOT / "coupling" / "wire" / "golden_vectors.json").read_text(encoding="utf-8")
)
GUARD = 120.0  # seconds
SPACES = (
    gym.spaces.Box(-np.inf, np.inf, (4,), np.float32),
    gym.spaces.Box(-1.0, 1.0, (2,), np.float32),
)


def test_second_client_imports_nothing_of_flowsim():
    tree = ast.parse((HERE / "second_client.py").read_text())
    named = [node.names for node in ast.walk(tree) if isinstance(node, ast.Import)]
    imported = {alias.name for names in named for alias in names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    tops = {name.partition(".")[0] for name in imported}
    assert {name for name in tops if name not in sys.stdlib_module_names} == {"msgpack", "zmq"}


# --- the frames that all clients share ----------------------------------------------------------------------


def entries(part):
    return [pytest.param(entry, id=entry["name"]) for entry in GOLDEN[part]]


def read(frame):
    """Read a whole frame as the vectors tell its body."""
    kind, header, body = second_client.read(frame)
    count, size = header["environments"], GOLDEN["observation_size"]
    if kind == "STEP":
        step = second_client.read_step(body, count, size)
        return (
            kind,
            header,
            dict(zip(("rewards", "observations", "final", "status"), step, strict=True)),
        )
    if kind == "RESET":
        return kind, header, {"observations": second_client.unpack(body, count, size)}
    if kind == "ACTION":
        return kind, header, {"actions": second_client.unpack(body, count, GOLDEN["action_size"])}
    return kind, header, second_client.read_map(kind, body)


def content(vector):
    return {
        key: bytes.fromhex(value[4:])
        if isinstance(value, str) and value.startswith("hex:")
        else value
        for key, value in vector["body"].items()
    }


@pytest.mark.parametrize("vector", entries("vectors"))
def test_golden_frame_is_decoded(vector):
    kind, header, body = read(bytes.fromhex(vector["hex"]))
    assert (kind, header) == (vector["type"], vector["header"])
    left_out = {key: value for key, value in second_client.MAY_BE_LEFT_OUT.items() if key in body}
    assert body == left_out | content(vector)


@pytest.mark.parametrize(
    "vector", [entry for entry in entries("vectors") if entry.values[0]["canonical"]]
)
def test_golden_frame_is_encoded_exactly(vector):
    kind, body = vector["type"], content(vector)
    if kind == "STEP":
        packed = second_client.write_step(
            body["rewards"], body["observations"], body["final"], body["status"]
        )
    elif kind in ("RESET", "ACTION"):
        packed = second_client.pack("f", next(iter(body.values())))
    else:
        packed = second_client.write_map(kind, body)
    assert second_client.write(kind, packed, **vector["header"]).hex() == vector["hex"]


@pytest.mark.parametrize("entry", entries("malformed"))
def test_a_malformed_frame_is_refused(entry):
    with pytest.raises(second_client.RefusedError):
        read(bytes.fromhex(entry["hex"]))


# --- a real learner -------------------------------------------------------------------------------------------


class Run:
    """A learner with its server, served by hand, and processes of the second client that are its workers."""

    def __init__(self, folder: Path, *, steps=1500, keys=None):
        self.folder, self.layout, self.steps, self.keys = folder, [3, 3], steps, keys
        self.file, self.journal, self.processes = folder / "connection.json", folder / "journal", []
        self.journal.mkdir()
        self.proxy = None
        self.begin()

    def begin(self):
        """Start the learner, from nothing or from the log of its predecessor."""
        config = AgentConfig(
            learning_starts=200,
            buffer_size=2**15,
            batch_size=16,
            hidden=(8,),
            env_steps_per_gradient_step=2.0,
        )
        self.learner = Learner(config, *SPACES, agents=sum(self.layout), seed=1)
        self.log = ExperienceLog(self.folder / "experience")
        terms = Terms(
            self.layout,
            observation_size=4,
            action_low=[-1.0] * 2,
            action_high=[1.0] * 2,
            task_hash=task_hash("the oracle", {}),
            seed_of=lambda agent, number: 100 * number + agent,
            heartbeat=0.1,
            dead_after=600.0,
        )
        self.server = Server(
            self.learner, "tcp://127.0.0.1:*", terms, self.steps, self.log, self.keys
        )
        if self.log.segments():
            self.server.replay(self.log.records_since(0))
        self.log.begin(len(self.log.segments()))
        self.invite(self.server.endpoint)

    @property
    def address(self):
        return "127.0.0.1", int(self.server.endpoint.rpartition(":")[2])

    def invite(self, endpoint, **changed):
        """Write the connection file."""
        if self.proxy:
            endpoint = f"tcp://127.0.0.1:{self.proxy.port}"
        pair = self.keys.for_workers() if self.keys else {}
        given = {
            "endpoint": endpoint,
            "run": "run",
            "env": "the oracle",
            "env_options": {},
            "patience": 60.0,
        }
        write_connection(self.file, Connection(**given, environments=self.layout, **pair | changed))

    def kill_learner(self):
        """End the learner without a GOODBYE, as a kill does."""
        self.server._context.destroy(linger=0)
        self.log.close()

    def start(self, slot, outbox=None, minor=0):
        words = [
            self.file,
            slot,
            self.layout[0],
            self.folder / f"outbox-{outbox or slot}",
            self.journal,
            minor,
        ]
        process = subprocess.Popen(
            [sys.executable, HERE / "second_client.py", *map(str, words)],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def turn_until(self, condition):
        until = time.monotonic() + GUARD
        while not condition():
            self.server.turn(0.01)
            assert time.monotonic() < until, [process.poll() for process in self.processes]

    def stepped(self):
        """Return the names of the processes that stepped."""
        journals = [file for file in self.journal.iterdir() if file.stat().st_size]
        return {file.name.partition("-")[0] for file in journals}

    def finish(self):
        """Train to the end, and return what the processes said and the audit; they end by themselves."""
        self.turn_until(lambda: self.server.exchange.finished)
        self.server.close("the run is finished", patience=GUARD)
        self.log.close()
        said = [process.communicate(timeout=GUARD)[0] for process in self.processes]
        assert [
            process.returncode for process in self.processes if process.returncode not in (0, -9)
        ] == [], said
        return said, audit(self.learner, self.journal, None)

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.communicate()
        if self.proxy:
            self.proxy.close()
        self.server._context.destroy(linger=0)


@pytest.fixture
def lay(tmp_path):
    runs = []

    def lay(**settings):
        runs.append(Run(tmp_path, **settings))
        return runs[-1]

    yield lay
    for run in runs:
        run.close()


def assert_clean(report, processes=2):
    assert report.is_clean, report
    assert not report.without_outbox, report
    assert report.returned == report.held >= 1400
    assert report.processes == processes


@pytest.mark.slow
@pytest.mark.parametrize("encrypted", [False, True])
def test_killed_and_resumed_learner_loses_nothing(lay, encrypted):
    run = lay(keys=Keys.draw() if encrypted else None)
    for outbox in "ab":
        run.start("any", outbox)
    for life in (1, 2):
        run.turn_until(lambda life=life: run.learner.environment_steps >= 400 * life)
        run.kill_learner()
        run.begin()
    said, report = run.finish()
    assert_clean(report)
    assert [each.splitlines()[-1] for each in said] == ["the run is finished"] * 2


def test_workers_of_versions_1_0_and_1_1_serve_the_same_run(lay):
    """Both lose their learner, and the one of 1.1 is killed; its successor is of 1.0."""
    run = lay()
    run.start("0")
    newer = run.start("1", minor=1)
    run.turn_until(
        lambda: run.learner.environment_steps >= 300 and run.server.exchange.agent_steps.all()
    )
    spoken = {entry.slot: entry.minor for entry in run.server.exchange.ledger}
    assert spoken == {0: 0, 1: 1}
    run.kill_learner()
    run.begin()
    run.turn_until(lambda: run.learner.environment_steps >= 600)
    newer.send_signal(signal.SIGKILL)
    newer.wait()
    run.start("1")
    run.turn_until(lambda: len(run.stepped()) == 3)
    _, report = run.finish()
    assert report.is_clean, report
    assert len(report.without_outbox) <= report.environments
    assert report.processes == 3


def test_cut_connections_lose_nothing(lay):
    run = lay()
    run.proxy = TcpProxy(lambda: run.address, seed=1)
    run.invite(run.server.endpoint)
    for slot in "01":
        run.start(slot)
    for part in range(1, 7):
        run.turn_until(lambda part=part: run.learner.environment_steps >= 200 * part)
        run.proxy.cut()
        run.proxy.swallow(0.3)
    _, report = run.finish()
    assert_clean(report)
    assert run.proxy.counts["cuts"] > 0


def test_process_killed_while_waiting_loses_nothing(lay):
    """Its last message is stored once, from itself or from its successor's HELLO."""
    run = lay()
    first, second = run.start("0"), run.start("1")
    run.turn_until(
        lambda: run.learner.environment_steps >= 300 and run.server.exchange.agent_steps.all()
    )
    sizes = lambda: [file.stat().st_size for file in sorted(run.journal.iterdir())]  # noqa: E731
    quiet = [sizes()]
    # nobody is served
    wait_until(lambda: quiet.append(sizes()) or (len(quiet) > 20 and quiet[-20] == quiet[-1]))
    first.send_signal(signal.SIGKILL)
    first.wait()
    second.send_signal(signal.SIGSTOP)  # it would finish the run before the successor is there
    run.start("0")
    run.turn_until(lambda: len(run.stepped()) == 3)
    second.send_signal(signal.SIGCONT)
    _, report = run.finish()
    assert_clean(report, processes=3)


# --- a scripted learner ------------------------------------------------------------------------------------------


class ManualLauncher:
    """A ROUTER that says what a learner may say."""

    def __init__(self, folder):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.ROUTER)
        self.socket.linger = 1000
        self.socket.bind("tcp://127.0.0.1:*")
        file = folder / "connection.json"
        endpoint = self.socket.get_string(zmq.LAST_ENDPOINT)
        write_connection(file, Connection(endpoint, "run", "env", {}, 60.0, [1]))
        words = [file, "0", "1", folder / "outbox", folder]
        command = [sys.executable, HERE / "second_client.py", *map(str, words)]
        self.client = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def hear(self, *kinds):
        """Return route, header and body of the next message of these kinds; the client's heart is not answered."""
        until = time.monotonic() + GUARD
        while time.monotonic() < until:
            if self.socket.poll(100):
                route, frame = self.socket.recv_multipart()
                header, body = protocol.decode(frame)
                if header.kind in kinds:
                    return route, header, body
        raise AssertionError("the client was silent")

    def welcome(self):
        route, *_ = self.hear(Kind.HELLO)
        self.say(route, protocol.Pause("the place is kept"))
        assert self.client.stdout.readline() == "PAUSE 0\n"
        route, header, body = self.hear(Kind.HELLO)
        hello = protocol.decode_control(header, body)
        self.say(route, protocol.Welcome(1, 7, 0, 0, [5], 0.2, 60.0), session=7)
        return hello

    def say(self, route, message, **ids):
        self.socket.send_multipart((route, protocol.encode_control(message, **ids)))

    def act(self, route, sequence):
        header = Header(
            Kind.ACTION, session=7, sequence=sequence, acknowledgement=sequence, environments=1
        )
        self.socket.send_multipart(
            (route, protocol.encode(header, np.zeros((1, 2), "<f4").tobytes()))
        )

    def ended(self):
        said, _ = self.client.communicate(timeout=GUARD)
        return self.client.returncode, said.splitlines()[-1]

    def close(self):
        if self.client.poll() is None:
            self.client.kill()
            self.client.communicate()
        self.socket.close(0)
        self.context.term()


@pytest.fixture
def by_hand(tmp_path):
    learner = ManualLauncher(tmp_path)
    yield learner
    learner.close()


def test_message_is_resent_unchanged_and_a_pause_prolongs_the_wait(by_hand):
    hello = by_hand.welcome()
    assert (hello.slot, hello.action_high) == (0, [1.0, 1.0])
    _, header, body = by_hand.hear(Kind.RESET)
    route, again, same = by_hand.hear(Kind.RESET)  # nobody has answered
    assert (again, same) == (header, body)
    by_hand.say(route, protocol.Pause("learning must catch up"), session=7, acknowledgement=1)
    assert by_hand.client.stdout.readline() == "PAUSE 1\n"
    by_hand.act(route, 1)
    route, header, _ = by_hand.hear(Kind.STEP)
    assert header.sequence == 2
    by_hand.act(route, 1)  # it comes again, late
    by_hand.say(route, protocol.Error("about a late copy"), session=7, sequence=1)
    by_hand.say(route, protocol.Pause("late, too"), session=7, acknowledgement=1)
    by_hand.act(route, 2)
    _, header, _ = by_hand.hear(Kind.STEP)
    assert header.sequence == 3


@pytest.mark.parametrize(
    "message", [protocol.Error("no"), protocol.Reject("no"), protocol.Goodbye("no")]
)
def test_client_ends_when_told_to(by_hand, message):
    by_hand.welcome()
    route, _, _ = by_hand.hear(Kind.RESET)
    by_hand.say(route, message)
    if isinstance(message, protocol.Error):
        _, header, body = by_hand.hear(Kind.ERROR)
        assert (header.session, protocol.decode_control(header, body)) == (7, message)
    code, said = by_hand.ended()
    assert code == (0 if isinstance(message, protocol.Goodbye) else 1)
    assert said.endswith("no")


def test_keys_readable_by_others_are_refused(lay):
    run = lay(keys=Keys.draw())
    os.chmod(run.file, 0o640)
    process = run.start("0")
    said, _ = process.communicate(timeout=GUARD)
    assert (process.returncode, "others may read" in said) == (1, True)


def test_hello_of_another_task_is_rejected_by_a_real_learner(lay):
    run = lay()
    run.invite(run.server.endpoint, task_hash="another")
    process = run.start("0")
    run.turn_until(lambda: process.poll() is not None)
    said, _ = process.communicate()
    assert process.returncode == 1
    assert said.startswith("REJECT: it hosts another task")


def test_step_out_of_sequence_is_an_error_of_a_real_learner(lay):
    """The peer that sent it is ignored; the session continues over another connection."""
    run = lay()
    run.start("0")
    run.start("1")
    run.turn_until(lambda: run.learner.environment_steps >= 100)
    number = run.server.exchange.notes()["ledger"]["entries"][0]["session"]
    with zmq.Context() as context, context.socket(zmq.DEALER) as forger:
        forger.linger = 0
        forger.connect(run.server.endpoint)
        order = {"session": number, "sequence": 10**6, "environments": 3}
        forger.send(second_client.write("STEP", bytes(3 * 25), **order))
        run.turn_until(lambda: forger.poll(0))
        kind, header, _ = second_client.read(forger.recv())
        assert (kind, header["session"], header["sequence"]) == ("ERROR", number, 10**6)
        forger.send(second_client.write("STATUS", second_client.write_map("STATUS", {})))
        run.turn_until(lambda: run.server.counts.unheard == 1)
    _, report = run.finish()
    assert_clean(report)
