"""Two processes that use one session, and waits that once had no end: both sides report it, and the run continues.

The forger here knows what another user of the machine could once read from a run folder: the session and its sequence.
"""

import os
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest
import zmq
from learner_by_hand import GUARD, SESSION, Hand
from shell import HERE, ROOT, wait_until

from coupling.wire import protocol
from coupling.wire.connection import Connection, read_connection, write_connection
from coupling.wire.protocol import Error, Goodbye, Header, Kind, Pause, Step
from coupling.worker.outbox import read_outbox

# --- the learner, against raw sockets


def forger_of(worker, peer):
    """Return somebody else who knows the session of a worker, and what comes next in it."""
    forger = peer()
    forger.session, forger.sequence = worker.session, worker.sequence
    return forger


def forged(peer, **kwargs):
    """A STEP of other content than the workers' own."""
    step = peer.outcome()
    step.rewards[:] = -777.0
    return peer.message(Kind.STEP, protocol.encode_step(step), **kwargs)


def test_different_message_under_an_accepted_number_is_refused_with_a_warning(
    served,
):
    learner, server, peer = served
    worker = peer()
    worker.join(pid=123, host="node")
    worker.reset()
    forger = forger_of(worker, peer)
    assert forger.say(forged(forger))[0].kind == Kind.ACTION  # nobody can know better yet
    calls = list(learner.calls)
    header, error = worker.step()
    assert (header.kind, header.session, header.sequence) == (Kind.ERROR, worker.session, 2)
    assert "another process uses its session" in error.reason
    (warning,) = server.warnings
    assert warning.startswith("worker 0 (process 123 on node): STEP 2 came")
    assert "another process uses its session" in warning
    assert (learner.calls, server.counts.forks) == (calls, 1)
    worker.step(sequence=2)
    assert len(server.warnings) == 1  # one is enough


def test_first_worker_continues_and_is_answered_on_its_own_connection(served):
    learner, _, peer = served
    worker = peer()
    worker.join()
    worker.reset()
    worker.step()
    forger = forger_of(worker, peer)
    assert forger.say(forged(forger, sequence=2))[0].kind == Kind.ERROR
    learner.open_gate = False
    assert worker.is_left_waiting(worker.step_message())
    assert forger.say(forged(forger, sequence=3))[0].kind == Kind.ERROR
    learner.open_gate = True
    assert worker.hear()[0].sequence == 3  # its answer did not go elsewhere
    assert not any(-777.0 in call[2] for call in learner.calls if call[0] == "observe")


def test_worker_behind_its_session_is_told_at_once_and_frees_its_slot(served):
    _, server, peer = served
    worker, successor = peer(), peer()
    worker.join()
    worker.reset()  # the answer is lost, and the worker will say the same again
    forger = forger_of(worker, peer)
    for _ in range(3):
        assert forger.say(forged(forger))[0].kind == Kind.ACTION
    header, error = worker.say(worker.reset_message(sequence=1))
    assert (header.kind, header.sequence) == (Kind.ERROR, 1)
    assert "RESET 1 came after a later message" in error.reason
    worker.send(
        protocol.encode_control(Error("the learner refused its message"), session=worker.session)
    )
    worker.serve_until(lambda: server.errors)
    assert server.errors == [(0, "the learner refused its message")]
    assert not server.liveness.connected(0)
    assert "this session is over" in forger.say(forged(forger))[1].reason
    # late messages of the session, or from elsewhere, do not revive it
    assert not server.liveness.connected(0)
    assert successor.join()[0].kind == Kind.WELCOME
    assert "not known" in forger.say(forged(forger))[1].reason


def test_late_copies_give_a_warning_only_if_repeated(served):
    _, server, peer = served
    worker = peer()
    worker.join()
    worker.reset()
    worker.step()
    for number in range(1, 5):
        assert worker.say(worker.reset_message(sequence=1))[0].kind == Kind.ERROR
        assert bool(server.warnings) == (number >= 3)
    assert "it is behind its session" in server.warnings[0]
    assert worker.step()[0].kind == Kind.ACTION  # it is heard all the same


@pytest.mark.parametrize("sequence", [1, 2, 4, 7])
def test_errors_do_not_reveal_the_expected_sequence(served, sequence):
    """The learner expects 3 and has accepted 2: an error may contain neither, unless the sender sent it."""
    _, _, peer = served
    worker = peer()
    worker.join()
    worker.reset()
    worker.step()
    forger = forger_of(worker, peer)
    header, error = forger.say(forged(forger, sequence=sequence))
    assert header.kind in (Kind.ERROR, Kind.ACTION)
    assert {int(word) for word in error.reason.split() if word.isdecimal()} <= {sequence}


def test_forged_step_is_still_refused_after_a_restart_of_the_learner(served):
    _, server, peer = served
    worker = peer()
    worker.join()
    worker.reset()
    worker.step()
    server.restore(server.exchange.notes())
    forger = forger_of(worker, peer)
    assert forger.say(forged(forger, sequence=2))[0].kind == Kind.ERROR
    assert worker.step(sequence=2)[0].kind == Kind.ACTION


def test_successor_with_a_different_recovered_message_gives_a_warning(served):
    learner, server, peer = served
    worker = peer()
    worker.join()
    worker.reset()
    forger = forger_of(worker, peer)
    forger.say(forged(forger))
    unsent = worker.step_message()
    calls = list(learner.calls)
    assert peer().join(recovered=unsent)[0].kind == Kind.WELCOME
    assert learner.calls == [*calls, ("abandon", [0, 1])]
    assert "STEP 2 differs from the one accepted before" in server.warnings[0]


def test_goodbye_ends_a_session_but_a_successor_may_recover_its_message(served):
    learner, server, peer = served
    worker = peer()
    worker.join()
    worker.reset()
    worker.send(protocol.encode_control(Goodbye("told to end"), session=worker.session))
    worker.serve_until(lambda: server.farewells)
    assert server.farewells == [(0, "told to end")]
    assert "this session is over" in worker.say(worker.beat())[1].reason  # a heart beats once more
    assert "its session is over" in worker.say(worker.hello())[1].reason
    assert not server.liveness.connected(0)
    unsent = worker.frame(Kind.STEP, protocol.encode_step(worker.outcome()), sequence=2)
    assert peer().join(recovered=unsent)[0].kind == Kind.WELCOME  # at once
    assert learner.calls[-2:] == [
        ("observe", [0, 1], [5.0, 6.0], [False, False], [[3.0], [4.0]]),
        ("abandon", [0, 1]),
    ]


# --- the workers, against a scripted learner


class PythonHand(Hand):
    """A scripted learner with a worker in Python."""

    def write_file(self, endpoint):
        connection = Connection(endpoint, "hand", "counting:test/Counting-v0", {}, self.patience)
        write_connection(self.folder / "connection.json", connection)

    def start(self, *more):
        self.welcomed, self.answered, self.started = False, 0, time.monotonic_ns()
        self.inbox.clear()
        command = [
            sys.executable,
            "-m",
            "coupling.worker",
            "--connect",
            str(self.folder / "connection.json"),
        ]
        process = subprocess.Popen(
            [*command, "--environments", str(self.environments), "--slot", "0"],
            env=os.environ
            | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(HERE)]), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        self.pid = process.pid
        return process


@pytest.fixture(params=["c", "python"])
def hand(request, tmp_path):
    hands = []

    def make(**settings):
        if request.param == "c":
            hands.append(Hand(request.getfixturevalue("built"), tmp_path, **settings))
        else:
            hands.append(PythonHand(tmp_path, tmp_path, **settings))
        return hands[-1]

    yield make
    for each in hands:
        each.close()


@pytest.mark.slow
def test_worker_whose_message_is_refused_ends_and_tells_the_learner(hand):
    learner = hand()
    process = learner.start()
    route = learner.join()
    learner.hear()
    learner.action(route, 1)
    learner.hear()
    learner.control(route, Error("about a late copy"), sequence=1)
    route, header, _ = learner.hear()  # the same step again, since no answer comes
    assert process.poll() is None
    while header.kind == Kind.STEP:  # said again, by another connection perhaps
        learner.control(route, Error("another process uses its session"), sequence=2)
        route, header, frame = learner.hear()
    assert header.kind == Kind.ERROR
    assert header.session == SESSION
    assert (
        "another process uses its session"
        in protocol.decode_control(*protocol.decode(frame)).reason
    )
    code, _, said = learner.see_it_end(process)
    assert code == 1
    assert "another process uses its session" in said


def test_worker_whose_slot_is_undecided_asks_again(hand):
    learner = hand()
    process = learner.start()
    for _ in range(2):
        learner.attend_until(lambda: learner.inbox)
        route, header, _ = learner.inbox.popleft()
        assert header.kind == Kind.HELLO
        learner.say(route, protocol.encode_control(Pause("worker 0 is connected already")))
    learner.welcome(learner.hear()[0])
    assert learner.hear()[1].kind == Kind.RESET
    assert process.poll() is None


@pytest.mark.slow
def test_worker_leaves_a_learner_that_beats_but_never_answers(hand):
    learner = hand(patience=6.0)  # longer than either side may stand still
    process = learner.start()
    learner.join()
    learner.hear()
    code, _, said = learner.see_it_end(process)
    assert code == 1
    assert "signs of life" in said
    assert "did not answer" in said


# --- a whole run and a forger


@pytest.mark.slow
def test_run_continues_after_forged_steps_and_reports_them(shell):
    # a stranger is heard only where nothing is encrypted
    workers = {"processes": 2, "agents": 2, "heartbeat": 0.5, "curve": "never"}
    preset = shell.preset(workers=workers, env_options={"step_seconds": 0.5}, run={"steps": 10**6})
    learner = shell.start("train", preset)
    outbox = shell.run_folder / "workers" / "outbox-0"
    wait_until(lambda: shell.status().get("environment_steps", 0) > 2, seconds=GUARD)
    (honest,) = (worker["pid"] for worker in shell.status()["workers"] if worker["slot"] == 0)
    assert psutil.pid_exists(honest)

    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    socket.linger = 0
    socket.connect(read_connection(shell.run_folder / "connection.json").endpoint)
    try:
        # until it is faster than the worker, which is asleep in its step most of the time
        while True:
            last = protocol.decode(read_outbox(outbox))[0]
            no = np.zeros(1, bool)
            nothing = np.zeros((1, 4), np.float32)
            step = Step(np.array([-777.0]), nothing, no, no, no, no, nothing[:0])
            header = Header(
                Kind.STEP, session=last.session, sequence=last.sequence + 1, environments=1
            )
            socket.send(protocol.encode(header, protocol.encode_step(step)))
            assert socket.poll(1000 * GUARD)
            if protocol.decode(socket.recv())[0].kind == Kind.ACTION:
                break
    finally:
        context.destroy(linger=0)

    def warned():
        return [warning["text"] for warning in shell.status().get("warnings", [])]

    wait_until(lambda: len(warned()) >= 2, seconds=GUARD)
    assert any(
        f"worker 0 (process {honest} on" in text and "another process uses" in text
        for text in warned()
    )
    assert any(
        "worker 0 cannot continue: the learner refused its message" in text for text in warned()
    )
    steps = shell.status()["agents"]["0"]
    wait_until(lambda: shell.status()["agents"]["0"] > steps + 1, seconds=GUARD)  # its successor
    (successor,) = (worker for worker in shell.status()["workers"] if worker["slot"] == 0)
    assert successor["pid"] != honest
    learner.terminate()
    _, said = learner.communicate(timeout=GUARD)
    assert f"warning: worker 0 (process {honest} on" in said
