"""The blocks of Python in the README do what they say, each in a fresh process and a folder of its own."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

BLOCKS = re.findall(r"```python\n(.*?)```", (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8"), re.S)


@pytest.mark.parametrize("block", BLOCKS, ids=[block.split()[1] for block in BLOCKS])
def test_a_block_of_the_readme_runs(block, tmp_path):
    script = tmp_path / "block.py"
    script.write_text(block)
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stderr
    if "drag coefficient" in block:
        # an impulsively started disk at Re 100, before it sheds; 1.33 in the mean of the shedding
        assert 1.1 < float(done.stdout.removeprefix("drag coefficient")) < 1.5


def test_there_are_blocks() -> None:
    assert len(BLOCKS) > 1
