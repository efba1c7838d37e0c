"""The C client: built with the make target, against the golden vectors, a learner by hand and the real one.

One file, so that the client is built once and a change of it is judged in one place.
"""

import ctypes
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
import zlib
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import zmq
from zmq.auth.thread import ThreadAuthenticator

from coupling.service.experience import ExperienceLog
from coupling.service.server import Server, Terms
from coupling.settings.config import load_config
from coupling.settings.external import EXTERNAL
from coupling.wire import protocol
from coupling.wire.connection import Connection, task_hash, write_connection
from coupling.wire.protocol import HEADER_SIZE, Header, Kind, Welcome
from coupling.worker.environments import describe_task
from coupling.worker.outbox import read_outbox
from rl_agent.config import AgentConfig
from rl_agent.learner import Learner

ROOT = Path(__file__).parents[2]
GOLDEN = json.loads(
    (ROOT / "coupling" / "wire" / "golden_vectors.json").read_text(encoding="utf-8")
)
READ_BY_A_CLIENT = {"WELCOME", "REJECT", "ACTION", "PAUSE", "ERROR", "GOODBYE"}
GUARD = 120  # seconds, against a hang only: no test here depends on how fast or busy the machine is
WRITTEN_BY_A_CLIENT = {"HELLO", "RESET", "STEP", "HEARTBEAT", "ERROR", "GOODBYE"}


@pytest.fixture(scope="session")
def built(c_tools, tmp_path_factory):
    folder = tmp_path_factory.mktemp("c-client")
    make = subprocess.run(
        ["make", "c-client-test", f"C_BUILD={folder}"], cwd=ROOT, capture_output=True, text=True
    )
    assert make.returncode == 0, make.stderr
    return folder


# --- frames -------------------------------------------------------------------------------------------------


def told(built, lines):
    """What the C program answers to each line."""
    text = "".join(f"{line}\n" for line in lines)
    done = subprocess.run(
        [built / "golden_vectors"], input=text, capture_output=True, text=True, timeout=GUARD
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def words(vector):
    """The line by which the C program is told to write a frame."""
    body, header = vector["body"], vector["header"]
    as_hex = lambda text: text.encode().hex() or "00"  # noqa: E731
    rows = [
        number for name in ("observations", "final") for row in body.get(name, []) for number in row
    ]
    match vector["type"]:
        case "HELLO":
            content = [
                body["incarnation"],
                -1 if body["slot"] is None else body["slot"],
                body["pid"],
            ]
            content += [
                as_hex(body["host"]),
                *body["action_low"],
                *body["action_high"],
                as_hex(body["task_hash"]),
            ]
            content += [body["recovered"].removeprefix("hex:")]
        case "RESET":
            content = rows
        case "STEP":
            content = [*body["status"], *body["rewards"], *rows]
        case "HEARTBEAT":
            content = [body[key] for key in ("steps", "resends", "failures")]
            content += [body[key] for key in ("step_seconds", "delay_p50_us", "delay_p99_us")]
            content += [as_hex(body["failure"])]
        case _:
            content = [as_hex(body["reason"])]
    numbers = (header[key] for key in ("session", "sequence", "clock"))
    return " ".join(str(word) for word in ("write", vector["type"], *numbers, *content))


def test_the_c_client_reads_the_golden_vectors(built):
    vectors = GOLDEN["vectors"]
    answers = told(built, [f"read {vector['hex']}" for vector in vectors])
    for vector, answer in zip(vectors, map(json.loads, answers), strict=True):
        assert "refused" not in answer, (vector["name"], answer)
        assert answer["type"] == vector["type"]
        assert answer["header"] == vector["header"], vector["name"]
        if vector["type"] in READ_BY_A_CLIENT:
            body = {key: value for key, value in answer["body"].items() if key != "read"}
            if "reason" in body:
                body["reason"] = bytes.fromhex(body["reason"]).decode()
            assert body == vector["body"], vector["name"]


def test_the_c_client_writes_the_golden_vectors(built):
    vectors = [v for v in GOLDEN["vectors"] if v["type"] in WRITTEN_BY_A_CLIENT and v["canonical"]]
    vectors = [v for v in vectors if not v["header"]["epoch"]]  # a GOODBYE of the learner
    assert {vector["type"] for vector in vectors} == WRITTEN_BY_A_CLIENT
    for vector, answer in zip(vectors, told(built, map(words, vectors)), strict=True):
        assert answer == vector["hex"], vector["name"]


def test_the_c_client_refuses_what_is_malformed(built):
    entries = GOLDEN["malformed"]
    answers = told(built, [f"read {entry['hex']}" for entry in entries])
    for entry, answer in zip(entries, answers, strict=True):
        assert "refused" in json.loads(answer), entry["name"]


def test_frames_of_chance_are_read_or_refused_and_do_no_harm(built):
    """The program is built with sanitizers: reading beyond a frame would end it."""
    rng = random.Random(0)
    frames = [bytes.fromhex(vector["hex"]) for vector in GOLDEN["vectors"]]
    lines = []
    for _ in range(5000):
        frame = bytearray(rng.choice(frames))
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(HEADER_SIZE, len(frame) + 1)
            change = rng.choice(("byte", "end", "insertion"))
            if change == "end":
                del frame[place:]
            elif change == "insertion":
                frame[place:place] = rng.randbytes(rng.randint(1, 6))
            else:
                frame[place : place + 1] = rng.randbytes(1)
        frame[8:12] = (len(frame) - HEADER_SIZE).to_bytes(4, "little")
        frame[12:16] = bytes(4)
        frame[12:16] = zlib.crc32(frame).to_bytes(4, "little")  # or it would end at the checksum
        lines.append(f"read {frame.hex()}")
    answers = told(built, lines)
    assert len(answers) == len(lines)
    assert 500 < sum("refused" in answer for answer in answers) < 4500


# --- the worker's state table, against a learner by hand ----------------------------------------------------------

OPTIONS = {"observation_size": 2, "action_low": [-1.0], "action_high": [1.0]}
HASH = task_hash(EXTERNAL, OPTIONS)
SESSION = 77


class Hand:
    """A learner by hand: a ROUTER, and the example as its worker.

    What was answered already and comes again gets the same answer again, as the protocol has it: neither side may be
    confused by the other's having stood still for a while.
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
        """Tell whether a message was on its way since before the present process was started."""
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


@pytest.fixture
def hand(built, tmp_path):
    hands = []

    def make(**settings):
        hands.append(Hand(built, tmp_path, **settings))
        return hands[-1]

    yield make
    for each in hands:
        each.close()


def ended(process):
    out, err = process.communicate(timeout=GUARD)
    return process.returncode, out, err


def test_it_joins_steps_and_ends_with_goodbye(hand):
    learner = hand(environments=3)
    process = learner.start()
    route = learner.join()
    hello = learner.hello
    assert (hello.versions, hello.slot, hello.environments, hello.observation_size) == (
        (1, 1),
        0,
        3,
        2,
    )
    assert (hello.action_low, hello.action_high, hello.task_hash) == ([-1.0], [1.0], HASH)
    assert (hello.pid, hello.recovered) == (process.pid, b"")
    assert hello.incarnation
    state = None
    for number in range(1, 8):
        _, header, frame = learner.hear()
        assert (header.session, header.sequence, header.environments) == (SESSION, number, 3)
        body = frame[64:]
        if number == 1:
            assert header.kind == Kind.RESET
            state = protocol.decode_observations(body, 3, 2).astype(float)
        else:
            step = protocol.decode_step(body, 3, 2)
            # 2.5 is clipped to 1
            v = state[:, 1] + 0.05 * (state[:, 0] - 0.1 * state[:, 1] + 2 * 1.0)
            x = state[:, 0] + 0.05 * v
            np.testing.assert_allclose(step.observations, np.stack([x, v], 1), atol=1e-6)
            np.testing.assert_allclose(step.rewards, 1 - x**2, atol=1e-6)
            assert not step.ended.any()
            state = step.observations.astype(float)
        if number < 7:
            learner.action(route, number, value=2.5)
    code, out, err = learner.tell_until_it_ends(process, protocol.Goodbye("enough"), route)
    assert (code, err) == (0, "")
    assert [line.split()[:4] for line in out.splitlines()] == [
        ["environment", str(i), "steps", "6"] for i in range(3)
    ]


def test_hello_is_said_again_unchanged_until_it_is_answered(hand):
    learner = hand()
    learner.start()
    heard = [learner.hear() for _ in range(4)]
    assert {header.kind for _, header, _ in heard} == {Kind.HELLO}
    assert len({frame for *_, frame in heard}) == 1
    learner.welcome(heard[-1][0])
    assert learner.hear()[1].kind == Kind.RESET


def test_a_message_without_an_answer_is_sent_again_unchanged_over_a_new_connection(hand):
    learner = hand()
    process = learner.start()
    first_route = learner.join()
    _, header, first = learner.hear()
    assert (header.kind, header.sequence) == (Kind.RESET, 1)
    second_route, _, second = learner.hear()
    assert second == first
    assert second_route != first_route
    learner.action(second_route, 1)
    _, header, step = learner.hear()
    assert (header.kind, header.sequence) == (Kind.STEP, 2)
    learner.action(second_route, 1)  # to the message that was sent twice: outdated
    learner.control(second_route, protocol.Pause("of old"), acknowledgement=1)
    learner.welcome(second_route)  # to a HELLO that was said twice
    learner.say(second_route, b"noise")
    learner.socket.send_multipart([second_route, b"two", b"frames"])
    route, _, again = learner.hear()
    assert again == step  # none of these was taken for the answer
    # it may have been too late for the first, which the next message would cross in 2 s, then 4
    for _ in range(2):
        learner.control(route, protocol.Pause("gradient steps first"), acknowledgement=2)
        if is_calm := learner.is_left_alone(4.5):  # the message is safe: no hurry
            break
        route, *_ = learner.hear()
    assert is_calm
    learner.action(route, 2)
    assert learner.hear()[1].sequence == 3
    learner.attend_until(lambda: learner.life.resends >= 2)
    assert process.poll() is None


def test_a_goodbye_that_came_while_the_process_stood_still_is_read(hand):
    learner, attempts = hand(patience=600.0), 0
    while True:
        process = learner.start()
        route = learner.join()
        _, header, _ = learner.hear()
        os.kill(process.pid, signal.SIGSTOP)
        learner.control(route, protocol.Goodbye("the run is finished"))
        if time.monotonic_ns() - header.clock < 0.5e9:
            break  # said to the connection that it reads: it has not said its message over another one
        process.kill()  # something else stood still, too
        attempts += 1
        assert attempts < 50
    learner.socket.close(linger=10_000)
    time.sleep(1.5)  # so that its message is due to be said again when it goes on
    os.kill(process.pid, signal.SIGCONT)
    assert ended(process)[0] == 0


def test_heartbeats_come_over_a_connection_of_their_own(hand):
    learner, began = hand(heartbeat=0.05), time.monotonic()
    learner.start()
    route = learner.join()
    learner.hear()
    learner.attend_until(lambda: learner.beats.total() > 5)
    assert learner.beats.total() < (time.monotonic() - began) / 0.05 + 2  # at the pace of WELCOME
    assert route not in learner.beats
    assert (learner.life.steps, learner.life.failures) == (0, 0)
    for number in range(1, 6):
        learner.action(route, number)
        route, header, _ = learner.hear()
        assert header.sequence == number + 1
        assert route not in learner.beats
    learner.attend_until(lambda: learner.life.steps == 5)
    assert 0 < learner.life.delay_p50_us <= learner.life.delay_p99_us


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (protocol.Error("out of order"), "the learner ended this worker: out of order"),
        (protocol.Reject("not you"), "the learner refused this worker: not you"),
    ],
)
@pytest.mark.parametrize("by_the_heart", [False, True])
def test_error_and_reject_end_it_with_the_reason(hand, message, sentence, by_the_heart):
    learner = hand(heartbeat=0.05)
    process = learner.start()
    route = learner.join()
    learner.hear()
    learner.attend_until(lambda: learner.beats)
    heart = next(iter(learner.beats))
    code, _, err = learner.tell_until_it_ends(
        process, message, heart if by_the_heart else route, by_the_heart
    )
    assert (code, err) == (1, f"example: {sentence}\n")


def test_a_hello_that_is_refused_ends_it(hand):
    learner = hand()
    process = learner.start()
    route, *_ = learner.hear()
    said = learner.tell_until_it_ends(process, protocol.Reject("it hosts another task"), route)
    assert said[::2] == (1, "example: the learner refused this worker: it hosts another task\n")


def test_a_learner_that_is_not_there_or_falls_silent_is_waited_for_within_bounds(hand):
    learner = hand(patience=1.5)
    process = learner.start()
    code, _, err = ended(process)
    assert code == 1
    assert "was silent for" in err
    process = learner.start()
    learner.join()
    code, _, err = ended(process)  # nobody answers RESET or heartbeats
    assert (code, "was silent for" in err) == (1, True)


def test_an_answer_that_fits_nothing_ends_it_and_the_learner_is_told(hand):
    learner = hand()
    process = learner.start()
    route = learner.join()
    learner.hear()
    learner.action(route, 1, value=np.nan)
    code, _, err = learner.see_it_end(process)
    assert (code, err) == (1, "example: the learner's ACTION is malformed\n")
    _, header, frame = learner.hear()
    assert protocol.decode_control(*protocol.decode(frame)) == protocol.Error(
        "the learner's ACTION is malformed"
    )
    assert header.session == SESSION


def test_the_next_process_brings_what_the_one_before_had_sent(hand, tmp_path):
    learner, last = hand(environments=2), b""
    for killed_at in (1, 2, 5):
        process = learner.start(tmp_path / "outbox")
        route = learner.join()
        assert learner.hello.recovered == last
        for number in range(1, killed_at + 1):
            _, header, last = learner.hear()
            assert header.sequence == number
            if number < killed_at:
                learner.action(route, number)
        process.send_signal(signal.SIGKILL)
        process.wait()
    newest = tmp_path / f"outbox.{5 + 2 + 1 & 1}"
    content = bytearray(newest.read_bytes())
    content[100] ^= 1  # torn: the one before is whole
    newest.write_bytes(content)
    learner.start(tmp_path / "outbox")
    learner.join()
    header, _ = protocol.decode(learner.hello.recovered)
    assert header.sequence == 4


def test_an_outbox_has_one_worker(hand, tmp_path):
    learner = hand()
    learner.start(tmp_path / "outbox")
    learner.join()
    code, _, err = ended(learner.start(tmp_path / "outbox"))
    assert code == 1
    assert "in use by another worker" in err


def test_it_follows_the_learner_to_another_address(hand):
    learner = hand(heartbeat=0.1)
    learner.start()
    learner.join()
    _, _, frame = learner.hear()
    learner.socket.close()
    learner.inbox.clear()
    learner.bind()
    learner.beats.clear()
    _, _, again = learner.hear()
    assert again == frame
    learner.attend_until(lambda: learner.beats)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "No such file"),
        ("", "no connection file"),
        ('{"endpoint": "tcp://127.0.0.1:1", "patience": 1.0}', "no connection file"),
        ('{"endpoint": 1, "task_hash": "t", "patience": 1.0}', "no connection file"),
        (
            '{"endpoint": "tcp://127.0.0.1:1", "task_hash": "t", "patience": 1.0} more',
            "no connection file",
        ),
        ('{"endpoint": "nowhere", "task_hash": "t", "patience": 1.0}', "cannot connect"),
        (
            '{"endpoint": "tcp://127.0.0.1:1", "task_hash": "t", "patience": 1.0, "server_key": "short", '
            '"public_key": "p", "secret_key": "s"}',
            "cannot use the keys",
        ),
        (
            '{"env_options": {"endpoint": "nowhere", "deep": [[{}, -1.5e-3, null, "\\u0041\\""], true]}, '
            '"task_hash": "t", "endpoint": "tcp:\\/\\/127.0.0.1:1", "patience": 0.25}',
            "tcp://127.0.0.1:1 was silent for ",
        ),
    ],
)
def test_a_bad_connection_file_is_one_sentence(built, tmp_path, content, sentence):
    file = tmp_path / "connection.json"
    if content is not None:
        file.write_text(content)
    done = subprocess.run([built / "example", file], capture_output=True, text=True, timeout=GUARD)
    assert done.returncode == 1
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(not zmq.has("curve"), reason="this libzmq has no CURVE")
@pytest.mark.parametrize("wrong", [None, "server_key", "public_key", "no keys"])
def test_it_speaks_with_the_keys_of_the_file_and_says_when_they_are_refused(hand, wrong):
    learner = hand()
    (server, server_secret), (mine, secret), (other, other_secret) = (
        zmq.curve_keypair() for _ in range(3)
    )
    authenticator = ThreadAuthenticator(learner.context)
    authenticator.start()
    try:
        authenticator.configure_curve_callback("*", Allowed(mine))
        learner.socket.close()
        learner.socket = learner.context.socket(zmq.ROUTER)
        learner.socket.curve_server, learner.socket.curve_secretkey = True, server_secret
        learner.socket.curve_publickey = server
        learner.socket.bind("tcp://127.0.0.1:*")
        keys = {"server_key": server, "public_key": mine, "secret_key": secret}
        if wrong == "server_key":
            keys["server_key"] = other
        elif wrong == "public_key":
            keys |= {"public_key": other, "secret_key": other_secret}
        elif wrong == "no keys":
            keys = {}
        content = {
            "endpoint": learner.socket.get_string(zmq.LAST_ENDPOINT),
            "task_hash": HASH,
            "patience": 600.0,
        }
        content |= {key: value.decode() for key, value in keys.items()}
        (learner.folder / "connection.json").write_text(json.dumps(content))
        process = learner.start()
        if wrong is None:
            route = learner.join()
            learner.hear()
            learner.action(route, 1)
            assert learner.hear()[1].kind == Kind.STEP
            learner.attend_until(lambda: learner.beats)
        else:
            code, _, err = ended(process)
            assert code == 1
            assert "use the connection file of the run's present start" in err
    finally:
        authenticator.stop()


class Allowed:
    """Lets one key in."""

    def __init__(self, key):
        self.key = key

    def callback(self, domain, key):
        return key == self.key


# --- the functions, one by one --------------------------------------------------------------------------------------


class Library:
    """The client's functions, called from Python; each runs beside the learner by hand."""

    def __init__(self, built, file, environments):
        self.library = ctypes.CDLL(str(built / "libflowsim_client.so"))
        self.library.flowsim_error.restype = ctypes.c_char_p
        self.library.flowsim_seed.restype = ctypes.c_int64
        self.client, self.file, self.n = ctypes.c_void_p(), str(file).encode(), environments
        self.actions = np.zeros((environments, 1), np.float32)
        self.threads = ThreadPoolExecutor(1)

    def open(self, *, slot=-1, size=2, low=-1.0, high=1.0):
        sizes = [ctypes.c_int(number) for number in (slot, self.n, size, 1)]
        bounds = [(ctypes.c_double * 1)(bound) for bound in (low, high)]
        where = ctypes.byref(self.client)
        return self.threads.submit(
            self.library.flowsim_open, where, self.file, *sizes, *bounds, None
        )

    def __getattr__(self, name):
        function = getattr(self.library, f"flowsim_{name}")
        return lambda *given: self.threads.submit(function, self.client, *map(as_c, given))

    def error(self):
        return self.library.flowsim_error(self.client).decode()


def as_c(value):
    return value.ctypes if isinstance(value, np.ndarray) else value


@pytest.fixture
def library(built, hand):
    learner = hand(environments=2, heartbeat=0.05)
    made = Library(built, learner.folder / "connection.json", 2)
    yield learner, made
    made.close(None).result(GUARD)


BROKEN = -1


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"slot": -2}, "slot = -2"),
        ({"slot": 65536}, "slot = 65536"),
        ({"size": 0}, "observation_size = 0"),
        ({"size": 65537}, "observation_size = 65537"),
        ({"low": 1.0}, "bounds"),
        ({"high": float("nan")}, "bounds"),
    ],
)
def test_what_cannot_be_opened_is_one_sentence(library, wrong, sentence):
    _, client = library
    assert client.open(**wrong).result(GUARD) == BROKEN
    assert sentence in client.error()


def test_a_failed_environment_is_reported_and_a_step_that_cannot_be_given_is_not_sent(library):
    learner, client = library
    opening = client.open(low=-0.1, high=0.1)
    route = learner.join()
    assert opening.result(GUARD) == 0
    assert learner.hello.slot is None
    assert learner.hello.action_high == [float(np.float32(0.1))]  # as the learner has it
    assert [client.library.flowsim_seed(client.client, i) for i in (-1, 0, 1, 2)] == [-1, 0, 1, -1]
    observations = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    rewards, final, status = np.array([0.5, -0.5]), observations + 10, np.array([0, 0], np.int32)
    assert client.step(rewards, observations, final, status, client.actions).result(GUARD) == BROKEN
    assert "after flowsim_reset" in client.error()
    broken = observations.copy()
    broken[1, 1] = np.inf
    assert client.reset(broken, client.actions).result(GUARD) == BROKEN
    assert "environment 1" in client.error()

    resetting = client.reset(observations, client.actions)
    _, header, _ = learner.hear()
    assert (header.kind, header.sequence) == (Kind.RESET, 1)
    learner.action(route, 1, value=-7.0)
    assert resetting.result(GUARD) == 0
    np.testing.assert_array_equal(client.actions, np.full((2, 1), -0.1, np.float32))
    for wrong in (
        {"rewards": np.array([np.nan, 0.0])},
        {"rewards": np.array([1e39, 0.0])},
        {"observations": broken},
        {"final": broken, "status": np.array([0, 2], np.int32)},
        {"final": None, "status": np.array([0, 2], np.int32)},
        {"status": np.array([4, 0], np.int32)},
        {"status": np.array([9, 0], np.int32)},
        {"status": np.array([8, 0], np.int32)},  # with a reward
    ):
        given = {
            "rewards": rewards,
            "observations": observations,
            "final": final,
            "status": status,
        } | wrong
        assert client.step(*given.values(), client.actions).result(GUARD) == BROKEN, wrong
        assert "environment" in client.error()
    assert learner.is_left_alone(0.2)

    client.explain(b"the mesh is \x1b[31mtangled \xff \xc3\xa4").result(GUARD)
    rewards, status = np.array([0.0, 2.0]), np.array([8, 7], np.int32)
    stepping = client.step(rewards, observations, final, status, client.actions)
    _, header, frame = learner.hear()
    step = protocol.decode_step(frame[64:], 2, 2)
    assert (step.failed.tolist(), step.diverged.tolist()) == ([True, False], [False, True])
    assert (step.terminated.tolist(), step.truncated.tolist()) == ([False, True], [False, True])
    np.testing.assert_array_equal(step.final, final[1:])
    learner.action(route, header.sequence)
    assert stepping.result(GUARD) == 0
    learner.attend_until(lambda: learner.life.failures)
    assert (learner.life.failures, learner.life.failure) == (1, "the mesh is ?[31mtangled ? ä")
    learner.attend_until(lambda: learner.life.step_seconds > 0)
    assert learner.is_left_alone(0.2)


@pytest.mark.parametrize("reason", [None, b"the mesh is tangled"])
def test_it_leaves_with_a_word(library, reason):
    learner, client = library
    opening = client.open()
    learner.join()
    assert opening.result(GUARD) == 0
    client.close(reason).result(GUARD)
    client.client = ctypes.c_void_p()
    _, header, frame = learner.hear()
    said = protocol.decode_control(*protocol.decode(frame))
    assert said == (
        protocol.Error(reason.decode()) if reason else protocol.Goodbye("the worker leaves the run")
    )
    assert header.session == SESSION


# --- training, with the real learner ------------------------------------------------------------------------------


class Run:
    """A learner, its service and processes of an example that are its workers."""

    def __init__(self, folder, *, processes, environments, steps, dead_after=600.0):
        self.folder, self.layout, self.steps, self.dead_after = (
            folder,
            [environments] * processes,
            steps,
            dead_after,
        )
        self.file, self.processes = folder / "connection.json", []
        self.begin()

    def begin(self):
        """Start the learner, from nothing or from the log of the one before."""
        task = describe_task(EXTERNAL, OPTIONS)
        config = AgentConfig(start=100, memory=4096, batch=16, hidden=(8,), steps_per_update=2.0)
        spaces = task.observation_space, task.action_space
        self.learner = Learner(config, *spaces, agents=sum(self.layout), seed=1)
        self.log = ExperienceLog(self.folder / "experience")
        low, high = task.action_bounds
        terms = Terms(
            self.layout, 2, low, high, HASH, lambda agent, session: 1000 * session + agent,
            heartbeat=0.1, dead_after=self.dead_after,
        )  # fmt: skip
        self.server = Server(self.learner, "tcp://127.0.0.1:*", terms, self.steps, self.log)
        if self.log.segments():
            self.server.replay(self.log.records_since(0))
        self.log.begin(len(self.log.segments()))
        write_connection(
            self.file, Connection(self.server.endpoint, "run", EXTERNAL, OPTIONS, 600.0)
        )

    def kill_learner(self):
        """End it without a word, as a kill does."""
        self.server._context.destroy(linger=0)
        self.log.close()

    def start(self, program, *more):
        command = [str(word) for word in (program, self.file, *more)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self.processes.append(subprocess.Popen(command, **pipes))
        return self.processes[-1]

    def turn_until(self, condition):
        until = time.monotonic() + GUARD
        while not condition():
            self.server.turn(0.01)
            for slot, _ in self.server.liveness.lost():
                self.server.liveness.drop(slot)
            assert not self.server.errors
            assert time.monotonic() < until

    def finish(self):
        """Train to the end; return what the processes report, in order."""
        self.turn_until(lambda: self.server.exchange.finished)
        return self.close()

    def close(self):
        self.server.close("the run is finished", patience=GUARD)
        self.log.close()
        results = [ended(process) for process in self.processes]
        assert all(code in (0, -signal.SIGKILL) for code, *_ in results), results
        return [out for _, out, _ in results]


def test_a_learner_that_ends_soon_after_it_began_anew_is_heard_by_all(built, tmp_path):
    run = Run(tmp_path, processes=2, environments=1, steps=100_000)
    for slot in range(2):
        run.start(built / "example", slot, 1)
    run.turn_until(lambda: run.learner.environment_steps >= 100)
    run.kill_learner()
    run.begin()
    run.close()  # before any of them has found it


def reported(outputs, environments):
    """Episodes (agent, length, terminated, return), and the lengths of the open ones, as the examples tell them."""
    episodes, running = [], {}
    for slot, out in enumerate(outputs):
        for line in out.splitlines():
            _, environment, _, steps, _, total, how = line.split()
            agent = slot * environments + int(environment)
            if how == "open":
                running[agent] = int(steps)
            else:
                episodes.append((agent, int(steps), how == "terminated", float(total)))
    return np.array(sorted(episodes)), running


def in_the_memory(learner):
    """Episodes (length, terminated, return) that the memory holds, after a check of every single step."""
    memory = learner.memory
    slots = memory.slots()
    observation, action = (
        memory.observation[slots].astype(float),
        memory.action[slots].astype(float),
    )
    final = memory.final_observation[memory.rows(slots)].astype(float)
    last = memory.position[slots] + 1 == memory.length[memory.rows(slots)]
    following = np.where(last[:, None], final, np.roll(observation, -1, axis=0))
    applied = np.clip(action[:, 0], -1.0, 1.0)
    v = observation[:, 1] + 0.05 * (observation[:, 0] - 0.1 * observation[:, 1] + 2 * applied)
    x = observation[:, 0] + 0.05 * v
    np.testing.assert_allclose(following, np.stack([x, v], axis=1), atol=1e-5)
    np.testing.assert_allclose(memory.reward[slots], 1 - x**2, atol=1e-5)
    rows = np.arange(memory.first_serial, memory.next_serial) % len(memory.start)
    places = [(memory.start[row] + np.arange(memory.length[row])) % memory.capacity for row in rows]
    totals = [memory.reward[each].astype(float).sum() for each in places]
    return np.array(sorted(zip(memory.length[rows], memory.terminated[rows], totals, strict=True)))


@pytest.mark.parametrize("learners", [1, 4])
@pytest.mark.parametrize("language", ["c", "fortran"])
def test_the_memory_holds_exactly_what_the_example_reports(built, tmp_path, language, learners):
    program = built / {"c": "example", "fortran": "example_fortran"}[language]
    if language == "fortran" and not shutil.which("gfortran"):
        pytest.skip("no gfortran")
    run = Run(tmp_path, processes=2, environments=3, steps=1500)
    for slot in range(2):
        run.start(program, slot, 3)
    for life in range(1, learners):
        run.turn_until(lambda life=life: run.learner.environment_steps >= 300 * life)
        run.kill_learner()
        run.begin()
    outputs = run.finish()
    learner = run.learner
    episodes, running = reported(outputs, 3)
    assert len(episodes) > 5
    ends = sorted(
        (e.agent, e.length, e.terminated, e.episode_return) for e in learner.finished_episodes()
    )
    np.testing.assert_allclose(np.array(ends), episodes, atol=1e-4)
    np.testing.assert_allclose(in_the_memory(learner), sorted(episodes[:, 1:].tolist()), atol=1e-4)
    assert learner.running.length.tolist() == [running[agent] for agent in range(6)]
    assert learner.memory.steps + sum(running.values()) == learner.environment_steps >= 1500
    assert learner.gradient_steps > 300
    assert run.server.counts.violations == 0


def test_the_example_of_the_docs_trains(built, tmp_path):
    text = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
    blocks = dict(re.findall(r"```(c|yaml)\n(.*?)```", text, re.DOTALL))
    (tmp_path / "balls.yaml").write_text(blocks["yaml"])
    # as flowsim serve does
    config = load_config(str(tmp_path / "balls.yaml"), ["workers.launcher=none"])
    assert (config.env, config.env_options) == (EXTERNAL, OPTIONS | {"episode_steps": 50})
    (tmp_path / "solver.c").write_text(blocks["c"])
    (command,) = re.findall(r"^gcc solver.c .*", text, re.MULTILINE)
    words = command.replace("solver.c", str(tmp_path / "solver.c")).split()
    done = subprocess.run(
        [*words[:-1], str(tmp_path / "solver"), "-Wall", "-Wextra", "-Werror"], cwd=ROOT
    )
    assert done.returncode == 0
    run = Run(tmp_path, processes=1, environments=1, steps=400)
    run.start(tmp_path / "solver")
    assert run.finish() == [""]
    memory, slots = run.learner.memory, run.learner.memory.slots()
    assert memory.length[: memory.episodes].tolist() == [50] * 8
    assert not memory.terminated.any()
    x, v = memory.observation[slots].T.astype(float)
    v_next = v + 0.1 * (np.clip(memory.action[slots, 0], -1, 1) - x)
    np.testing.assert_allclose(
        memory.reward[slots], -((x + 0.1 * v_next) ** 2) - v_next**2, atol=1e-5
    )


def test_a_killed_process_loses_nothing_and_doubles_nothing(built, tmp_path):
    run = Run(tmp_path, processes=1, environments=3, steps=900, dead_after=1.0)
    learner, sent = run.learner, 0
    for planned in (300, 600, None):
        process = run.start(built / "example", 0, 3, tmp_path / "outbox")
        if planned is None:
            break
        run.turn_until(lambda planned=planned: learner.environment_steps >= planned)
        # nobody answers: as a rule it has sent its message by now, but any moment has to do
        time.sleep(0.2)
        process.kill()
        process.wait()
        sent += 3 * (protocol.decode(read_outbox(tmp_path / "outbox"))[0].sequence - 1)
        run.turn_until(lambda: not run.server.liveness.connected(0))
    outputs = run.finish()
    of_the_last, running = reported(outputs[-1:], 3)
    sent += int(of_the_last[:, 1].sum()) + sum(running.values())
    assert learner.environment_steps == sent == learner.memory.steps + sum(running.values())
    told = np.concatenate([reported([out], 3)[0] for out in outputs])[:, 1:]
    kept = in_the_memory(learner)
    left = [
        episode for episode in kept if not np.isclose(episode, told, atol=1e-4).all(axis=1).any()
    ]
    assert len(kept) - len(told) == len(left) <= 6  # what the killed processes left open
    assert not any(terminated for _, terminated, _ in left)
