"""A function past 60 lines, or with more than eight arguments, has a comment right above it that says why."""

import ast
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINES, ARGUMENTS = 60, 8
"""Without the docstring, and without ``self`` and ``cls``."""
ELSEWHERE = ("tests/", "docs/")


def too_much(source: str) -> list[str]:
    """Return the functions that are too long or have too many arguments, without a comment that says why."""
    lines = source.splitlines()
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        taken = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        arguments = sum(each.arg not in ("self", "cls") for each in taken)
        words = ast.get_docstring(node, clean=False)
        length = (node.end_lineno or 0) - node.lineno + 1
        length -= len(words.splitlines()) if words else 0
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        has_reason = first > 1 and lines[first - 2].lstrip().startswith("# ")
        if (length > LINES or arguments > ARGUMENTS) and not has_reason:
            found.append(f"{node.name} has {length} lines and {arguments} arguments")
    return found


def test_long_functions_have_a_comment_with_the_reason() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("there is a copy without git here")
    files = [ROOT / name for name in listed.stdout.split() if not name.startswith(ELSEWHERE)]
    found = [
        f"{file.relative_to(ROOT)}: {each}"
        for file in files
        if file.exists()
        for each in too_much(file.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


def test_check_finds_long_functions_and_many_arguments() -> None:
    nine = "def f(" + ", ".join("abcdefghi") + "):\n    pass\n"
    long = "@once\ndef f():\n" + "    x = 1\n" * 60
    assert too_much(nine) == ["f has 2 lines and 9 arguments"]
    assert too_much(long) == ["f has 61 lines and 0 arguments"]
    for source in (nine, long):
        assert not too_much("# a reason\n" + source)
        assert too_much("# a reason\n\n" + source)
    assert not too_much("class A:\n    def f(self, b, c, d, e, f, g, h, i):\n        pass\n")
    assert not too_much('def f():\n    """' + "words\n" * 70 + '    """\n')
