import subprocess
from pathlib import Path

import pytest

from coupling import origin
from coupling.origin import provenance


def test_results_name_the_commit_of_this_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLOWSIM_COMMIT", raising=False)
    asked = subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    expected = asked.stdout.strip() if asked.returncode == 0 else "None"
    assert str(provenance()["commit"]).removesuffix("-dirty") == expected


def test_only_changes_outside_the_results_make_a_checkout_dirty(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("FLOWSIM_COMMIT", raising=False)
    for name in ("coupling/origin.py", "benchmarks/results/a.json"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("before")
    monkeypatch.setattr(origin, "__file__", str(tmp_path / "coupling" / "origin.py"))
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    clean = str(provenance()["commit"])
    (tmp_path / "benchmarks/results/a.json").write_text("after")
    assert provenance()["commit"] == clean
    (tmp_path / "coupling/origin.py").write_text("after")
    assert provenance()["commit"] == f"{clean}-dirty"


def test_commit_is_read_from_the_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWSIM_COMMIT", "0123abc")
    assert provenance()["commit"] == "0123abc"
