"""Kept results of a study: rows are read back as they were written, and none is changed."""

import importlib
import json

import numpy as np
import pyarrow.parquet as pq
import pytest

ROW = {
    "name": "suite/job_seed0",
    "steps": 300,
    "cpu_seconds": 1.5,
    "settings": {"agent": {"algorithm": "vracer", "hidden": [8, 8], "c": None}, "seed": 0},
    "machine": "x86_64",
    "starts": [0, 100],
    "place": [[[0.1, float("nan")], [2.0, 3.0]]],
    "curve": [
        {"environment_steps": 100, "mean_return": None},
        {"environment_steps": 300, "mean_return": 1 / 3},
    ],
}


@pytest.fixture
def studies():
    return importlib.import_module("benchmarks.studies")


def test_rows_come_back_in_the_order_of_their_names(studies, tmp_path):
    file = tmp_path / "study.parquet"
    other = {"name": "suite/job_seed1", "settings": {"sb3": "SAC"}, "machine": {"cpu": "one"}}
    assert studies.pack(file, [other]) == 1
    assert studies.pack(file, [ROW]) == 1
    first, second = studies.read(file)
    assert second == other, "missing values are not keys"
    np.testing.assert_array_equal(first.pop("place"), ROW["place"])
    assert first == {key: value for key, value in ROW.items() if key != "place"}


def test_numbers_and_curves_are_columns_of_their_own_type(studies, tmp_path):
    file = tmp_path / "study.parquet"
    studies.pack(file, [ROW])
    types = {field.name: str(field.type) for field in pq.read_schema(file)}
    assert types["steps"] == "int64"
    assert types["cpu_seconds"] == "double"
    assert types["starts"] == "list<element: int64>"
    assert "environment_steps: int64" in types["curve"]
    assert "mean_return: double" in types["curve"]
    assert types["settings"] == "string"


def test_a_row_is_added_once_and_never_changed(studies, tmp_path):
    file = tmp_path / "study.parquet"
    studies.pack(file, [ROW])
    before = file.read_bytes()
    assert studies.pack(file, [json.loads(json.dumps(ROW))]) == 0
    assert file.read_bytes() == before
    with pytest.raises(ValueError, match="has another row suite/job_seed0; nothing was added"):
        studies.pack(file, [ROW | {"name": "suite/new"}, ROW | {"steps": 400}])
    assert file.read_bytes() == before
    assert studies.pack(file, [ROW | {"steps": 400}], replace=True) == 0
    assert [row["steps"] for row in studies.read(file)] == [400]


def test_trainings_of_another_checkout_are_packed(studies, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "runs" / "suite" / "job_seed0"
    folder.mkdir(parents=True)
    row = {key: ROW[key] for key in ("name", "steps", "settings")} | {"commit": "abc"}
    (folder / "result.json").write_text(json.dumps(row))
    (folder / "curve.csv").write_text("environment_steps,mean_return\n100,\n300,-1.25\n")
    file = tmp_path / "study.parquet"

    def command(*words):
        monkeypatch.setattr("sys.argv", ["studies.py", *map(str, words)])
        return studies.main(), capsys.readouterr()

    assert command("pack", file, tmp_path / "runs")[0] == 0
    (found,) = studies.read(file)
    assert found["curve"][0] == {"environment_steps": 100, "mean_return": None}
    assert found["curve"][1] == {"environment_steps": 300, "mean_return": -1.25}
    assert command("list", file)[1].out == "suite/job_seed0 abc\n"
    (folder / "result.json").write_text(json.dumps(row | {"steps": 5}))
    code, said = command("pack", file, tmp_path / "runs")
    assert (code, len(said.err.splitlines())) == (2, 1)
    assert command("pack", file, tmp_path)[1].err == f"{tmp_path} has no complete trainings\n"
    assert command("list", tmp_path / "none.parquet")[0] == 2
    (tmp_path / "broken.parquet").write_text("no table")
    code, said = command("list", tmp_path / "broken.parquet")
    assert (code, len(said.err.splitlines())) == (2, 1)
