"""The summary of skipped tests at the end of `make test`."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CONTENT = """
import pytest

@pytest.mark.parametrize("number", range(3))
def test_of_c(number):
    pytest.skip("no C compiler, make or header of libzmq (Debian: gcc make libzmq3-dev)")

@pytest.mark.skipif(True, reason="needs a CUDA device, torch finds none")
def test_of_a_gpu(): pass

def test_that_passes(): pass
"""


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["one process", "two workers"])
def test_last_lines_say_what_was_skipped_and_how_to_enable_it(tmp_path, workers):
    shutil.copy(HERE / "conftest.py", tmp_path)
    (tmp_path / "test_tiny.py").write_text(CONTENT)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *workers,
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    *_, heading, of_c, of_a_gpu, last = done.stdout.strip().splitlines()
    assert "skipped here, and how to have it" in heading
    assert re.match(
        r"3 skipped: no C compiler.* To have them: .*apt install gcc make libzmq3-dev", of_c
    )
    assert re.match(
        r"1 skipped: needs a CUDA device.* To have them: a machine with an NVIDIA GPU", of_a_gpu
    )
    assert re.match(r"1 passed, 4 skipped in [\d.]+s", last)
