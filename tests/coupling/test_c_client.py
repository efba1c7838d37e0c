"""The C client: built with the make target, against the golden vectors, a learner by hand and the real one."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GOLDEN = json.loads((ROOT / "coupling" / "golden_vectors.json").read_text(encoding="utf-8"))
READ_BY_A_CLIENT = {"WELCOME", "REJECT", "ACTION", "PAUSE", "ERROR", "GOODBYE"}
WRITTEN_BY_A_CLIENT = {"HELLO", "RESET", "STEP", "HEARTBEAT", "ERROR", "GOODBYE"}


def has_header() -> bool:
    compiler = shutil.which("cc")
    if not compiler or not shutil.which("make"):
        return False
    command = [compiler, "-fsyntax-only", "-x", "c", "-"]
    return subprocess.run(command, input=b"#include <zmq.h>\n", capture_output=True).returncode == 0


pytestmark = pytest.mark.skipif(
    not has_header() and not os.environ.get("FLOWSIM_TEST_C"),
    reason="no C compiler, make or header of libzmq (Debian: gcc make libzmq3-dev)",
)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("c-client")
    make = subprocess.run(["make", "c-client-test", f"C_BUILD={folder}"], cwd=ROOT, capture_output=True, text=True)
    assert make.returncode == 0, make.stderr
    return folder


# --- frames -------------------------------------------------------------------------------------------------


def told(built, lines):
    """What the C program answers to each line."""
    text = "".join(f"{line}\n" for line in lines)
    done = subprocess.run([built / "golden_vectors"], input=text, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def words(vector):
    """The line by which the C program is told to write a frame."""
    body, header = vector["body"], vector["header"]
    as_hex = lambda text: text.encode().hex() or "00"  # noqa: E731
    rows = [number for name in ("observations", "final") for row in body.get(name, []) for number in row]
    match vector["type"]:
        case "HELLO":
            content = [body["incarnation"], -1 if body["slot"] is None else body["slot"], body["pid"]]
            content += [as_hex(body["host"]), *body["action_low"], *body["action_high"], as_hex(body["task_hash"])]
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
