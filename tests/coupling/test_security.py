"""Who gets in at the learner's socket, who does not, and what both sides are told, over real sockets."""

import socket
import time

import pytest
import zmq

from coupling.connection import Connection, read_connection, write_connection
from coupling.errors import ConfigError
from coupling.security import Guard, Keys, RefusedError, Watch, is_loopback, secure_client


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
        self.socket.close()
        self.guard.close()
        self.context.term()


class Peer:
    """A DEALER with its watch that says one word."""

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
        self.socket.close()
        self.watch.close()
        self.context.term()


def keys_of(keys):
    if keys is None:
        return {}
    return {"server_key": keys.server_public, "public_key": keys.worker_public, "secret_key": keys.worker_secret}


def until(condition, learner, watch=None, seconds=5.0):
    """Serve until the condition holds, at most 5 seconds: so soon must a refusal be known."""
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
def test_a_peer_with_the_keys_of_the_file_gets_in(make, keys):
    learner = make(Learner, keys)
    peer = make(Peer, learner.endpoint, keys)
    until(lambda: learner.heard, learner, peer.watch)
    assert learner.heard == [b"word"]
    assert (learner.guard.refused, learner.guard.refusals) == (0, [])


def test_an_unknown_key_is_refused_and_both_sides_are_told(make):
    keys, other = Keys.draw(), Keys.draw()
    stranger = Keys(keys.server_public, "", other.worker_public, other.worker_secret)
    learner = make(Learner, keys)
    peer = make(Peer, learner.endpoint, stranger)
    with pytest.raises(RefusedError, match=r"refused this worker's key.*connection file"):
        until(lambda: learner.heard, learner, peer.watch)
    until(lambda: learner.guard.refused, learner)
    assert learner.guard.refusals == [
        "a peer at 127.0.0.1 with an unknown key was refused; workers need the connection file of this start of the run"
    ]
    assert not learner.heard


@pytest.mark.parametrize("learner_encrypts", [True, False])
def test_encryption_on_one_side_only_is_told_on_both(make, learner_encrypts):
    keys = Keys.draw()
    learner = make(Learner, keys if learner_encrypts else None)
    peer = make(Peer, learner.endpoint, None if learner_encrypts else keys)
    with pytest.raises(RefusedError, match="encryption"):
        until(lambda: learner.heard, learner, peer.watch)
    until(lambda: learner.guard.refusals, learner)
    assert "did not get through the handshake" in learner.guard.refusals[0]
    assert not learner.heard


def test_a_connection_file_of_another_learner_is_told_on_both_sides(make):
    keys, other = Keys.draw(), Keys.draw()
    learner = make(Learner, keys)
    peer = make(Peer, learner.endpoint, Keys(other.server_public, "", keys.worker_public, keys.worker_secret))
    with pytest.raises(RefusedError, match="not that of the connection file"):
        until(lambda: learner.heard, learner, peer.watch)
    assert "takes this learner for another one" in learner.guard.refusals[0]


def test_a_learner_that_is_not_there_yet_is_waited_for(make):
    """Neither a closed port nor one that takes connections and drops them, as a tunnel does, is a refusal."""
    keys = Keys.draw()
    with socket.create_server(("127.0.0.1", 0)) as tunnel:
        endpoint = f"tcp://127.0.0.1:{tunnel.getsockname()[1]}"
        peer = make(Peer, endpoint, keys)
        tunnel.settimeout(0.01)
        dropped, end = 0, time.monotonic() + 20.0
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


def test_without_an_answer_about_its_key_nobody_gets_in(make):
    """libzmq lets any key in where nobody answers, unless it is told to enforce the domain."""
    keys = Keys.draw()
    learner = make(Learner, keys)
    learner.guard._zap.close(linger=0)
    make(Peer, learner.endpoint, keys)
    assert not learner.socket.poll(1000)


def test_refusals_are_counted_without_end_and_kept_within_bounds(make):
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
def test_what_is_loopback(endpoint, answer):
    assert is_loopback(endpoint) is answer


def test_another_address_is_not_bound_without_keys():
    refused = pytest.raises(ConfigError, match=r"tcp://0\.0\.0\.0:\* can be reached from other machines")
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router, refused:
        Guard(router, "tcp://0.0.0.0:*", None)


def test_a_connection_file_with_keys_must_be_its_owners_alone(tmp_path):
    path = tmp_path / "connection.json"
    connection = Connection("tcp://10.0.0.1:1", "run", "env", {}, 1.0, **keys_of(Keys.draw()))
    write_connection(path, connection)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_connection(path) == connection
    for mode in (0o640, 0o604, 0o620):
        path.chmod(mode)
        with pytest.raises(ValueError, match=r"others may read it .* chmod 600"):
            read_connection(path)
    write_connection(path, Connection("tcp://127.0.0.1:1", "run", "env", {}, 1.0))
    path.chmod(0o644)
    assert read_connection(path).secret_key == ""  # nothing to hide


@pytest.mark.parametrize("key", ["", "short", "~" * 40, "#" * 40, "é" * 40])
def test_a_connection_file_with_a_broken_key_is_none(tmp_path, key):
    path = tmp_path / "connection.json"
    keys = keys_of(Keys.draw()) | {"secret_key": key}
    write_connection(path, Connection("tcp://10.0.0.1:1", "run", "env", {}, 1.0, **keys))
    with pytest.raises(ValueError, match="is no connection file: its three keys"):
        read_connection(path)


def test_secrets_are_in_no_representation():
    keys = Keys.draw()
    connection = Connection("tcp://10.0.0.1:1", "run", "env", {}, 1.0, **keys_of(keys))
    for text in (repr(keys), repr(connection), str(connection)):
        assert keys.worker_secret not in text
        assert keys.server_secret not in text
