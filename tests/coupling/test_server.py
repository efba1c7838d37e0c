"""The learner's side against raw sockets: what it answers, whom it refuses, what it hands to the learner."""

import time

import numpy as np
import pytest
import zmq

from coupling import protocol
from coupling.protocol import Header, Hello, Kind, Step
from coupling.server import Server, Terms


class Recorder:
    """A learner that writes down what it is told and answers the number of the agent."""

    def __init__(self):
        self.environment_steps = self.gradient_steps = self.owed = 0
        self.calls = []
        self.open_gate = True

    def begin(self, agents, observations):
        self.calls.append(("begin", agents.tolist(), observations.tolist()))

    def act(self, agents):
        self.calls.append(("act", agents.tolist()))
        self.owed += len(agents)
        return np.repeat(agents[:, None], 2, axis=1).astype(np.float32)

    def observe(self, agents, rewards, terminated, truncated, observations):
        self.environment_steps += len(agents)
        self.calls.append(("observe", agents.tolist(), rewards.tolist(), terminated.tolist(), observations.tolist()))

    def abandon(self, agents):
        self.calls.append(("abandon", agents.tolist()))

    def updates_due(self):
        return self.owed

    def update(self):
        self.owed -= 1
        self.gradient_steps += 1

    def may_act(self):
        return self.open_gate


class Peer:
    """One DEALER that speaks the protocol by hand."""

    def __init__(self, server, context):
        self.server = server
        self.socket = context.socket(zmq.DEALER)
        self.socket.connect(server.endpoint)
        self.sequence = self.session = 0

    def say(self, frame, turns=40):
        """Send a frame (or several as one message) and return what is answered, None for silence."""
        self.socket.send_multipart([frame] if isinstance(frame, bytes) else frame)
        return self.hear(turns)

    def hear(self, turns=40):
        for _ in range(turns):
            self.server.turn(0.01)
            if self.socket.poll(5):
                header, body = protocol.decode(self.socket.recv())
                return header, body if header.kind == Kind.ACTION else protocol.decode_control(header, body)
        return None

    def join(self, **changes):
        hello = {
            "slot": 0,
            "pid": 1,
            "host": "h",
            "environments": 2,
            "observation_size": 1,
            "action_size": 2,
            "task_hash": "t",
        }
        answer = self.say(protocol.encode_control(Hello(**hello | changes)))
        self.session = answer[0].session
        return answer

    def tell(self, kind, body, sequence=None, **fields):
        self.sequence += 1
        number = self.sequence if sequence is None else sequence
        header = Header(kind, session=self.session, sequence=number, environments=2, **fields)
        return self.say(protocol.encode(header, body))

    def reset(self):
        return self.tell(Kind.RESET, np.array([[1.0], [2.0]], "<f4").tobytes())

    def step(self, ended=(False, False), **kwargs):
        ended = np.array(ended)
        step = Step(
            rewards=np.array([5.0, 6.0]),
            observations=np.array([[3.0], [4.0]], np.float32),
            terminated=ended,
            truncated=~ended & False,
            diverged=ended & False,
            final=np.full((int(ended.sum()), 1), 9.0, np.float32),
        )
        return self.tell(Kind.STEP, protocol.encode_step(step), **kwargs)


@pytest.fixture
def served():
    learner = Recorder()
    terms = Terms([2, 2], 1, 2, "t", lambda agent, start: 100 * start + agent, dead_after=0.3, step_timeout=0.6)
    server = Server(learner, "tcp://127.0.0.1:*", terms, limit=1000)
    context = zmq.Context()
    yield learner, server, lambda: Peer(server, context)
    context.destroy(linger=0)
    server.close("over")


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
    assert server.agent_steps.tolist() == [0, 0, 1, 1]


def test_an_ended_episode_gives_its_final_observation_and_the_next_one_its_first(served):
    learner, _, peer = served
    worker = peer()
    worker.join()
    worker.reset()
    worker.step(ended=(False, True))
    assert ("observe", [0, 1], [5.0, 6.0], [False, True], [[3.0], [9.0]]) in learner.calls
    assert learner.calls[-2:] == [("begin", [1], [[4.0]]), ("act", [0, 1])]


def test_all_that_wait_are_answered_by_one_inference(served):
    learner, server, peer = served
    one, two = peer(), peer()
    one.join(slot=0)
    two.join(slot=1)
    learner.open_gate = False
    assert one.reset() is None
    assert two.reset() is None
    learner.open_gate = True
    assert one.hear() is not None
    assert ("act", [0, 1, 2, 3]) in learner.calls
    assert server.batches == 1
    assert server.round_trips == 4


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
def test_who_does_not_fit_is_refused_with_a_sentence(served, changes, sentence):
    _, server, peer = served
    header, message = peer().join(**changes)
    assert header.kind == Kind.REJECT
    assert sentence in message.reason
    assert not server.connected(0)


def test_a_worker_that_is_there_already_is_refused_and_a_repeated_hello_is_not(served):
    _, _, peer = served
    worker = peer()
    _, welcome = worker.join()
    assert worker.join()[1] == welcome
    assert "connected already" in peer().join()[1].reason


def test_another_version_is_refused_with_a_sentence(served):
    _, server, peer = served
    header, message = peer().say(protocol.encode(Header(Kind.HELLO), b"", version=(7, 3)))
    assert header.kind == Kind.REJECT
    assert "version 7.3 was spoken, this side speaks 1.0" in message.reason
    assert server.violations == 1


def test_violations_are_refused_and_never_reach_the_learner(served):
    learner, server, peer = served
    worker = peer()
    worker.join()
    worker.reset()
    calls = list(learner.calls)
    for frame in (b"noise", [b"two", b"frames"], protocol.encode(Header(Kind.STEP, session=12345), b"")):
        header, _ = worker.say(frame)
        assert header.kind == Kind.REJECT
    header, message = worker.step(sequence=7)
    assert header.kind == Kind.REJECT
    assert "out of turn" in message.reason
    header, message = worker.tell(Kind.STEP, bytes(30), sequence=2, first=1)
    assert "all 2 environments" in message.reason
    assert server.violations == 5
    assert learner.calls == calls


def test_silence_is_noticed_and_a_drop_abandons_the_episodes(served):
    learner, server, peer = served
    worker = peer()
    worker.join()
    worker.reset()
    assert server.lost() == []
    time.sleep(0.4)
    server.turn(0)
    assert [slot for slot, _ in server.lost()] == [0]
    server.drop(0)
    assert learner.calls[-1] == ("abandon", [0, 1])
    _, welcome = peer().join()
    assert welcome.seeds == [100, 101]  # the next incarnation does not repeat the same episodes


def test_a_worker_that_beats_but_does_not_step_is_too_slow(served):
    _, server, peer = served
    worker = peer()
    worker.join()
    worker.reset()
    for _ in range(8):
        time.sleep(0.1)
        worker.say(protocol.encode_control(protocol.Heartbeat(1, 1.0, 0.0, 0.0), session=worker.session))
    ((slot, reason),) = server.lost()
    assert slot == 0
    assert "step_timeout = 0.6" in reason


def test_no_action_is_given_beyond_the_limit(served):
    learner, server, peer = served
    server._limit = 4
    worker = peer()
    worker.join()
    worker.reset()
    assert worker.step() is not None
    assert worker.step() is None
    assert learner.environment_steps == 4
    while learner.owed:
        assert not server.finished
        server.turn(0)
    assert server.finished
