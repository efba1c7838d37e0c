"""The fuzzing of the protocol, in short: thousands of hostile frames, some of them through a real server."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_hostile_frames_are_only_rejected_and_counted(tmp_path):
    result = tmp_path / "fuzz.json"
    command = [
        sys.executable,
        "benchmarks/service/fuzz_protocol.py",
        "--frames",
        "10000",
        "--by-sockets",
        "500",
    ]
    done = subprocess.run(
        [*command, "--seed", "1", "-o", str(result)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    fuzzed = json.loads(result.read_text())
    decoder = fuzzed["decoder"]
    assert decoder["rejected"] + sum(decoder["valid"].values()) == 9500
    for server in fuzzed["server"], fuzzed["server_of_several_agents"]:
        assert server["frames"] >= 250
        assert server["counts"]["violations"] > 150
        assert server["rows_told_to_the_learner"] > 0
        assert server["rows_of_no_valid_frame"] == 0
