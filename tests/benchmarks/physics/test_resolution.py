"""A policy that is judged at several resolutions: what is kept, and that it is kept once."""

import importlib
import json
from pathlib import Path

import pytest

AGENT = Path(__file__).parents[3] / "coupling" / "agents" / "sketch"


@pytest.fixture
def resolution():
    return importlib.import_module("benchmarks.physics.resolution")


def test_each_resolution_has_a_file_that_is_never_written_again(resolution, tmp_path, capsys):
    """A tracked result that grew would make the tree of the next one a changed one."""
    folder = tmp_path / "policies" / "sketch"
    resolution.judge(AGENT, [8], "narrow", 1, folder)
    before = (folder / "8.json").stat()
    assert "sketch at 8" in capsys.readouterr().out
    resolution.judge(AGENT, [8, 6], "narrow", 1, folder)
    after = (folder / "8.json").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert "sketch at 8" not in capsys.readouterr().out
    found = {int(file.stem): json.loads(file.read_text()) for file in folder.iterdir()}
    assert found.keys() == {6, 8}
    assert found[6]["env_options"]["cells_per_diameter"] == 8  # where it was trained
    assert found[6]["result"] != found[8]["result"]
    rows = resolution.table_of_policies(tmp_path / "policies").splitlines()[2:]
    assert [row.split(" | ")[2] for row in rows] == ["6", "8"]
