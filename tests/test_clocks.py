"""No test depends on the clock in a way that fails on a slow, busy or temporarily stopped machine."""

import ast
from pathlib import Path

import pytest

HERE = Path(__file__).parent
GUARD = 60.0
"""Seconds: a shorter limit is no guard against a hang, but a bet on the machine."""
CLOCKS = {"monotonic", "perf_counter", "time"}
# the first kills processes inside the functions that it replaces, the second is a stand-in for a CUDA graph
WRITES_BY_TRADE = {
    "coupling/faults.py",
    "coupling/settings/test_named_algorithms.py",
    "rl_agent/networks/optim/test_gradient_step.py",
    "rl_agent/algorithms/test_own_algorithm.py",
}


def numbers(node):
    return [
        part.value
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and type(part.value) in (int, float)
    ]


def reads_the_clock(node):
    calls = [part.func for part in ast.walk(node) if isinstance(part, ast.Call)]
    return any(isinstance(call, ast.Attribute) and call.attr in CLOCKS for call in calls)


def bets(tree):
    """Lines with a limit on time that is shorter than the guard."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "timeout":
            short = isinstance(node.value, ast.Constant) and node.value.value < GUARD
        elif (
            isinstance(node, ast.Assert)
            and isinstance(node.test, ast.Compare)
            and reads_the_clock(node.test)
        ):
            short = any(
                0 < number < GUARD for number in numbers(node.test) if not reads_a_rate(node.test)
            )
        else:
            continue
        if short:
            yield node.value.lineno if isinstance(node, ast.keyword) else node.lineno


def reads_a_rate(test):
    """Whether a count is compared with a bound that grows with the elapsed time."""
    return any(isinstance(part, ast.Div) for part in ast.walk(test))


def private_writes(tree):
    """Lines that set a private field of anything but the object itself, or by a function that does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and is_private_setting(node):
            yield node.lineno
        if not isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            for part in ast.walk(target):
                if (
                    isinstance(part, ast.Attribute)
                    and isinstance(part.ctx, ast.Store)
                    and part.attr.startswith("_")
                    and not (isinstance(part.value, ast.Name) and part.value.id == "self")
                ):
                    yield node.lineno


def is_private_setting(call):
    """Tell whether it sets or deletes a private name, or a field of something private."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name not in ("setattr", "delattr") or not call.args:
        return False
    on, *more = call.args
    names = [part.attr for part in ast.walk(on) if isinstance(part, ast.Attribute)]
    names += [part.value for part in more[:1] if isinstance(part, ast.Constant)]
    return any(str(each).startswith("_") and not str(each).startswith("__") for each in names)


@pytest.mark.parametrize("find", [bets, private_writes])
def test_no_test_has_short_time_limits_or_sets_private_fields(find):
    found = [
        f"{name}:{line}"
        for path in sorted(HERE.rglob("*.py"))
        if (name := path.relative_to(HERE).as_posix()) not in WRITES_BY_TRADE
        for line in find(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found


@pytest.mark.parametrize(
    ("find", "line"),
    [
        (bets, "process.communicate(timeout=30)"),
        (bets, "assert time.monotonic() - began < 5"),
        (private_writes, "server._limit = 4"),
        (private_writes, "self.server._a, b = 1, 2"),
        (private_writes, "monkeypatch.setattr(server, '_limit', 4)"),
        (private_writes, "monkeypatch.setattr(bank._Progress, 'interval', 0.0)"),
    ],
)
def test_checks_find_each_kind_of_violation(find, line):
    assert list(find(ast.parse(line))) == [1]
