"""The experience log: torn at every byte, damaged, incomplete, on a full disk."""

import errno
import resource
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from coupling.errors import RunError
from coupling.service import experience
from coupling.service.experience import (
    Answered,
    Closed,
    ExperienceLog,
    Opened,
    Taken,
    decision_of,
    keep_trying,
)
from coupling.wire.protocol import Header, Kind, encode
from rl_agent.rollout.open_episodes import Decision

ROOT = Path(__file__).parents[3]


def decision(rows=3, state=0):
    def numbers(columns):
        return np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)

    random = dict(np.random.default_rng(5).bit_generator.state)
    return Decision(
        np.arange(rows),
        numbers(2),
        numbers(2) + 1,
        numbers(2) + 2,
        numbers(1)[:, 0],
        numbers(state),
        numbers(2),
        random,
    )


RECORDS = [
    Opened(7, 8, 0, 0, 2),
    Taken([b"first", b"second" * 30]),
    Answered.of([7], 1, 2, decision()),
    Taken([b""]),
    Closed(7),
]


def filled(folder, records=RECORDS, segment=0):
    log = ExperienceLog(folder)
    log.begin(segment)
    for record in records:
        log.append(record)
    log.close()
    return log, folder / f"{segment:08d}.log"


def read(folder, since=0):
    return list(ExperienceLog(folder).records_since(since))


def ends_of_records(folder):
    """Lengths of the file after each record."""
    log = ExperienceLog(folder)
    log.begin(0)
    ends = [0]
    for record in RECORDS:
        log.append(record)
        ends.append((folder / "00000000.log").stat().st_size)
    log.close()
    return ends


def test_written_records_are_read_back(tmp_path):
    filled(tmp_path)
    assert read(tmp_path) == RECORDS


@pytest.mark.parametrize("state", [0, 5])
def test_decision_round_trip_is_exact(tmp_path, state):
    before = decision(state=state)
    filled(tmp_path, [Answered.of([7], 1, 2, before)])
    (record,) = read(tmp_path)
    after = decision_of(record)
    for name, value in vars(before).items():
        if name == "random":
            assert after.random == value
        else:
            np.testing.assert_array_equal(getattr(after, name), value)
            assert getattr(after, name).shape == value.shape


def test_a_tail_torn_at_any_byte_leaves_the_records_before_it(tmp_path):
    ends = ends_of_records(tmp_path / "reference")
    _, file = filled(tmp_path / "torn")
    content = file.read_bytes()
    for length in range(len(content)):
        file.write_bytes(content[:length])
        whole = sum(end <= length for end in ends) - 1
        assert read(tmp_path / "torn") == RECORDS[:whole], length
        assert file.stat().st_size == ends[whole]  # what is torn is cut off


def test_torn_tail_before_a_later_segment_is_not_damage(tmp_path):
    _, file = filled(tmp_path)
    file.write_bytes(file.read_bytes()[:-3])
    log = ExperienceLog(tmp_path)
    assert list(log.records_since(0)) == RECORDS[:-1]
    log.begin(1)  # of a checkpoint that was never finished
    log.close()
    assert read(tmp_path) == RECORDS[:-1]


def test_any_changed_byte_before_the_last_segment_is_damage(tmp_path):
    _, file = filled(tmp_path)
    filled(tmp_path, segment=1)
    content = bytearray(file.read_bytes())
    for place in range(len(content)):
        content[place] ^= 0x10
        file.write_bytes(content)
        with pytest.raises(RunError, match="damaged at byte"):
            read(tmp_path)
        content[place] ^= 0x10


def test_any_changed_byte_of_the_last_segment_is_damage_except_in_the_last_record(tmp_path):
    """This includes lengths: a record that seems to reach the end of the file contains whole records."""
    ends = ends_of_records(tmp_path / "reference")
    _, file = filled(tmp_path / "changed")
    sound = file.read_bytes()
    for place in range(ends[-2]):
        for bit in (0, 7):
            content = bytearray(sound)
            content[place] ^= 1 << bit
            file.write_bytes(content)
            whole = sum(end <= place for end in ends) - 1
            sentence = rf"damaged at byte {ends[whole]}; {len(RECORDS) - whole - 1} whole records"
            with pytest.raises(RunError, match=sentence):
                read(tmp_path / "changed")
            assert file.read_bytes() == content
    for place in range(ends[-2], ends[-1]):
        content = bytearray(sound)
        content[place] ^= 1
        file.write_bytes(content)
        said = []
        log = ExperienceLog(tmp_path / "changed")
        assert list(log.records_since(0, said.append)) == RECORDS[:-1]
        assert said[0].startswith(f"the experience log ends with {ends[-1] - ends[-2]} bytes")


def test_trailing_zeros_after_a_power_failure_are_a_torn_record(tmp_path):
    _, file = filled(tmp_path)
    file.write_bytes(file.read_bytes() + bytes(4096))
    assert read(tmp_path) == RECORDS


def test_records_after_damage_are_discarded_only_on_request_and_kept_aside(tmp_path):
    for segment in (0, 1):
        filled(tmp_path, segment=segment)
    first, second = tmp_path / "00000000.log", tmp_path / "00000001.log"
    content = bytearray(first.read_bytes())
    content[-1] ^= 1
    first.write_bytes(content)
    after = second.read_bytes()
    with pytest.raises(RunError, match=f"{len(RECORDS)} whole records"):
        read(tmp_path)
    said = []
    log = ExperienceLog(tmp_path)
    assert list(log.records_since(0, said.append, discard_damaged=True)) == RECORDS[:-1]
    assert len(said) == 1
    assert read(tmp_path) == RECORDS[:-1]
    assert (tmp_path / "00000000.log.damaged").read_bytes() == content
    assert (tmp_path / "00000001.log.damaged").read_bytes() == after
    assert log.segments() == [0]


def test_steps_that_would_be_lost_are_counted(tmp_path):
    headers = [Header(Kind.RESET, 7, 1, environments=3)]
    headers += [Header(Kind.STEP, 7, number, environments=3) for number in (2, 3, 4)]
    frames = [Taken([encode(header, b"body")]) for header in headers]
    _, file = filled(tmp_path, [Opened(7, 8, 0, 0, 3), *frames])
    content = bytearray(file.read_bytes())
    content[20] ^= 1
    file.write_bytes(content)
    with pytest.raises(RunError, match="4 whole records behind that, with 9 environment steps"):
        read(tmp_path)


def test_missing_segment_is_reported(tmp_path):
    for segment in (3, 5):
        filled(tmp_path, segment=segment)
    with pytest.raises(RunError, match=r"00000004.log is missing; 5 whole records behind that"):
        read(tmp_path, since=3)
    assert read(tmp_path, since=5) == RECORDS
    for missing in (4, 6):
        with pytest.raises(RunError, match=f"0000000{missing}.log is missing"):
            read(tmp_path, since=missing)
    log = ExperienceLog(tmp_path)
    assert list(log.records_since(3, discard_damaged=True)) == RECORDS
    assert log.segments() == [3, 4]


def test_copy_of_a_segment_is_not_read(tmp_path):
    log, file = filled(tmp_path)
    (tmp_path / "00000003 copy.log").write_bytes(file.read_bytes())
    assert log.segments() == [0]
    assert read(tmp_path) == RECORDS


def test_suggested_command_names_the_run(tmp_path):
    (tmp_path / "my run").mkdir()
    _, file = filled(tmp_path / "my run" / "experience")
    file.write_bytes(bytes(1) + file.read_bytes()[1:])
    with pytest.raises(RunError, match=r"flowsim resume '.*/my run' --discard-damaged`"):
        read(tmp_path / "my run" / "experience")


def test_segments_before_a_checkpoint_are_deleted(tmp_path):
    for segment in range(4):
        log, _ = filled(tmp_path, segment=segment)
    log.forget_before(2)
    assert log.segments() == [2, 3]
    assert read(tmp_path, since=2) == RECORDS * 2


def test_restarted_segment_is_empty(tmp_path):
    filled(tmp_path)
    log = ExperienceLog(tmp_path)
    log.begin(0)
    log.append(RECORDS[0])
    log.close()
    assert read(tmp_path) == RECORDS[:1]


def test_full_disk_raises_at_once_unless_waiting_is_allowed(tmp_path, monkeypatch):
    log = ExperienceLog(tmp_path)
    log.begin(0)
    log.append(RECORDS[0])

    def full(handle, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(experience.os, "write", full)
    with pytest.raises(OSError, match="No space"):
        log.append(RECORDS[1])
    assert read(tmp_path) == RECORDS[:1]


def test_other_errors_are_raised_at_once():
    def broken():
        raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(OSError, match="Input/output"):
        keep_trying(broken, lambda error, waited: pytest.fail("it was waited for"))


WRITER = """
import sys
from pathlib import Path
from coupling.service.experience import ExperienceLog, Taken

def tell(error, waited):
    print("full", flush=True)

log = ExperienceLog(Path(sys.argv[1]), when_full=tell)
log.begin(0)
for number in range(20):
    log.append(Taken([bytes([number]) * 1000]))
print("done", flush=True)
"""


def test_full_disk_is_waited_for_and_a_partial_record_removed(tmp_path):
    """A limit on the size of files stands for the disk; it is raised from outside, as room is made."""
    small, large = 5500, 10**9
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)],
        # the limit would truncate bytecode files, too
        env={"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (small, large)),
    )
    with process:
        watchdog = threading.Timer(60, process.kill)
        watchdog.start()
        assert process.stdout.readline() == "full\n"
        assert [record.frames[0][0] for record in read(tmp_path)] == [0, 1, 2, 3, 4]
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (large, large))
        assert process.stdout.read().splitlines()[-1] == "done"
        watchdog.cancel()
    assert [record.frames[0] for record in read(tmp_path)] == [
        bytes([number]) * 1000 for number in range(20)
    ]


def test_waiting_reports_the_time_waited(monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(experience.time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(experience.time, "sleep", lambda seconds: None)
    failures, told = [1, 1, 1], []

    def sometimes():
        if failures:
            failures.pop()
            raise OSError(errno.EDQUOT, "Quota exceeded")

    keep_trying(sometimes, lambda error, waited: told.append(waited))
    assert told == [0.0, 1.0, 2.0]


def test_fsync_is_done_once_for_all_records_of_a_turn(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(experience.os, "fsync", synced.append)
    for fsync, expected in ((False, 0), (True, 1 + 2)):  # the name of the segment, and each turn
        synced.clear()
        log = ExperienceLog(tmp_path, fsync=fsync)
        log.begin(0)
        log.flush()
        for _ in range(2):
            log.append(RECORDS[0])
            log.append(RECORDS[1])
            log.flush()
            log.flush()
        log.close()
        assert len(synced) == expected
