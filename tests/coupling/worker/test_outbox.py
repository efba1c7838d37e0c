"""The outbox: a torn message leaves the previous one; one owner; disk space reserved at the start."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from coupling.worker.outbox import Outbox, read_outbox

ROOT = Path(__file__).parents[3]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "outbox-0"


def files(path):
    return [path.with_name(f"{path.name}.{turn}") for turn in (0, 1)]


def test_last_message_is_recovered_by_the_next_process(path):
    box = Outbox(path, 100)
    assert box.recovered == b""
    for message in (b"one", b"two" * 30, b"3"):
        box.write(message)
        assert read_outbox(path) == message
    box.close()
    again = Outbox(path, 100)
    assert again.recovered == b"3"
    again.write(b"four")
    assert read_outbox(path) == b"four"
    again.close()


def test_without_files_there_is_no_message(path):
    assert read_outbox(path) == b""
    Outbox(path, 10).close()
    assert read_outbox(path) == b""


@pytest.mark.parametrize("before", [1, 2, 3])
def test_message_torn_at_any_byte_leaves_the_previous_one(path, before):
    """A kill in the middle of a write leaves its first bytes over those of the file's last message."""
    box = Outbox(path, 100)
    for number in range(before):
        box.write(bytes([number]) * (20 + 7 * number))
    file = files(path)[before % 2]
    old = file.read_bytes()
    box.write(b"new" * 10)
    new = file.read_bytes()
    box.close()
    torn = 0
    for length in range(len(new)):
        mixture = new[:length] + old[length:]
        file.write_bytes(mixture)
        if mixture != new:
            torn += 1
            assert read_outbox(path) == bytes([before - 1]) * (20 + 7 * (before - 1))
        else:
            assert read_outbox(path) == b"new" * 10
    assert torn >= 16 + 30  # at each byte of head and message


def test_message_with_a_changed_byte_is_not_read(path):
    box = Outbox(path, 100)
    box.write(b"first")
    box.write(b"second")
    box.close()
    file = files(path)[1]
    content = bytearray(file.read_bytes())
    for place in range(16 + len(b"second")):
        content[place] ^= 0x40
        file.write_bytes(content)
        assert read_outbox(path) == b"first"
        content[place] ^= 0x40


def test_second_worker_is_refused(path):
    box = Outbox(path, 100)
    box.write(b"mine")
    descriptors = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
    with pytest.raises(ValueError, match="in use by another worker"):
        Outbox(path, 100)
    if descriptors is not None:
        assert len(os.listdir("/proc/self/fd")) == descriptors
    assert read_outbox(path) == b"mine"
    box.close()
    Outbox(path, 100).close()


def test_killed_process_leaves_its_message_and_releases_the_lock(path):
    code = (
        "import os, sys; from pathlib import Path; from coupling.worker.outbox import Outbox; "
        "box = Outbox(Path(sys.argv[1]), 100); box.write(b'last'); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], env={"PYTHONPATH": str(ROOT)}, timeout=300
    )
    assert done.returncode == -9
    box = Outbox(path, 100)
    assert box.recovered == b"last"
    box.close()


def test_full_disk_is_noticed_at_the_start_and_not_by_a_message(path):
    code = (
        "import sys; from pathlib import Path; from coupling.worker.outbox import Outbox; "
        "box = Outbox(Path(sys.argv[1]), 900); box.write(b'x' * 900); print('wrote')"
    )
    for room, expected in ((800, "File too large"), (1000, "wrote")):
        done = subprocess.run(
            [sys.executable, "-c", code, str(path)],
            env={"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=300,
            preexec_fn=lambda room=room: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)),
        )
        assert expected in done.stdout + done.stderr
    assert read_outbox(path) == b"x" * 900
