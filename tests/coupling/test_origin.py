import subprocess

import pytest

from coupling.origin import provenance


def test_results_name_the_commit_of_this_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLOWSIM_COMMIT", raising=False)
    asked = subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    expected = asked.stdout.strip() if asked.returncode == 0 else "None"
    assert str(provenance()["commit"]).removesuffix("-dirty") == expected


def test_a_copy_without_its_history_is_told_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWSIM_COMMIT", "0123abc")
    assert provenance()["commit"] == "0123abc"
