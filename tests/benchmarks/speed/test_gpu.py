"""`make gpu` without a GPU: parts that fail, hang or are cut off leave a line, and the others go on."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.speed import gpu

SCRIPT = Path(gpu.__file__)


def without_a_device() -> dict[str, str]:
    return os.environ | {"CUDA_VISIBLE_DEVICES": ""}


def test_missing_gpu_gives_a_one_line_error(tmp_path: Path) -> None:
    """Whoever has no GPU, or no CuPy, is told by the first part, which is kept like any other."""
    command = [sys.executable, str(SCRIPT), "-o", str(tmp_path)]
    ended = subprocess.run(
        command, env=without_a_device(), capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("no usable GPU: ")
    assert len(ended.stderr.strip().splitlines()) == 1
    (line,) = (tmp_path / "results.jsonl").read_text().splitlines()
    assert json.loads(line)["part"] == "machine"
    assert "error" in json.loads(line)


def test_an_unknown_part_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "-o", str(tmp_path), "--only", "speed"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 2
    assert "there is no part speed: the parts are machine, steps" in ended.stderr


def test_a_part_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    found = gpu.call_part("steps", tmp_path, 120.0)
    assert found["exit"] == 1
    assert "error" in found
    assert any(line.startswith("steps FAILED: ") for line in gpu.failures({"steps": found}))


def test_part_that_times_out_keeps_its_output(tmp_path: Path) -> None:
    """The process and its children are gone, and its output is read."""
    script, child = tmp_path / "slow.py", tmp_path / "child"
    script.write_text(
        "import os, pathlib, subprocess, sys, time\n"
        "begun = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"pathlib.Path({str(child)!r}).write_text(str(begun.pid))\n"
        "time.sleep(600)\n"
    )
    log = tmp_path / "log"
    process = gpu.start([sys.executable, str(script)], log)
    while not (child.exists() and child.read_text()):
        time.sleep(0.05)
    found = gpu.ended(process, log, 0.2)
    assert found["exit"] is None
    deadline = time.monotonic() + 60.0
    while alive(int(child.read_text())) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(int(child.read_text()))


def alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
def test_part_that_times_out_keeps_its_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part that notes and then takes too long: its line has the notes, and says that it was cut off."""
    slow = tmp_path / "gpu.py"
    slow.write_text(
        "import sys, time\n"
        "from pathlib import Path\n"
        f"sys.path.insert(0, {str(SCRIPT.parents[2])!r})\n"
        "from benchmarks.speed import gpu\n"
        "def endless(output, note):\n"
        "    note({'rows': [1, 2]})\n"
        "    (output / 'noted').touch()\n"
        "    time.sleep(600)\n"
        "gpu.PARTS['steps'] = endless\n"
        "gpu.main()\n"
    )
    monkeypatch.setattr(gpu, "__file__", str(slow))
    limit, found = 4.0, {}
    while not (tmp_path / "noted").exists():  # a slow machine takes longer to begin
        limit *= 2.0
        found = gpu.call_part("steps", tmp_path, limit)
    assert found["rows"] == [1, 2]
    assert found["error"] == f"cut off after {limit:.0f} s"
    assert f"steps FAILED: cut off after {limit:.0f} s" in gpu.failures({"steps": found})


def test_logs_name_no_folder_of_the_machine(tmp_path: Path) -> None:
    """They are kept in the repository; Python's own folder, this one and the user's are left out."""
    log = tmp_path / "log"
    told = "import sys; print(sys.prefix, sys.path[0], *sys.argv[1:])"
    command = [sys.executable, "-c", told, str(SCRIPT), str(Path.home() / "x")]
    found = gpu.ended(gpu.start(command, log), log, 120.0)
    assert found["exit"] == 0
    assert found["tail"].split() == ["python", "./benchmarks/speed/gpu.py", "~/x"]
    assert log.read_text() == found["tail"]
