"""The script behind `make test-hard`, on folders of one tiny test."""

import contextlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]

GREEN = "def test_that_passes(): pass\n"
RED = "def test_that_fails(): assert 1 == 2\ndef test_that_passes(): pass\n"
HANGS = "import time\ndef test_that_hangs(): time.sleep(10000)\n"
STOPPED = """
import signal, subprocess, sys

def test_that_waits_until_its_child_was_stopped():
    code = "import signal; signal.sigwait([signal.SIGCONT])"
    child = subprocess.Popen([sys.executable, "-c", code], preexec_fn=block)
    assert child.wait(120) == 0

def block():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCONT])
"""


@pytest.fixture
def command(tmp_path):
    def words_of(content, *words):
        (tmp_path / "test_tiny.py").write_text(content)
        return [sys.executable, "benchmarks/hard_tests.py", "--only", str(tmp_path / "test_tiny.py"), "-o",
                str(tmp_path / "kept"), "--workers", "0", *words]  # fmt: skip

    return words_of


@pytest.fixture
def hard(command, tmp_path):
    def run(*words):
        done = subprocess.run(
            command(*words), cwd=ROOT, capture_output=True, text=True, timeout=600
        )
        files = sorted((tmp_path / "kept").glob("*.json"))
        return done, {file.stem: json.loads(file.read_text()) for file in files}

    return run


def test_runs_are_kept_and_not_repeated(hard, tmp_path):
    done, kept = hard(GREEN, "--runs", "1,0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert kept["busy-1"]["green"]
    assert kept["busy-1"]["counts"] == {"passed": 1, "failed": 0, "errors": 0, "skipped": 0}
    before = (tmp_path / "kept" / "busy-1.json").stat().st_mtime_ns
    done, kept = hard(RED, "--runs", "1,1", "--stop-every", "1000")
    assert (tmp_path / "kept" / "busy-1.json").stat().st_mtime_ns == before
    assert done.returncode == 1
    assert "1 of 2 runs are green" in done.stdout
    (failure,) = kept["stopped-1"]["failures"]
    assert failure["test"].endswith("::test_that_fails")
    assert "assert 1 == 2" in "\n".join(failure["traceback"])
    assert kept["stopped-1"]["counts"] == {"passed": 1, "failed": 1, "errors": 0, "skipped": 0}
    assert "1 failed, 1 passed" in kept["stopped-1"]["last_lines"][-1]


def test_processes_of_a_run_are_stopped_and_continued(hard):
    done, kept = hard(STOPPED, "--runs", "0,1", "--stop-every", "0.1", "--stop-for", "0.1")
    assert done.returncode == 0, kept
    assert kept["stopped-1"]["stops"] > 0


def test_hanging_run_is_not_green(hard):
    done, kept = hard(HANGS, "--runs", "1,0", "--limit", "3")
    assert done.returncode == 1
    assert not kept["busy-1"]["green"]
    assert kept["busy-1"]["end"] == "killed after 3 s"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_no_child_process_outlives_the_script(command, number):
    with subprocess.Popen(
        command(HANGS, "--runs", "1,0"), cwd=ROOT, stderr=subprocess.PIPE, text=True,
        preexec_fn=ignore_interrupts,
    ) as process:  # fmt: skip
        until, children = time.monotonic() + 120, []
        try:
            while len(children) < 3:  # pytest and two that compute
                assert time.monotonic() < until, children
                time.sleep(0.05)
                children = psutil.Process(process.pid).children()
            process.send_signal(number)
            _, said = process.communicate(timeout=120)
            assert process.returncode == 130
            assert "the finished runs are kept" in said
            gone, alive = psutil.wait_procs(children, timeout=120)
            assert len(gone) == 3, alive
        finally:
            for started in (*children, process):
                with contextlib.suppress(psutil.Error):
                    started.kill()


def ignore_interrupts():
    """Begin as a process that a script has put in the background."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
