"""The C client: the golden vectors, and the worker's state table against a scripted learner.

Frames and the table share one file because both are what PROTOCOL.md requires of a worker.
"""

import json
import os
import random
import signal
import subprocess
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
import zmq
from learner_by_hand import GUARD, HASH, SESSION, ended
from zmq.auth.thread import ThreadAuthenticator

from coupling.wire import protocol
from coupling.wire.protocol import HEADER_SIZE, Kind

ROOT = Path(__file__).parents[3]
GOLDEN = json.loads(
    (ROOT / "coupling" / "wire" / "golden_vectors.json").read_text(encoding="utf-8")
)
READ_BY_A_CLIENT = {"WELCOME", "REJECT", "ACTION", "PAUSE", "ERROR", "GOODBYE"}
WRITTEN_BY_A_CLIENT = {"HELLO", "RESET", "STEP", "HEARTBEAT", "ERROR", "GOODBYE"}


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


def test_the_c_client_refuses_malformed_frames(built):
    entries = GOLDEN["malformed"]
    answers = told(built, [f"read {entry['hex']}" for entry in entries])
    for entry, answer in zip(entries, answers, strict=True):
        assert "refused" in json.loads(answer), entry["name"]


def test_mutated_frames_are_read_or_refused_safely(built):
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


# --- the worker's state table, against a scripted learner ----------------------------------------------------------


def test_worker_joins_steps_and_ends_with_goodbye(hand):
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


def test_hello_is_resent_unchanged_until_answered(hand):
    learner = hand()
    learner.start()
    heard = [learner.hear() for _ in range(4)]
    assert {header.kind for _, header, _ in heard} == {Kind.HELLO}
    assert len({frame for *_, frame in heard}) == 1
    learner.welcome(heard[-1][0])
    assert learner.hear()[1].kind == Kind.RESET


def test_unanswered_message_is_resent_unchanged_over_a_new_connection(hand):
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
    for _ in range(20):
        learner.control(route, protocol.Pause("gradient steps first"), acknowledgement=2)
        if is_calm := learner.is_left_alone(4.5):  # the message is safe: no hurry
            break
        route, *_ = learner.hear()
    assert is_calm
    learner.action(route, 2)
    assert learner.hear()[1].sequence == 3
    learner.attend_until(lambda: learner.life.resends >= 2)
    assert process.poll() is None


def test_goodbye_received_while_the_process_was_stopped_is_read(hand):
    learner, attempts = hand(patience=600.0), 0
    while True:
        process = learner.start()
        route = learner.join()
        _, header, _ = learner.hear()
        os.kill(process.pid, signal.SIGSTOP)
        learner.control(route, protocol.Goodbye("the run is finished"))
        if time.monotonic_ns() - header.clock < 0.5e9:
            break  # sent over the connection that it reads: it has not resent its message over another one
        process.kill()  # something else stood still, too
        attempts += 1
        assert attempts < 50
    learner.socket.close(linger=10_000)
    time.sleep(1.5)  # so that its message is due to be resent when it continues
    os.kill(process.pid, signal.SIGCONT)
    assert ended(process)[0] == 0


def test_heartbeats_use_a_separate_connection(hand):
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
def test_error_and_reject_end_the_worker_with_the_reason(hand, message, sentence, by_the_heart):
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


def test_refused_hello_ends_the_worker(hand):
    learner = hand()
    process = learner.start()
    route, *_ = learner.hear()
    said = learner.tell_until_it_ends(process, protocol.Reject("it hosts another task"), route)
    assert said[::2] == (1, "example: the learner refused this worker: it hosts another task\n")


def test_worker_gives_up_on_an_absent_or_silent_learner(hand):
    learner = hand(patience=1.5)
    process = learner.start()
    code, _, err = ended(process)
    assert code == 1
    assert "was silent for" in err
    while not learner.inbox:  # one that is stopped before it says HELLO may have no patience left
        process = learner.start()
        learner.attend_until(lambda process=process: learner.inbox or process.poll() is not None)
    learner.join()
    code, _, err = ended(process)  # nobody answers RESET or heartbeats
    assert (code, "was silent for" in err) == (1, True)


def test_malformed_action_ends_the_worker_and_is_reported_to_the_learner(hand):
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


def test_next_process_recovers_the_last_message(hand, tmp_path):
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


def test_outbox_is_used_by_one_worker_only(hand, tmp_path):
    learner = hand()
    learner.start(tmp_path / "outbox")
    learner.join()
    code, _, err = ended(learner.start(tmp_path / "outbox"))
    assert code == 1
    assert "in use by another worker" in err


def test_worker_follows_the_learner_to_another_address(hand):
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
        (None, "there is no such file; a run has it in its folder while"),
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
def test_bad_connection_file_gives_a_one_line_error(built, tmp_path, content, sentence):
    file = tmp_path / "connection.json"
    if content is not None:
        file.write_text(content)
    done = subprocess.run([built / "example", file], capture_output=True, text=True, timeout=GUARD)
    assert done.returncode == 1
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(not zmq.has("curve"), reason="this libzmq has no CURVE")
@pytest.mark.parametrize("wrong", [None, "server_key", "public_key", "no keys"])
def test_keys_of_the_connection_file_are_used_and_their_refusal_reported(hand, wrong):
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
