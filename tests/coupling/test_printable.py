"""Text from files and peers is escaped wherever it is printed to a terminal."""

import json

import pytest
from shell import RESULT

from coupling.errors import describe_failure, printable, printable_lines
from coupling.run import tables
from coupling.run.screen import ConsoleScreen
from coupling.wire.protocol import Error, Goodbye, encode_control

HOSTILE = "\x1b[2J\x1b]0;OWNED\x07x\x9b31m\u202e\r[bold]:smile:[/x]"
SHOWN = "\\x1b[2J\\x1b]0;OWNED\\x07x\\x9b31m\\u202e\\r[bold]:smile:[/x]"


def test_control_characters_are_escaped():
    assert printable(HOSTILE) == SHOWN
    assert printable("a\nb\tc \u2028 \ud800") == "a\\nb\tc \\u2028 \\ud800"
    assert printable("Grüße, 流体 ✓") == "Grüße, 流体 ✓"
    assert printable_lines(f"one\n{HOSTILE}") == f"one\n{SHOWN}"
    assert "\\x1b[2J\\x1b]0;OWNED" in describe_failure(ValueError(HOSTILE))


def hostile(value):
    """The same status with a hostile text instead of every text and key."""
    if isinstance(value, dict):
        return {key: hostile(part) for key, part in value.items()} | {HOSTILE: HOSTILE}
    if isinstance(value, list):
        return [hostile(part) for part in value]
    return HOSTILE if isinstance(value, str) else value


def test_status_escapes_a_hostile_file(capsys):
    status = {
        "run": "r", "state": "died", "pid": 1, "written": 1.0, "age_seconds": 50.0, "agents": {"0": 1}, "absent": ["x"],
        "deaths": [{"time": 1.0, "slot": 0, "reason": "x"}], "warnings": [{"time": 1.0, "text": "x"}],
        "workers": [{"slot": 0, "agents": ["x"], "host": "x", "failure": "x"}], "other": "x",
    }  # fmt: skip
    tables.print_status(hostile(status))
    printed = capsys.readouterr().out
    assert not set(printed) & set("\x1b\x07\x9b\u202e\r")
    assert "OWNED" in printed
    tables.print_rows([{"name": HOSTILE, HOSTILE: 1.0}])
    tables.print_results({HOSTILE: RESULT}, None)
    assert not set(capsys.readouterr().out) & set("\x1b\x07\x9b\u202e\r")


def test_screen_escapes_control_characters(capsys):
    ConsoleScreen().say(f"worker 0 left: {HOSTILE}")
    assert capsys.readouterr().err.strip() == f"worker 0 left: {SHOWN}"


@pytest.mark.parametrize("farewell", [Goodbye, Error])
def test_peer_cannot_forge_log_lines(served, farewell):
    """The protocol permits newlines, so they arrive."""
    _, server, peer = served
    worker = peer()
    worker.join()
    forged = "tired\nfinished: 10 environment steps"
    worker.send(encode_control(farewell(forged), session=worker.session))
    told = server.farewells if farewell is Goodbye else server.errors
    worker.serve_until(lambda: told)
    assert told == [(0, "tired\\nfinished: 10 environment steps")]


@pytest.mark.slow
def test_status_command_escapes_a_foreign_status(shell):
    preset = shell.preset(run={"steps": 300})
    assert shell.run("train", preset).returncode == 0
    file = shell.run_folder / "status.json"
    status = json.loads(file.read_text())
    status |= {"warnings": [{"time": 1, "text": HOSTILE}], "host": HOSTILE, HOSTILE: HOSTILE}
    file.write_text(json.dumps(status))
    for words in (["status", "runs/run"], ["status", "runs/run", "--prometheus"]):
        done = shell.run(*words)
        assert done.returncode == 0, done.stderr
        assert not set(done.stdout + done.stderr) & set("\x1b\x07\x9b\u202e")
    assert "OWNED" in shell.run("status", "runs/run").stdout
