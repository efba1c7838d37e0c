"""Worker slots at the learner: silent workers, successors and recovered messages, over raw sockets."""

import os
import signal
import socket
import subprocess

import numpy as np
import pytest

from coupling.wire import protocol
from coupling.wire.protocol import Kind


def test_newcomer_is_refused_once_the_connected_worker_shows_life(served, clock):
    _, _, peer = served
    worker, newcomer = peer(), peer()
    worker.join()
    hello = newcomer.hello()
    header, pause = newcomer.say(hello)  # at once
    assert (header.kind, header.acknowledgement) == (Kind.PAUSE, 0)
    assert "worker 0 is connected already; it is given up if it keeps silent for" in pause.reason
    worker.say(worker.beat())  # it may have been on its way before
    assert newcomer.say(hello)[0].kind == Kind.PAUSE
    clock.now += 1.1  # the heartbeat's period is a second
    worker.say(worker.beat())
    assert "worker 0 is connected already" in newcomer.say(hello)[1].reason


def test_successor_of_a_silent_worker_recovers_its_last_step(serve, clock):
    # so that the jump of the clock does not count as a pause of the learner
    learner, server, peer = serve(heartbeat=10.0)
    worker = peer()
    worker.join()
    worker.reset()
    assert server.liveness.lost() == []
    clock.now += 6.1
    server.turn(0)
    assert [slot for slot, _ in server.liveness.lost()] == [0]
    server.liveness.drop(0)
    assert server.liveness.lost() == []
    # its episodes wait for the message that the successor may bring
    assert learner.calls[-1] == ("act", [0, 1])
    unsent = worker.frame(Kind.STEP, protocol.encode_step(worker.outcome()), sequence=2)
    _, welcome = peer().join(recovered=unsent)
    assert welcome.seeds == [100, 101]  # the next session does not repeat the same episodes
    assert learner.calls[-2:] == [
        ("observe", [0, 1], [5.0, 6.0], [False, False], [[3.0], [4.0]]),
        ("abandon", [0, 1]),
    ]
    assert server.counts.recovered == 1


@pytest.mark.parametrize(
    "what",
    ["taken before", "of an unknown session", "of another worker", "nothing"],
)
def test_invalid_recovered_message_is_dropped(served, what):
    learner, server, peer = served
    worker = peer()
    worker.join()
    worker.reset()
    worker.step()
    calls = list(learner.calls)
    server.liveness.drop(0)
    frame = worker.frame(Kind.STEP, protocol.encode_step(worker.outcome()), sequence=2)
    if what == "of an unknown session":
        worker.session += 1
        frame = worker.frame(Kind.STEP, protocol.encode_step(worker.outcome()), sequence=3)
    if what == "of another worker":
        other = peer()
        other.join(slot=1)
        frame = other.frame(Kind.RESET, np.array([[1.0], [2.0]], "<f4").tobytes(), sequence=1)
    recovered = b"" if what == "nothing" else frame
    assert peer().join(recovered=recovered)[0].kind == Kind.WELCOME
    assert learner.calls == [*calls, ("abandon", [0, 1])]
    assert server.counts.recovered == 0


def test_late_hello_of_a_replaced_process_is_refused(served):
    _, server, peer = served
    worker, successor = peer(), peer()
    worker.join()
    worker.reset()
    late = worker.hello()
    server.liveness.drop(0)
    successor.join()
    successor.reset()
    server.liveness.drop(0)
    for _ in range(2):
        assert "another process has taken its place" in peer().say(late)[1].reason
        notes = server.exchange.notes()
        server.restore(notes)  # a restarted learner knows it too
    unsent = successor.frame(Kind.STEP, protocol.encode_step(successor.outcome()), sequence=2)
    peer().join(recovered=unsent)
    assert server.counts.recovered == 1


def test_silence_counts_only_while_the_learner_listens(serve, clock):
    _, server, peer = serve(limit=2)
    worker = peer()
    worker.join()
    worker.reset()
    assert worker.is_left_waiting(worker.step_message())  # all actions are given
    assert server.liveness.lost() == []
    clock.now += 4.0  # the learner was stopped, or waited for a disk
    server.turn(0)
    assert server.liveness.lost() == []
    for _ in range(6):
        clock.now += 0.5
        server.turn(0)
        assert server.liveness.lost() == []
    clock.now += 0.5
    assert server.liveness.lost() == [(0, "no sign of life for 3.5 s")]


def lost_after(server, clock, seconds):
    """Let time pass in which nothing is heard, and return why worker 0 is then taken for dead."""
    for _ in range(round(seconds / 0.5)):
        clock.now += 0.5
        server.turn(0)
        lost = dict(server.liveness.lost())
    return lost.get(0, "")


def test_worker_may_be_silent_for_step_timeout(served, clock):
    """Its step may block all threads of its process, including the heartbeats."""
    _, server, peer = served
    worker = peer()
    worker.join()
    assert lost_after(server, clock, 5.5) == ""  # the first reset
    worker.reset()
    assert lost_after(server, clock, 5.5) == ""
    worker.step()
    assert lost_after(server, clock, 5.5) == ""
    assert "step_timeout = 6 s" in lost_after(server, clock, 1.0)


def test_first_reset_that_takes_too_long_is_called_so(served, clock):
    _, server, peer = served
    worker = peer()
    worker.join()
    assert (
        lost_after(server, clock, 6.5)
        == "the first reset took longer than workers.step_timeout = 6 s"
    )
    worker.reset()
    assert "an environment step took longer than workers.step" in lost_after(server, clock, 6.5)


def test_silent_remote_worker_is_given_up_when_another_process_claims_its_slot(serve, clock):
    _, server, peer = serve(step_timeout=100.0)
    worker, newcomer = peer(), peer()
    worker.join()
    worker.reset()
    assert lost_after(server, clock, 20.0) == ""
    assert newcomer.join()[0].kind == Kind.PAUSE
    assert lost_after(server, clock, 3.0) == ""
    assert newcomer.join()[0].kind == Kind.PAUSE
    assert "no sign of life" in lost_after(server, clock, 0.5)
    server.liveness.drop(0)
    assert newcomer.join()[0].kind == Kind.WELCOME


@pytest.mark.parametrize("what", [signal.SIGSTOP, signal.SIGKILL])
def test_silent_local_worker_is_checked_by_its_process(serve, clock, what):
    _, server, peer = serve(step_timeout=100.0)
    with subprocess.Popen(["sleep", "600"]) as process:
        worker = peer()
        worker.join(pid=process.pid, host=socket.gethostname())
        worker.reset()
        assert lost_after(server, clock, 20.0) == ""
        assert peer().join()[0].kind == Kind.PAUSE
        assert lost_after(server, clock, 20.0) == ""  # it is known to run, whoever claims its place
        process.send_signal(what)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
        assert "no sign of life" in lost_after(server, clock, 0.5)
        process.kill()


def test_replaced_worker_is_refused(served):
    _, server, peer = served
    worker, successor = peer(), peer()
    worker.join()
    worker.reset()
    server.liveness.drop(0)
    successor.join()
    header, message = worker.step()
    assert header.kind == Kind.REJECT
    assert "another process has taken its place" in message.reason


def test_free_slot_is_given_to_a_worker_that_asks_for_any(served):
    _, _, peer = served
    assert [peer().join(slot=None)[1].slot for _ in range(2)] == [0, 1]
    assert "no free place" in peer().join(slot=None)[1].reason


def test_restarted_learner_reserves_the_slots_of_its_workers(served):
    _, server, peer = served
    workers = [peer(), peer()]
    for slot, worker in enumerate(workers):
        worker.join(slot=slot)
        worker.reset()
    server.restore(server.exchange.notes())
    server.replay([])
    spare = peer()
    hello = spare.hello(slot=None)
    assert "reserves the place of worker 0" in spare.say(hello)[1].reason
    unsent = workers[1].frame(Kind.STEP, protocol.encode_step(workers[1].outcome()), sequence=2)
    # it brings the proof that the other is dead
    assert peer().join(slot=None, recovered=unsent)[1].slot == 1
    assert workers[0].step()[0].kind == Kind.ACTION
    assert "no free place" in spare.say(hello)[1].reason


def test_recovered_last_message_gives_the_slot_at_once(served):
    _, server, peer = served
    worker = peer()
    worker.join()
    worker.reset()
    server.liveness.drop(0)
    worker.say(worker.beat())  # it came late
    assert server.liveness.connected(0)
    unsent = worker.frame(Kind.STEP, protocol.encode_step(worker.outcome()), sequence=2)
    assert peer().join(recovered=unsent)[0].kind == Kind.WELCOME
    assert server.counts.recovered == 1


def test_slot_reservations_expire(served, clock):
    _, server, peer = served
    worker, newcomer = peer(), peer()
    worker.join()
    worker.reset()
    server.restore(server.exchange.notes())
    server.replay([])
    assert newcomer.say(newcomer.hello())[0].kind == Kind.PAUSE
    clock.now += 6.1  # more than twice dead_after
    assert newcomer.join()[0].kind == Kind.WELCOME


def test_successors_that_ask_for_any_slot_in_another_order_lose_nothing(served):
    learner, server, peer = served
    workers = [peer(), peer()]
    for slot, worker in enumerate(workers):
        worker.join(slot=slot)
        worker.reset()
        server.liveness.drop(slot)
    unsent = [
        worker.frame(Kind.STEP, protocol.encode_step(worker.outcome()), sequence=2)
        for worker in workers
    ]
    assert [peer().join(slot=None, recovered=frame)[1].slot for frame in unsent[::-1]] == [1, 0]
    observed = [call[1] for call in learner.calls if call[0] == "observe"]
    assert sorted(observed) == [[0, 1], [2, 3]]
    assert server.counts.recovered == 2


def test_session_without_a_successor_is_closed_after_patience(serve, clock):
    learner, server, peer = serve(patience=5.0)
    worker = peer()
    worker.join()
    worker.reset()
    server.liveness.drop(0)
    calls = list(learner.calls)
    clock.now += 4.9
    server.close_forgotten()
    assert learner.calls == calls
    clock.now += 0.2
    server.close_forgotten()
    assert learner.calls[-1] == ("abandon", [0, 1])


def test_worker_that_beats_but_does_not_step_times_out(served, clock):
    _, server, peer = served
    worker = peer()
    worker.join()
    worker.reset()
    for _ in range(7):
        assert server.liveness.lost() == []
        clock.now += 0.9
        worker.say(worker.beat())
    ((slot, reason),) = server.liveness.lost()
    assert slot == 0
    assert "step_timeout = 6 s" in reason
