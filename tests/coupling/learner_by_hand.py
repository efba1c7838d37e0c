"""A scripted learner for the tests of the C client: the test decides what it sends and when."""

import subprocess
import time
from collections import Counter, deque

import numpy as np
import zmq

from coupling.settings.external import EXTERNAL
from coupling.wire import protocol
from coupling.wire.connection import Connection, task_hash, write_connection
from coupling.wire.protocol import Header, Kind, Welcome

GUARD = 120  # seconds, against a hang only: no test here depends on how fast or busy the machine is
OPTIONS = {"observation_size": 2, "action_low": [-1.0], "action_high": [1.0]}
HASH = task_hash(EXTERNAL, OPTIONS)
SESSION = 77


class Hand:
    """A scripted learner: a ROUTER, and the example as its worker.

    A repeated message gets the same answer again, as the protocol requires: a pause of one side must not confuse the
    other.
    """

    def __init__(self, built, folder, *, environments=1, heartbeat=0.1, patience=120.0):
        self.program, self.folder, self.environments = built / "example", folder, environments
        self.heartbeat, self.patience = heartbeat, patience
        self.context = zmq.Context()
        self.processes = []
        self.beats, self.inbox = Counter(), deque()
        self.welcomed, self.answered, self.answer = False, 0, b""
        self.pid, self.started = None, 0
        self.bind()

    def bind(self):
        self.socket = self.context.socket(zmq.ROUTER)
        self.socket.linger = 100
        self.socket.bind("tcp://127.0.0.1:*")
        self.write_file(self.socket.get_string(zmq.LAST_ENDPOINT))

    def write_file(self, endpoint):
        connection = Connection(endpoint, "hand", EXTERNAL, OPTIONS, self.patience)
        write_connection(self.folder / "connection.json", connection)

    def start(self, *more):
        self.welcomed, self.answered, self.started = False, 0, time.monotonic_ns()
        self.inbox.clear()
        command = [self.program, self.folder / "connection.json", "0", self.environments, *more]
        process = subprocess.Popen(
            [str(word) for word in command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        self.pid = process.pid
        return process

    def attend(self, seconds):
        """Take in one message, if one comes in time, and echo it if it is a heartbeat; return its route and header."""
        if not self.socket.poll(1000 * seconds):
            return None
        route, frame = self.socket.recv_multipart()
        header, body = protocol.decode(frame)
        if self.is_of_another_process(header, body):
            return None
        if header.kind == Kind.HEARTBEAT:
            self.beats[route] += 1
            self.life = protocol.decode_control(*protocol.decode(frame))
            self.say(route, frame)
        elif header.kind == Kind.HELLO and self.welcomed:
            self.say(route, self.welcome_frame())
        elif header.kind in (Kind.RESET, Kind.STEP) and header.sequence <= self.answered:
            if header.sequence == self.answered:
                self.say(route, self.answer)
        else:
            self.inbox.append((route, header, frame))
        return route, header

    def is_of_another_process(self, header, body):
        """Tell whether a message was sent before the present process was started."""
        if header.kind == Kind.HELLO:
            return self.pid not in (None, protocol.decode_control(header, body).pid)
        return 0 < header.clock < self.started

    def attend_until(self, condition):
        until = time.monotonic() + GUARD
        while not condition():
            assert time.monotonic() < until, f"waited {GUARD} s in vain"
            self.attend(0.02)

    def hear(self):
        """The next message that is no heartbeat and was not answered yet: route, header, frame."""
        while True:
            self.attend_until(lambda: self.inbox)
            route, header, frame = self.inbox.popleft()
            if header.kind not in (Kind.RESET, Kind.STEP) or header.sequence > self.answered:
                return route, header, frame

    def is_left_alone(self, seconds):
        """Tell whether nothing but heartbeats comes for a while."""
        until = time.monotonic() + seconds
        while not self.inbox and (left := until - time.monotonic()) > 0:
            self.attend(left)
        return not self.inbox

    def say(self, route, frame):
        self.socket.send_multipart([route, frame])

    def join(self):
        route, header, frame = self.hear()
        assert header.kind == Kind.HELLO
        self.hello = protocol.decode_control(*protocol.decode(frame))
        self.welcome(route)
        return route

    def welcome_frame(self):
        seeds = list(range(self.environments))
        body = Welcome(1, SESSION, 0, 0, seeds, self.heartbeat, self.patience)
        return protocol.encode_control(body, session=SESSION)

    def welcome(self, route):
        self.welcomed = True
        self.inbox = deque(message for message in self.inbox if message[1].kind != Kind.HELLO)
        self.say(route, self.welcome_frame())

    def action(self, route, number, value=0.25, sequence=None):
        values = np.full((self.environments, 1), value, "<f4").tobytes()
        header = Header(
            Kind.ACTION,
            session=SESSION,
            sequence=sequence or number,
            acknowledgement=number,
            environments=self.environments,
        )
        frame = protocol.encode(header, values)
        if number > self.answered:
            self.answered, self.answer = number, frame
        self.say(route, frame)

    def control(self, route, body, **fields):
        self.say(route, protocol.encode_control(body, session=SESSION, **fields))

    def tell_until_it_ends(self, process, message, route, by_the_heart=False):
        """Say something, and again to each message that comes: it may have left the connection meanwhile."""
        self.control(route, message)
        while process.poll() is None:
            heard = self.attend(0.05)
            if heard and (heard[1].kind == Kind.HEARTBEAT) == by_the_heart:
                self.control(heard[0], message)
        return ended(process)

    def see_it_end(self, process):
        self.attend_until(lambda: process.poll() is not None)
        return ended(process)

    def close(self):
        for process in self.processes:
            process.kill()
            process.communicate()
        self.context.destroy(linger=0)


def ended(process):
    out, err = process.communicate(timeout=GUARD)
    return process.returncode, out, err
