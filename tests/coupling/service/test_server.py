"""The learner's side against raw sockets: what it answers, which peers it refuses, what it hands to the learner."""

import numpy as np
import pytest

from coupling.errors import RunError
from coupling.service.experience import ExperienceLog, Opened, Taken
from coupling.wire import protocol
from coupling.wire.protocol import Header, Kind, Step


def test_a_worker_joins_acts_and_reports(served):
    learner, server, peer = served
    second = peer()
    header, welcome = second.join(slot=1)
    assert (header.kind, welcome.first_agent, welcome.seeds) == (Kind.WELCOME, 2, [2, 3])
    header, body = second.reset()
    assert header.acknowledgement == 1
    np.testing.assert_array_equal(protocol.decode_actions(body, 2, 2), [[2, 2], [3, 3]])
    header, _ = second.step()
    assert header.acknowledgement == 2
    assert learner.calls == [
        ("begin", [2, 3], [[1.0], [2.0]]),
        ("act", [2, 3]),
        ("observe", [2, 3], [5.0, 6.0], [False, False], [[3.0], [4.0]]),
        ("act", [2, 3]),
    ]
    assert server.exchange.agent_steps.tolist() == [0, 0, 1, 1]


def test_an_ended_episode_gives_its_final_observation_and_the_next_one_its_first(served):
    learner, _, peer = served
    worker = peer()
    worker.join()
    worker.reset()
    worker.step(ended=(False, True))
    assert ("observe", [0, 1], [5.0, 6.0], [False, True], [[3.0], [9.0]]) in learner.calls
    assert learner.calls[-2:] == [("begin", [1], [[4.0]]), ("act", [0, 1])]


def test_all_waiting_workers_are_answered_by_one_inference(served):
    learner, server, peer = served
    one, two = peer(), peer()
    one.join(slot=0)
    two.join(slot=1)
    learner.open_gate = False
    assert one.is_left_waiting(one.reset_message())
    assert two.is_left_waiting(two.reset_message())
    learner.open_gate = True
    assert one.hear()[0].kind == Kind.ACTION
    assert ("act", [0, 1, 2, 3]) in learner.calls
    assert server.counts.batches == 1
    assert server.counts.round_trips == 4


def test_gradient_steps_are_done_between_the_messages(served):
    learner, server, peer = served
    worker = peer()
    worker.join()
    worker.reset()
    for _ in range(3):
        server.turn(0)
    assert learner.gradient_steps == 2


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"task_hash": "other"}, "another task"),
        ({"observation_size": 3}, "3 and 2 numbers, this run's have 1 and 2"),
        ({"slot": 2}, "no worker 2 in this run"),
        ({"environments": 5}, "hosts 5 environments, this run gives it 2"),
    ],
)
def test_mismatched_worker_is_refused_with_a_reason(served, changes, sentence):
    _, server, peer = served
    header, message = peer().join(**changes)
    assert header.kind == Kind.REJECT
    assert sentence in message.reason
    assert not server.liveness.connected(0)


def test_a_repeated_hello_is_answered_by_the_same_welcome(served):
    _, _, peer = served
    worker = peer()
    _, welcome = worker.join()
    assert worker.join()[1] == welcome
    elsewhere = peer()  # the connection was lost before the answer came
    assert elsewhere.join(incarnation=worker.incarnation)[1] == welcome


def test_other_version_is_refused_with_a_reason(served):
    _, server, peer = served
    header, message = peer().say(protocol.encode(Header(Kind.HELLO), b"", version=(7, 3)))
    assert header.kind == Kind.REJECT
    assert "version 7.3 was spoken, this side speaks 1.1" in message.reason
    assert server.counts.violations == 1


def test_violations_are_refused_once_and_never_reach_the_learner(served):
    learner, server, peer = served
    worker = peer()
    worker.join()
    worker.reset()
    calls = list(learner.calls)
    for frame in (b"noise", [b"two", b"frames"], protocol.encode_control(protocol.Reject("no"))):
        offender = peer()
        header, _ = offender.say(frame)
        assert header.kind == Kind.REJECT
        assert offender.is_not_heard(frame)
    assert (server.counts.violations, server.counts.unheard) == (3, 3)
    stranger = peer()
    stranger.session = 5
    assert "not known" in stranger.tell(Kind.STEP, b"")[1].reason
    assert server.counts.strangers == 1
    assert learner.calls == calls
    assert worker.step()[0].kind == Kind.ACTION


@pytest.mark.parametrize(
    ("kind", "changes", "sentence"),
    [
        (Kind.STEP, {"sequence": 7}, "cannot come now"),
        (Kind.STEP, {"sequence": 2, "first": 1}, "all 2 environments"),
        (Kind.RESET, {"sequence": 2}, "RESET is the first"),
        (Kind.STEP, {"sequence": 1}, "RESET is the first"),
    ],
)
def test_message_out_of_order_ends_the_session(served, kind, changes, sentence):
    learner, server, peer = served
    worker = peer()
    worker.join()
    worker.reset()
    calls = list(learner.calls)
    header, message = worker.tell(kind, bytes(26), **changes)
    assert header.kind == Kind.ERROR
    assert sentence in message.reason
    assert worker.is_not_heard(worker.step_message(sequence=2))
    assert server.counts.violations == 1
    assert learner.calls == calls


def test_step_before_the_previous_answer_ends_the_session(served):
    learner, _, peer = served
    worker = peer()
    worker.join()
    learner.open_gate = False
    assert worker.is_left_waiting(worker.reset_message())
    header, message = worker.step()
    assert header.kind == Kind.ERROR
    assert "cannot come now" in message.reason


def test_repeated_message_is_answered_again_and_counts_once(served):
    learner, server, peer = served
    worker = peer()
    worker.join()
    worker.reset()
    first = worker.step()
    calls = list(learner.calls)
    again = worker.step(sequence=2)
    assert again[0] == first[0]
    assert again[1] == first[1]
    elsewhere = peer()  # over another connection, too
    elsewhere.session = worker.session
    assert elsewhere.step(sequence=2)[1] == first[1]
    # answered long ago: it names whose answer it is
    late = worker.say(worker.reset_message(sequence=1))[0]
    assert (late.kind, late.sequence) == (Kind.ERROR, 1)
    assert learner.calls == calls
    assert (server.counts.repeats, server.counts.stale) == (2, 1)


def test_answer_is_sent_over_every_connection_that_brought_a_copy(served):
    """A worker made new connections while the learner was away, which reads the copies in any order; one is alive."""
    learner, server, peer = served
    worker = peer()
    worker.join()
    lines = [worker, peer(), peer()]
    for line in lines:
        line.session = worker.session
    learner.open_gate = False
    assert worker.is_left_waiting(worker.reset_message())
    for line in lines:
        assert line.say(line.reset_message(sequence=1))[0].kind == Kind.PAUSE
    assert worker.say(worker.hello())[0].kind == Kind.WELCOME  # an old copy, read last
    learner.open_gate = True
    answers = [line.hear() for line in lines]
    assert all((header.kind, header.acknowledgement) == (Kind.ACTION, 1) for header, _ in answers)
    assert server.counts.round_trips == 2
    worker.sequence = 1
    assert worker.step()[0].kind == Kind.ACTION
    server.turn(0)
    assert not any(line.socket.poll(50) for line in lines[1:]), "what they brought is answered"


def test_message_repeated_before_its_answer_gets_a_pause(served):
    learner, server, peer = served
    worker = peer()
    worker.join()
    learner.open_gate = False
    assert worker.is_left_waiting(worker.reset_message())
    header, pause = worker.say(worker.reset_message(sequence=1))
    assert (header.kind, header.acknowledgement) == (Kind.PAUSE, 1)
    assert "learning must catch up" in pause.reason
    learner.open_gate = True
    assert worker.hear()[0].kind == Kind.ACTION
    assert [call[0] for call in learner.calls] == ["begin", "act"]
    assert server.counts.pauses == 1


def test_paused_message_is_already_logged(served, log, tmp_path):
    learner, _, peer = served
    worker = peer()
    worker.join()
    learner.open_gate = False
    log.peer = worker
    for _ in range(2):  # as a rule both come within one turn
        worker.send(worker.reset_message(sequence=1))
    assert worker.hear()[0].kind == Kind.PAUSE
    assert log.heard_before == [False]
    assert [type(record) for record in ExperienceLog(tmp_path / "experience").records_since(0)][
        1:
    ] == [Taken]


def test_failed_environment_gives_no_transition_and_restarts(served):
    learner, server, peer = served
    worker = peer()
    worker.join()
    worker.reset()
    step = Step(
        rewards=np.array([5.0, 0.0]),
        observations=np.array([[3.0], [7.0]], np.float32),
        terminated=np.zeros(2, bool),
        truncated=np.zeros(2, bool),
        diverged=np.zeros(2, bool),
        failed=np.array([False, True]),
        final=np.zeros((0, 1), np.float32),
    )
    worker.tell(Kind.STEP, protocol.encode_step(step))
    assert learner.calls[-4:] == [
        ("observe", [0], [5.0], [False], [[3.0]]),
        ("abandon", [1]),
        ("begin", [1], [[7.0]]),
        ("act", [0, 1]),
    ]
    assert server.counts.failed == 1
    assert server.exchange.agent_steps.tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize("what", ["noise", "an action", "a flipped bit"])
def test_invalid_recovered_frame_makes_a_hello_malformed(served, what):
    learner, server, peer = served
    worker = peer()
    worker.join()
    worker.reset()
    calls = list(learner.calls)
    server.liveness.drop(0)
    # the body of an action has the form of a RESET's
    action = worker.frame(Kind.ACTION, np.array([[1.0], [2.0]], "<f4").tobytes(), sequence=3)
    step = worker.frame(Kind.STEP, protocol.encode_step(worker.outcome()), sequence=2)
    flipped = step[:-1] + bytes([step[-1] ^ 1])
    recovered = {"noise": b"noise", "an action": action, "a flipped bit": flipped}[what]
    assert peer().join(recovered=recovered)[0].kind == Kind.REJECT
    assert server.counts.violations == 1
    assert learner.calls == calls
    assert peer().join()[0].kind == Kind.WELCOME  # its place is still to be had


def test_a_status_within_a_session_is_malformed(served):
    _, server, peer = served
    worker = peer()
    worker.join()
    frame = protocol.encode_control(protocol.Status(), session=worker.session)
    assert worker.say(frame)[0].kind == Kind.REJECT
    assert server.counts.violations == 1


def test_status_is_answered_to_anybody(served):
    _, server, peer = served
    server.report = '{"state": "training"}'
    assert peer().say(protocol.encode_control(protocol.Status()))[1].json == server.report


def replies(peer):
    """Take what a peer was told so far, answers to STATUS alone; some are lost when the connection is full."""
    count = 0
    while peer.socket.poll(50):
        assert protocol.decode(peer.socket.recv())[0].kind == Kind.STATUS_REPLY
        count += 1
    return count


def test_status_requests_of_one_peer_are_limited(served, clock):
    """It is answered a hundred times within a second, other peers as usual, and afterwards it is answered again."""
    _, server, peer = served
    worker, curious, honest = peer(), peer(), peer()
    worker.join()
    worker.reset()
    for _ in range(500):
        curious.send(protocol.encode_control(protocol.Status()))
    header, _ = worker.step()
    assert header.acknowledgement == 2
    curious.serve_until(lambda: server.counts.unheard == 400)
    assert curious.hear()[0].kind == Kind.STATUS_REPLY
    assert replies(curious) < 100
    assert honest.say(protocol.encode_control(protocol.Status()))[0].kind == Kind.STATUS_REPLY
    assert server.counts.violations == 0
    clock.now += 1.0
    assert curious.say(protocol.encode_control(protocol.Status()))[0].kind == Kind.STATUS_REPLY


def test_status_requests_of_all_peers_are_limited_to_400_per_second(served):
    _, server, peer = served
    crowd = [peer() for _ in range(10)]
    for each in crowd:
        for _ in range(90):
            each.send(protocol.encode_control(protocol.Status()))
    crowd[0].serve_until(lambda: server.counts.unheard == 500)
    assert crowd[0].hear()[0].kind == Kind.STATUS_REPLY
    assert sum(map(replies, crowd)) < 400


def test_no_action_is_given_beyond_the_limit(serve):
    learner, server, peer = serve(limit=4)
    worker = peer()
    worker.join()
    worker.reset()
    assert worker.step()[0].kind == Kind.ACTION
    assert worker.is_left_waiting(worker.step_message())
    assert learner.environment_steps == 4
    while learner.owed:
        assert not server.exchange.finished
        server.turn(0)
    assert server.exchange.finished


def test_sessions_replayed_before_a_damage_are_known(served):
    _, server, _ = served

    def damaged():
        yield Opened(7, 8, 1, 2, 2)
        raise RunError("the log is damaged")

    with pytest.raises(RunError, match="the log is damaged"):
        server.replay(damaged())
    assert not server.liveness.connected(1)
    assert server.liveness.summaries() == []
