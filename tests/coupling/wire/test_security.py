"""Which peers the learner's socket accepts or refuses, and the messages on both sides, over real sockets.

Scripted peers and the real server and workers are checked for the same messages, so they share one file.
"""

import contextlib
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import psutil
import pytest
import zmq
from shell import GUARD, ROOT, wait_until, workers_of

from coupling.errors import ConfigError
from coupling.launch.failure_window import FailureWindow
from coupling.service.experience import ExperienceLog
from coupling.service.server import Server, Terms
from coupling.settings.config import load_config
from coupling.wire.connection import Connection, read_connection, task_hash, write_connection
from coupling.wire.protocol import MAGIC, Kind, Status, decode, encode_control
from coupling.wire.security import Guard, Keys, RefusedError, Watch, is_loopback, secure_client
from coupling.worker.connection import LearnerConnection
from rl_agent.rollout.open_episodes import Decision


class Learner:
    """A ROUTER with its guard, served by hand."""

    def __init__(self, keys, endpoint="tcp://127.0.0.1:*"):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.ROUTER)
        self.socket.linger = 0
        self.guard = Guard(self.socket, endpoint, keys)
        self.socket.bind(endpoint)
        self.endpoint = self.socket.get_string(zmq.LAST_ENDPOINT)
        self.heard = []

    def turn(self):
        self.guard.attend()
        while self.socket.poll(5):
            self.heard.append(self.socket.recv_multipart()[1])

    def close(self):
        self.guard.close()
        self.socket.close()
        self.context.term()


class Peer:
    """A monitored DEALER that sends one word."""

    def __init__(self, endpoint, keys=None):
        self.connection = Connection(endpoint, "run", "env", {}, 600.0, **keys_of(keys))
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.linger = 0
        secure_client(self.socket, self.connection)
        self.watch = Watch(self.socket, self.connection)
        self.socket.connect(endpoint)
        self.socket.send(b"word")

    def close(self):
        self.watch.close()
        self.socket.close()
        self.context.term()


def keys_of(keys):
    return keys.for_workers() if keys else {}


def until(condition, learner, watch=None, seconds=GUARD):
    """Serve until the condition holds."""
    end = time.monotonic() + seconds
    while not (answer := condition()):
        learner.turn()
        if watch:
            watch.poll(5)
        assert time.monotonic() < end, f"waited {seconds} s in vain"
    return answer


@pytest.fixture
def make():
    made = []

    def add(kind, *arguments):
        made.append(kind(*arguments))
        return made[-1]

    yield add
    for thing in reversed(made):
        thing.close()


@pytest.mark.parametrize("keys", [None, Keys.draw()], ids=["null", "curve"])
def test_peer_with_the_keys_of_the_file_is_accepted(make, keys):
    learner = make(Learner, keys)
    peer = make(Peer, learner.endpoint, keys)
    until(lambda: learner.heard, learner, peer.watch)
    assert learner.heard == [b"word"]
    assert (learner.guard.refused, learner.guard.refusals) == (0, [])


def test_unknown_key_is_refused_and_reported_on_both_sides(make):
    keys, other = Keys.draw(), Keys.draw()
    stranger = Keys(keys.server_public, "", other.worker_public, other.worker_secret)
    learner = make(Learner, keys)
    peer = make(Peer, learner.endpoint, stranger)
    with pytest.raises(RefusedError, match=r"refused this worker's key.*connection file"):
        until(lambda: learner.heard, learner, peer.watch)
    until(lambda: learner.guard.refused, learner)
    assert learner.guard.refusals == [
        "a peer at 127.0.0.1 with an unknown key was refused; workers need the connection file of the run's "
        "current start"
    ]
    assert not learner.heard


@pytest.mark.parametrize("learner_encrypts", [True, False])
def test_encryption_on_one_side_only_is_reported_on_both(make, learner_encrypts):
    keys = Keys.draw()
    learner = make(Learner, keys if learner_encrypts else None)
    peer = make(Peer, learner.endpoint, None if learner_encrypts else keys)
    with pytest.raises(RefusedError, match="encryption"):
        until(lambda: learner.heard, learner, peer.watch)
    until(lambda: learner.guard.refusals, learner)
    assert "the handshake of a peer failed" in learner.guard.refusals[0]
    assert not learner.heard


def test_connection_file_of_another_learner_is_reported_on_both_sides(make):
    keys, other = Keys.draw(), Keys.draw()
    learner = make(Learner, keys)
    peer = make(
        Peer,
        learner.endpoint,
        Keys(other.server_public, "", keys.worker_public, keys.worker_secret),
    )
    with pytest.raises(RefusedError, match="differs from that of the connection file"):
        until(lambda: learner.heard, learner, peer.watch)
    assert "expects another learner" in learner.guard.refusals[0]


def test_worker_waits_for_a_learner_that_is_not_up_yet(make):
    """Neither a closed port nor one that takes connections and drops them, as a tunnel does, is a refusal."""
    keys = Keys.draw()
    with socket.create_server(("127.0.0.1", 0)) as tunnel:
        endpoint = f"tcp://127.0.0.1:{tunnel.getsockname()[1]}"
        peer = make(Peer, endpoint, keys)
        tunnel.settimeout(0.01)
        dropped, end = 0, time.monotonic() + GUARD
        while dropped < 12 and time.monotonic() < end:
            try:
                tunnel.accept()[0].close()
                dropped += 1
            except TimeoutError:
                assert not peer.watch.poll(5)
        assert dropped == 12
    assert not peer.watch.poll(500)
    learner = make(Learner, keys, endpoint)
    until(lambda: learner.heard, learner, peer.watch)


def test_no_peer_is_accepted_without_key_authentication(make):
    """libzmq lets any key in where nobody answers, unless it is told to enforce the domain."""
    keys = Keys.draw()
    learner = make(Learner, keys)
    learner.guard._zap.close(linger=0)
    make(Peer, learner.endpoint, keys)
    assert not learner.socket.poll(1000)


def test_all_refusals_are_counted_and_at_most_64_kept(make):
    learner = make(Learner, None)
    for number in range(1000):
        learner.guard._tell(f"peer {number}")
    assert len(learner.guard.refusals) == 64


@pytest.mark.parametrize(
    ("endpoint", "answer"),
    [
        ("tcp://127.0.0.1:*", True),
        ("tcp://127.8.9.1:5555", True),
        ("tcp://[::1]:5555", True),
        ("tcp://localhost:*", True),
        ("ipc://*", True),
        ("ipc:///tmp/x", True),
        ("inproc://x", True),
        ("tcp://0.0.0.0:5555", False),
        ("tcp://*:5555", False),
        ("tcp://[::]:5555", False),
        ("tcp://10.0.0.1:5555", False),
        ("tcp://node7:5555", False),
        ("tcp://localhost.example.org:5555", False),
        ("tcp://127.0.0.1.example.org:5555", False),
        ("tcp://eth0:5555", False),
        ("udp://127.0.0.1:5555", False),
        ("", False),
    ],
)
def test_is_loopback(endpoint, answer):
    assert is_loopback(endpoint) is answer


def test_other_addresses_are_not_bound_without_keys():
    refused = pytest.raises(
        ConfigError, match=r"tcp://0\.0\.0\.0:\* can be reached from other machines"
    )
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router, refused:
        Guard(router, "tcp://0.0.0.0:*", None)


def test_connection_file_with_keys_must_be_private(tmp_path):
    path = tmp_path / "connection.json"
    connection = Connection("tcp://10.0.0.1:1", "run", "env", {}, 1.0, **keys_of(Keys.draw()))
    write_connection(path, connection)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_connection(path) == connection
    for mode in (0o640, 0o604, 0o620):
        path.chmod(mode)
        with pytest.raises(ValueError, match=r"other users may read it .* chmod 600"):
            read_connection(path)
    write_connection(path, Connection("tcp://127.0.0.1:1", "run", "env", {}, 1.0))
    path.chmod(0o644)
    assert read_connection(path).secret_key == ""  # nothing to hide


@pytest.mark.parametrize("key", ["", "short", "~" * 40, "#" * 40, "é" * 40])
def test_connection_file_with_a_broken_key_is_refused(tmp_path, key):
    path = tmp_path / "connection.json"
    keys = keys_of(Keys.draw()) | {"secret_key": key}
    write_connection(path, Connection("tcp://10.0.0.1:1", "run", "env", {}, 1.0, **keys))
    with pytest.raises(ValueError, match="is not a connection file: its three keys"):
        read_connection(path)


def test_secrets_are_not_in_reprs():
    keys = Keys.draw()
    connection = Connection("tcp://10.0.0.1:1", "run", "env", {}, 1.0, **keys_of(keys))
    for text in (repr(keys), repr(connection), str(connection)):
        assert keys.worker_secret not in text
        assert keys.server_secret not in text


# --- a real server and real workers -----------------------------------------------------------------------


class Recorder:
    """A learner that keeps what it is told and answers zeros."""

    def __init__(self):
        self.environment_steps = self.gradient_steps = 0
        self.observations = []

    def begin(self, agents, observations):
        self.observations += list(observations)

    def decide(self, agents):
        zeros = np.zeros((len(agents), 1), np.float32)
        return Decision(agents, zeros, zeros, zeros, zeros[:, 0], zeros[:, :0], zeros, {})

    def issue(self, decision):
        return decision.action

    def observe(self, agents, rewards, terminated, truncated, observations):
        self.environment_steps += len(agents)
        self.observations += list(observations)

    def abandon(self, agents):
        pass

    def updates_due(self):
        return 0

    def learnable(self, observations):
        return np.ones(len(observations), bool)

    def may_act(self):
        return True


class Service:
    """A real server of two Pendulums, served by a thread of its own."""

    def __init__(self, folder, keys, endpoint="tcp://127.0.0.1:*"):
        self.learner, self.file = Recorder(), folder / "connection.json"
        log = ExperienceLog(folder / "experience")
        log.begin(0)
        terms = Terms(
            [2], 3, [-2.0], [2.0], task_hash("Pendulum-v1", {}), lambda agent, session: agent
        )
        self.server = Server(self.learner, endpoint, terms, 2**62, log, keys)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        while not self._over.is_set():
            self.server.turn(0.01)

    def invite(self, keys, endpoint=None, name="connection.json"):
        """Write the connection file."""
        self.file = self.file.with_name(name)
        endpoint = endpoint or self.server.endpoint
        write_connection(
            self.file, Connection(endpoint, "run", "Pendulum-v1", {}, 60.0, **keys_of(keys))
        )
        return self.file

    def close(self):
        if not self._over.is_set():
            self._over.set()
            self._thread.join()
            self.server.close("over")


def start_worker(file):
    command = [
        sys.executable,
        "-m",
        "coupling.worker",
        "--connect",
        str(file),
        "--slot",
        "0",
        "--environments",
        "2",
    ]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)


@contextlib.contextmanager
def eavesdropper(endpoint):
    """A proxy on the way to a TCP endpoint that keeps all bytes; yields its own endpoint and the bytes."""
    heard, ends = bytearray(), []
    host, port = endpoint.removeprefix("tcp://").split(":")
    listener = socket.create_server(("127.0.0.1", 0))

    def forward(source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                heard.extend(data)
                target.sendall(data)

    def accept():
        with contextlib.suppress(OSError):
            while True:
                near = listener.accept()[0]
                far = socket.create_connection((host, int(port)))
                ends.extend((near, far))
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=forward, args=pair, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield f"tcp://127.0.0.1:{listener.getsockname()[1]}", heard
    for end in (listener, *ends):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


@pytest.mark.parametrize("encrypted", [False, True])
def test_eavesdropper_reads_traffic_only_without_encryption(make, tmp_path, encrypted):
    keys = Keys.draw() if encrypted else None
    service = make(Service, tmp_path, keys)
    with eavesdropper(service.server.endpoint) as (endpoint, heard):
        worker = start_worker(service.invite(keys, endpoint))
        try:
            wait_until(lambda: service.learner.environment_steps >= 200)
            service.close()
            assert worker.wait(GUARD) == 0, worker.stderr.read()
        finally:
            worker.kill()
            worker.communicate()
        observations = [row.astype("<f4").tobytes() for row in service.learner.observations]
        assert len(heard) > sum(map(len, observations))
        assert (MAGIC in heard) is not encrypted
        assert any(row in heard for row in observations) is not encrypted
        assert b"Pendulum-v1" not in heard


def test_worker_with_an_unknown_key_is_refused_and_counted_by_the_learner(make, tmp_path):
    keys, other = Keys.draw(), Keys.draw()
    stranger = Keys(keys.server_public, "", other.worker_public, other.worker_secret)
    service = make(Service, tmp_path, keys)
    worker = start_worker(service.invite(stranger))
    _, said = worker.communicate(timeout=GUARD)
    assert worker.returncode == 1
    assert said == (
        f"worker 0: the learner at {service.server.endpoint} refused this worker's key; "
        "use the connection file of the run's present start\n"
    )
    assert "a peer at 127.0.0.1 with an unknown key" in service.server.refusals[0]
    assert service.server.refused == 1
    assert service.server.counts.violations == 0  # nothing of it came to the decoder


@pytest.mark.parametrize(
    "case", ["unknown key", "null at curve", "curve at null", "another server"]
)
def test_refusal_is_noticed_after_a_few_handshakes(make, tmp_path, case):
    keys, other = Keys.draw(), Keys.draw()
    service = make(Service, tmp_path, None if case == "curve at null" else keys)
    presented = {
        "unknown key": Keys(keys.server_public, "", other.worker_public, other.worker_secret),
        "null at curve": None,
        "curve at null": keys,
        "another server": Keys(other.server_public, "", keys.worker_public, keys.worker_secret),
    }[case]
    context = zmq.Context()
    line = LearnerConnection(context, service.invite(presented), look_again=0.0)
    with pytest.raises(RefusedError, match="connection file"):
        line.receive(GUARD)
    refused = service.server.refused  # by now: the line goes on to connect again
    wait_until(lambda: service.server.refusals)
    # 0.1 s lies between the first two, and at most twice as much after each
    assert refused <= 5
    line.close()
    context.term()


def is_answered_at_last(line):
    """Ask for the status until the learner answers; what was sent before a reconnection is lost."""

    def answered():
        line.send(encode_control(Status()))
        return line.receive(0.5)

    wait_until(answered)


def test_refused_worker_rereads_the_connection_file(make, tmp_path):
    """A learner that was started again at the same port has new keys."""
    old, new = Keys.draw(), Keys.draw()
    service = make(Service, tmp_path, new)
    context = zmq.Context()
    line = LearnerConnection(context, service.invite(old), look_again=GUARD)
    threading.Timer(0.5, lambda: service.invite(new)).start()
    is_answered_at_last(line)
    line.close()
    context.term()


def test_connections_closed_during_a_refusal_do_not_block_others(make, tmp_path):
    """libzmq's thread once waited forever to report a handshake to a monitor that was gone."""
    service = make(Service, tmp_path, keys := Keys.draw())
    wrong, right = service.invite(Keys.draw(), name="wrong.json"), service.invite(keys)
    context, pauses = zmq.Context(), np.random.default_rng(0).uniform(0.1, 0.11, 20)
    for pause in pauses:  # the next handshake begins a tenth of a second after one that failed
        line = LearnerConnection(context, wrong, look_again=0.0)
        with pytest.raises(RefusedError):
            line.receive(GUARD)
        time.sleep(pause)
        line.close()
    line = LearnerConnection(context, right)
    is_answered_at_last(line)
    line.close()
    context.term()


def test_server_without_keys_binds_only_to_this_machine(make, tmp_path):
    with pytest.raises(ConfigError, match="can be reached from other machines"):
        make(Service, tmp_path, None, "tcp://0.0.0.0:*")
    service = make(Service, tmp_path, Keys.draw(), "tcp://0.0.0.0:*")
    assert service.server.endpoint.startswith("tcp://0.0.0.0:")


def test_oversized_frame_is_refused(make, tmp_path):
    service = make(Service, tmp_path, None)
    with (
        zmq.Context() as context,
        context.socket(zmq.DEALER) as flood,
        context.socket(zmq.DEALER) as honest,
    ):
        flood.linger = 0
        flood.connect(service.server.endpoint)
        flood.send(bytes(2**21))
        assert not flood.poll(500)  # not even a refusal: libzmq has closed the connection
        honest.linger = 0
        honest.connect(service.server.endpoint)
        honest.send(encode_control(Status()))
        assert honest.poll(1000 * GUARD)
    assert service.server.counts.violations == 0


def test_huge_failure_count_takes_no_memory():
    tally = FailureWindow(3)
    tally.note(2**62, 0.0)  # as large as HEARTBEAT may say
    assert tally.exceeded


class Impostor:
    """Somebody who listens at the port that a dead learner left, as any user of the machine may."""

    def __init__(self, port):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.ROUTER)
        self.socket.linger = 0
        self.events = self.socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
                                                     | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL)  # fmt: skip
        wait_until(lambda: self.binds(port))  # the kernel may still be closing the learner's

    def binds(self, port):
        with contextlib.suppress(zmq.ZMQError):
            self.socket.bind(f"tcp://127.0.0.1:{port}")
            return True
        return False

    def heard(self):
        """Kinds of the messages that came since the last call."""
        kinds = set()
        while self.socket.poll(50):
            kinds.add(decode(self.socket.recv_multipart()[-1])[0].kind)
        return kinds

    def refusals(self):
        """Count handshakes of workers that did not take this for their learner, since the last call."""
        count = 0
        while self.events.poll(50):
            self.events.recv_multipart()
            count += 1
        return count

    def close(self):
        if self.socket.closed:
            return
        self.socket.disable_monitor()
        self.socket.close()
        self.context.destroy(linger=0)


@pytest.mark.slow
@pytest.mark.parametrize("curve", ["auto", "never"])
def test_impostor_at_the_port_of_a_dead_learner_receives_nothing(shell, make, curve):
    """The worker knows that this is not its learner, unless encryption is off; the run continues afterwards."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    workers = {"curve": curve, "bind": f"127.0.0.1:{port}", "processes": 1, "agents": 2}
    learner = shell.start("serve", shell.preset(workers=workers, run={"steps": 10**6}))
    file = shell.run_folder / "connection.json"
    wait_until(file.exists)
    shell.start("worker", "--connect", str(file))
    wait_until(lambda: shell.status().get("environment_steps", 0) > 50)
    learner.kill()
    learner.wait()
    impostor = make(Impostor, port)
    if curve == "never":  # this is what the encryption is for
        wait_until(lambda: Kind.STEP in impostor.heard())
        return
    wait_until(impostor.refusals)
    assert impostor.heard() == set()
    steps = shell.status()["environment_steps"]
    impostor.close()
    again = shell.start("serve", str(shell.run_folder))
    wait_until(file.exists)
    shell.start("worker", "--connect", str(file))
    wait_until(lambda: shell.status()["environment_steps"] > steps + 50)
    again.send_signal(signal.SIGINT)
    _, said = again.communicate(timeout=GUARD)
    assert again.returncode == 130, said


def test_encryption_cannot_be_off_on_addresses_of_other_machines():
    with pytest.raises(ConfigError, match=r"workers\.curve = never, but workers.bind = 192.0.2.1"):
        load_config(None, ["env=CartPole-v1", "workers.curve=never", "workers.bind=192.0.2.1"])
    load_config(None, ["env=CartPole-v1", "workers.curve=never", "workers.transport=ipc"])


def test_the_keys_of_a_run_are_in_its_connection_file_and_nowhere_else(shell, make):
    preset = shell.preset(run={"steps": 10**6})
    learner = shell.start("train", preset)
    file = shell.run_folder / "connection.json"
    wait_until(lambda: shell.status().get("environment_steps", 0) > 300)
    connection = read_connection(file)
    keys = [
        key.encode()
        for key in (connection.server_key, connection.public_key, connection.secret_key)
    ]
    assert all(len(key) == 40 for key in keys)
    assert file.stat().st_mode & 0o777 == 0o600

    def holders():
        files = [path for path in shell.folder.rglob("*") if path.is_file()]
        return {path.name for path in files if any(key in path.read_bytes() for key in keys)}

    assert holders() == {"connection.json"}
    for process in [psutil.Process(learner.pid), *workers_of(shell.run_folder)]:
        words = " ".join([*process.cmdline(), *process.environ().values()]).encode()
        assert not any(key in words for key in keys)
    other = Keys.draw()
    stranger = make(
        Peer,
        connection.endpoint,
        Keys(connection.server_key, "", other.worker_public, other.worker_secret),
    )
    with pytest.raises(RefusedError):
        stranger.watch.poll(int(1000 * GUARD))
    wait_until(
        lambda: shell.status()["refused"] >= 1
    )  # more when it asks again before the next status
    learner.send_signal(signal.SIGINT)
    out, said = learner.communicate(timeout=GUARD)
    assert learner.returncode == 130, said
    assert holders() == set()
    assert not any(key in (out + said).encode() for key in keys)
    assert "a peer at 127.0.0.1 with an unknown key was refused" in said
