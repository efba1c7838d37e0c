"""The local launcher, and the devices that its workers see."""

from pathlib import Path

import pytest
from shell import wait_until

from coupling.launch.local import LocalLauncher


def variables(pid: int) -> dict[str, str]:
    words = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(word.split("=", 1) for word in words if "=" in word)


@pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="asks the kernel what a process was given"
)
def test_workers_are_assigned_devices_in_turn(tmp_path):
    """Three workers on two GPUs: each sees one, read from the environments of the real processes."""
    launcher = LocalLauncher(tmp_path / "connection.json", [1, 1, 1], tmp_path / "workers", threads=1, restarts=0,
                             devices=[3, 5])  # fmt: skip
    launcher.start()
    try:
        seen = []
        for place in launcher._places:
            assert place.worker is not None
            # it may take until the process has become the worker
            seen.append(
                wait_until(lambda pid=place.worker.pid: variables(pid).get("CUDA_VISIBLE_DEVICES"))
            )
        assert seen == ["3", "5", "3"]
    finally:
        launcher.stop()
