"""Evaluations print a task's measures with enough digits, even small ones."""

import pytest

from coupling.run.tables import print_results

RESULT = {
    "mean_return": 1.0, "ci95": [0.5, 1.5], "mean_length": 9.0, "survival": 1.0, "episodes": 4,
}  # fmt: skip


@pytest.mark.parametrize(
    ("mean", "rms", "printed"),
    [
        (1.42371, 0.0381, "1.424 +- 0.038"),
        (-0.00004, 0.1741, "0.000 +- 0.174"),
        (0.00183, 0.00062, "0.00183 +- 0.00062"),
        (-3.63e-05, 5.45e-04, "-0.000036 +- 0.000545"),
        (0.0, 0.0, "0.000 +- 0.000"),
        (1e-300, 0.0, "0.000000000 +- 0.000000000"),
    ],
)
def test_measures_have_three_digits(capsys, monkeypatch, mean, rms, printed):
    monkeypatch.setenv("COLUMNS", "200")
    print_results({"zero": RESULT | {"measures": {"energy": {"mean": mean, "rms": rms}}}}, None)
    assert printed in capsys.readouterr().out
