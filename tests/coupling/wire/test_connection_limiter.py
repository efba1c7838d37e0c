"""The kernel drops a flood of connections, and connected peers continue."""

import contextlib
import resource
import select
import socket
import sys

import pytest
import zmq
from shell import ROOT, wait_until

from coupling.service.experience import ExperienceLog
from coupling.service.server import Server, Terms
from coupling.wire.connection import task_hash
from coupling.wire.connection_limiter import (
    LOCKS,
    ConnectionLimiter,
    lock_by_filter,
    lock_by_signature,
)
from coupling.wire.protocol import Status, encode_control

# appended, not prepended: a file there has the name of the package mujoco
sys.path.append(str(ROOT / "benchmarks" / "service"))
import flooder

pytestmark = pytest.mark.skipif(
    not ConnectionLimiter.fits("127.0.0.1"), reason="only Linux has filters of sockets"
)


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def opened():
    """Ask for connections without waiting; all are closed at the end."""
    with contextlib.ExitStack() as stack:

        def ask(port, source="127.0.0.1"):
            peer = stack.enter_context(socket.socket())
            peer.bind((source, 0))
            peer.setblocking(False)
            peer.connect_ex(("127.0.0.1", port))
            return peer

        yield ask


@pytest.fixture(params=LOCKS, ids=lambda lock: lock.__name__)
def lock(request):
    """One way to drop connections; skipped where the kernel does not permit it to this user."""
    with socket.create_server(("127.0.0.1", 0)) as tried:
        try:
            request.param(tried, ())
        except OSError as error:
            pytest.skip(f"this kernel does not permit {request.param.__name__}: {error}")
    return request.param


@pytest.fixture
def make(clock, request):
    with contextlib.ExitStack() as stack:

        def make(guests=1, locks=None):
            if locks is None and "lock" in request.fixturenames:
                locks = [request.getfixturevalue("lock")]
            return stack.enter_context(
                contextlib.closing(ConnectionLimiter("127.0.0.1", 0, guests, clock, locks))
            )

        yield make


def stands(peer, seconds=0.0):
    return bool(select.select([], [peer], [], seconds)[1])


def is_let_in(peer):
    return wait_until(lambda: stands(peer, 0.1))


def is_kept_out(peer):
    return not stands(peer, 0.3)


def test_connections_over_the_budget_are_dropped_until_the_second_is_over(
    lock, make, clock, opened
):
    door = make()
    before = opened(door.port)
    assert is_let_in(before)
    door.tend(door.budget)
    assert is_let_in(opened(door.port))
    door.tend(1)
    assert door.floods == 1
    late = opened(door.port)
    assert is_kept_out(late)
    clock.now += 0.9
    door.tend(0)
    assert is_kept_out(opened(door.port))
    clock.now += 0.2
    door.tend(0)
    assert is_let_in(opened(door.port))
    assert is_let_in(late)  # TCP asked again
    assert door.floods == 1


def test_established_connection_is_not_affected(lock, make, opened):
    door = make()
    peer = opened(door.port)
    assert is_let_in(peer)
    with socket.socket(fileno=door.descriptor()) as listener:
        end, _ = listener.accept()
    door.tend(2 * door.budget + 2)
    with end:
        for words in (b"to and", b"fro"):
            peer.send(words)
            assert select.select([end], [], [], 60)[0]
            assert end.recv(100) == words
            end.send(words)
            assert select.select([peer], [], [], 60)[0]
            assert peer.recv(100) == words
    assert is_kept_out(opened(door.port))


@pytest.fixture
def filters():
    """Skip where the kernel refuses filters; some kernels permit them only to root."""
    with socket.create_server(("127.0.0.1", 0)) as tried:
        try:
            lock_by_filter(tried, ())
        except OSError as error:
            pytest.skip(f"this kernel does not permit filters: {error}")


def refuse(listener, known):
    """Fail like a kernel that does not support this lock, or that has nothing to detach."""
    raise PermissionError(1, "Operation not permitted") if known is not None else FileNotFoundError


def test_next_lock_is_used_when_the_kernel_refuses_one(lock, make, clock, opened):
    door = make(locks=[refuse, lock])
    door.tend(door.budget + 1)
    assert is_kept_out(opened(door.port))
    clock.now += 1.0
    door.tend(0)
    assert is_let_in(opened(door.port))
    assert door.has_lock


def test_without_a_lock_all_connections_are_accepted_and_this_is_reported(make, clock, opened):
    door = make(locks=[refuse, refuse])
    for _ in range(3):
        door.tend(2 * door.budget + 2)
        assert is_let_in(opened(door.port))
        clock.now += 1.0
        door.tend(0)
    assert door.floods == 3
    assert not door.has_lock


def test_filter_is_replaced_when_the_kernel_has_no_memory_for_the_next(
    filters, make, clock, opened
):
    """One filter was attached and the kernel refuses the next: the other lock is used, and opened again."""

    def filter_once(listener, known):
        if known is not None and door.floods > 1:
            raise OSError(12, "Cannot allocate memory")
        lock_by_filter(listener, known)

    door = make(locks=[filter_once, lock_by_signature])
    door.tend(door.budget + 1)
    assert is_kept_out(opened(door.port))
    clock.now += 1.0
    door.tend(door.budget + 1)  # the state is the same, and the filter stays
    door.tend(door.budget + 1)  # now it is to be another filter
    assert is_kept_out(opened(door.port))
    clock.now += 1.0
    door.tend(0)
    assert is_let_in(opened(door.port))


def test_worker_addresses_have_a_separate_budget(filters, make, opened):
    door = make()
    for number in range(1, 256):
        door.know(f"10.0.0.{number}")
    door.know("127.0.0.2")
    door.know("not an address")
    door.tend(door.budget + 1)
    assert is_kept_out(opened(door.port))
    assert is_let_in(opened(door.port, "127.0.0.2"))
    door.tend(door.budget + 1)
    assert is_kept_out(opened(door.port, "127.0.0.2"))


def test_latest_addresses_are_kept_when_a_filter_is_full(filters, make, opened):
    door = make()
    for number in range(5000):
        door.know(f"10.0.{number // 256}.{number % 256}")
    door.know("127.0.0.2")  # the latest are kept
    door.tend(door.budget + 1)
    assert is_let_in(opened(door.port, "127.0.0.2"))
    assert is_kept_out(opened(door.port))


def test_connections_are_dropped_while_file_descriptors_are_scarce(lock, make, clock, opened):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.ExitStack() as stack:
        lowest = stack.enter_context(socket.socket()).fileno()
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + 200, hard))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        door = make()
        door.tend(1)
        assert is_let_in(opened(door.port))
        with contextlib.ExitStack() as hoard:
            for _ in range(100):
                hoard.enter_context(socket.socket())
            door.tend(1)
            clock.now += 5.0
            door.tend(0)
            assert is_kept_out(opened(door.port))
        door.tend(0)
        assert is_let_in(opened(door.port))


class Idle:
    """A learner without workers."""

    environment_steps = gradient_steps = 0

    def updates_due(self):
        return 0


@pytest.fixture
def server(tmp_path, clock):
    terms = Terms([1], 3, [-2.0], [2.0], task_hash("Pendulum-v1", {}), lambda agent, session: agent)
    log = ExperienceLog(tmp_path / "experience")
    log.begin(0)
    server = Server(Idle(), "tcp://127.0.0.1:*", terms, 1, log, clock=clock)
    yield server
    server.close("over")
    log.close()


@pytest.fixture
def ask_for_status(server):
    """Ask for the status as an honest peer connected before the flood, until the answer comes."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as honest:
        honest.linger = 0
        honest.connect(server.endpoint)

        def ask():
            def answered():
                server.turn(0.01)
                return honest.poll(0)

            honest.send(encode_control(Status()))
            wait_until(answered)
            return honest.recv()

        ask()
        yield ask


@pytest.mark.parametrize("kind", flooder.KINDS)
def test_flood_reaches_python_only_up_to_the_budget(server, ask_for_status, kind):
    """Everything happens within one second of the server's clock, and an honest peer is answered throughout."""
    port, budget, at_once = int(server.endpoint.rpartition(":")[2]), 64 + 4, 20
    asked = 0
    while asked < 400:
        asked += flooder.flood(("127.0.0.1", port), kind, rate=1000.0, seconds=at_once / 1000)[
            "asked"
        ]
        ask_for_status()
    came = server.accepted
    assert budget < came <= budget + 2 * at_once
    assert server.refused + server.counts.violations <= 2 * came
    assert sum("connections arrived within a second" in refusal for refusal in server.refusals) == 1


@pytest.fixture
def no_lock(monkeypatch):
    """A kernel that permits no lock, for a server made after this fixture."""
    monkeypatch.setattr("coupling.wire.connection_limiter.LOCKS", [refuse])


@pytest.mark.usefixtures("no_lock")
def test_flood_that_cannot_be_limited_is_reported(server, ask_for_status):
    """The learner continues, serves connected peers, and says what can be done."""
    port = int(server.endpoint.rpartition(":")[2])
    asked = 0
    while asked < 400:
        asked += flooder.flood(("127.0.0.1", port), "noise", rate=1000.0, seconds=0.02)["asked"]
        ask_for_status()
    wait_until(lambda: server.turn(0.01) or server.accepted > 300)
    (told,) = [refusal for refusal in server.refusals if "connections arrived within" in refusal]
    assert "this system cannot limit them" in told
    assert "workers.transport=ipc" in told


def test_new_peer_is_accepted_after_the_flood(server, ask_for_status, clock):
    port = int(server.endpoint.rpartition(":")[2])
    while server.accepted <= 64 + 4:
        flooder.flood(("127.0.0.1", port), "noise", rate=1000.0, seconds=0.02)
        ask_for_status()
    with zmq.Context() as context, context.socket(zmq.DEALER) as late:
        late.linger = 0
        late.connect(server.endpoint)
        late.send(encode_control(Status()))
        for _ in range(10):
            ask_for_status()
        assert not late.poll(200)
        clock.now += 1.0

        def answered():
            server.turn(0.01)
            return late.poll(0)

        wait_until(answered)
