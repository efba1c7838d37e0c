"""A worker by hand and a learner that writes down what it is told, for the tests of the server."""

import itertools
import time

import numpy as np
import zmq

from coupling.service.experience import ExperienceLog
from coupling.wire import protocol
from coupling.wire.protocol import Header, Hello, Kind, Step
from rl_agent.rollout.open_episodes import Decision


class Recorder:
    """A learner that writes down what it is told and answers the number of the agent."""

    def __init__(self):
        self.environment_steps = self.gradient_steps = self.owed = 0
        self.calls = []
        self.open_gate = True

    def begin(self, agents, observations):
        self.calls.append(("begin", agents.tolist(), observations.tolist()))

    def decide(self, agents):
        actions = np.repeat(agents[:, None], 2, axis=1).astype(np.float32)
        return Decision(
            agents, actions, actions, actions, actions[:, 0], actions[:, :0], actions, {}
        )

    def issue(self, decision):
        self.calls.append(("act", decision.agents.tolist()))
        self.owed += len(decision.agents)
        return decision.action

    def observe(self, agents, rewards, terminated, truncated, observations):
        self.environment_steps += len(agents)
        self.calls.append(
            (
                "observe",
                agents.tolist(),
                rewards.tolist(),
                terminated.tolist(),
                observations.tolist(),
            )
        )

    def abandon(self, agents):
        self.calls.append(("abandon", agents.tolist()))

    def updates_due(self):
        return self.owed

    def update(self):
        self.owed -= 1
        self.gradient_steps += 1

    def learnable(self, observations):
        return np.ones(len(observations), bool)

    def may_act(self):
        return self.open_gate


incarnations = itertools.count(1)


class Peer:
    """One DEALER that speaks the protocol by hand."""

    def __init__(self, server, context):
        self.server = server
        self.socket = context.socket(zmq.DEALER)
        self.socket.connect(server.endpoint)
        self.sequence = self.session = 0
        self.incarnation = next(incarnations)

    def send(self, frame):
        """Send a frame, or several as one message."""
        self.socket.send_multipart([frame] if isinstance(frame, bytes) else frame)

    def say(self, frame):
        """Send and return what is answered."""
        self.send(frame)
        return self.hear()

    def hear(self):
        """Wait for a message, however slow this machine is."""
        self.serve_until(lambda: self.socket.poll(5))
        header, body = protocol.decode(self.socket.recv())
        return header, body if header.kind == Kind.ACTION else protocol.decode_control(header, body)

    def serve_until(self, condition):
        until = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < until, "waited 60 s in vain"
            self.server.turn(0.01)

    def is_left_waiting(self, frame):
        """Send and tell whether nothing comes but the answers to two STATUS behind it, with whole turns between."""
        self.send(frame)
        return all(
            self.say(protocol.encode_control(protocol.Status()))[0].kind == Kind.STATUS_REPLY
            for _ in range(2)
        )

    def is_not_heard(self, frame):
        """Send and tell whether the server takes it for the word of an offender, and says nothing."""
        unheard = self.server.counts.unheard
        self.send(frame)
        self.serve_until(lambda: self.server.counts.unheard > unheard)
        self.server.turn(0)
        return not self.socket.poll(50)

    def hello(self, **changes):
        hello = {
            "versions": (1, 1),
            "incarnation": self.incarnation,
            "slot": 0,
            "pid": 1,
            "host": "h",
            "environments": 2,
            "observation_size": 1,
            "action_low": [-1.0, -1.0],
            "action_high": [1.0, 1.0],
            "task_hash": "t",
        }
        return protocol.encode_control(Hello(**hello | changes))

    def join(self, **changes):
        answer = self.say(self.hello(**changes))
        self.session = answer[0].session
        return answer

    def frame(self, kind, body, sequence, **fields):
        header = Header(
            kind, session=self.session, sequence=sequence, **{"environments": 2} | fields
        )
        return protocol.encode(header, body)

    def tell(self, kind, body, sequence=None, **fields):
        """Say a RESET or STEP, with the next sequence unless another one is given."""
        return self.say(self.message(kind, body, sequence, **fields))

    def message(self, kind, body, sequence=None, **fields):
        if sequence is None:
            self.sequence += 1
        return self.frame(kind, body, self.sequence if sequence is None else sequence, **fields)

    def reset(self):
        return self.say(self.reset_message())

    def reset_message(self, **kwargs):
        return self.message(Kind.RESET, np.array([[1.0], [2.0]], "<f4").tobytes(), **kwargs)

    def outcome(self, ended=(False, False)):
        ended = np.array(ended)
        return Step(
            rewards=np.array([5.0, 6.0]),
            observations=np.array([[3.0], [4.0]], np.float32),
            terminated=ended,
            truncated=~ended & False,
            diverged=ended & False,
            failed=ended & False,
            final=np.full((int(ended.sum()), 1), 9.0, np.float32),
        )

    def step(self, ended=(False, False), **kwargs):
        return self.say(self.step_message(ended, **kwargs))

    def step_message(self, ended=(False, False), **kwargs):
        return self.message(Kind.STEP, protocol.encode_step(self.outcome(ended)), **kwargs)

    def beat(self):
        return protocol.encode_control(protocol.Heartbeat(1, 1.0, 0.0, 0.0), session=self.session)

    def connect_anew(self, context):
        self.socket.close()
        self.socket = context.socket(zmq.DEALER)
        self.socket.connect(self.server.endpoint)

    def is_dismissed(self, frame):
        """Say something to a learner that says farewell, and tell whether it answers by GOODBYE, which is answered."""
        self.send(frame)
        assert self.socket.poll(60_000), "waited 60 s in vain"
        dismissed = protocol.decode(self.socket.recv())[0].kind == Kind.GOODBYE
        if self.session:
            self.send(protocol.encode_control(protocol.Goodbye("heard"), session=self.session))
        return dismissed


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class WatchedLog(ExperienceLog):
    """Notes at each flush whether a peer has heard something before it."""

    peer = None

    def __init__(self, folder):
        super().__init__(folder)
        self.heard_before = []

    def flush(self):
        if self.peer:
            self.heard_before.append(bool(self.peer.socket.poll(50)))
        super().flush()
