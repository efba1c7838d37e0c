"""Stored results: one Parquet file per study, with one row per training and everything recorded about it.

    python benchmarks/studies.py list benchmarks/results/figure6.parquet                # name and commit of each row
    python benchmarks/studies.py pack benchmarks/results/figure6.parquet runs/figure6   # complete trainings of a folder

A study is read as a list of rows sorted by name (``SUITE/JOB`` or ``seed0``). A number, a string, a list of numbers or
a table (a list of flat dictionaries, such as a curve) is stored in a column of that type, which pandas, Polars and
DuckDB can read; anything else, such as the settings of a training, is stored as JSON. ``pack`` adds rows and never
changes one, so trainings from several checkouts can be merged. The extra ``dev`` installs the required pyarrow.

A result that is not a list of trainings is a JSON file, written by ``write_json``.
"""

from __future__ import annotations

import argparse
import csv
import functools
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)

from coupling.files import write_atomically  # noqa: E402
from coupling.origin import machine, provenance  # noqa: E402

__all__ = [
    "RESULTS",
    "Row",
    "commits_of",
    "current_origin",
    "pack",
    "read",
    "read_by_method",
    "read_table",
    "write_json",
]

RESULTS = ROOT / "benchmarks" / "results"
RESULT, CURVE = "result.json", "curve.csv"
"""Files that a complete training writes into its folder."""
AS_JSON = {b"encoding": b"json"}
"""Metadata of a column whose values are stored as JSON."""

Row = dict[str, Any]


def read(file: Path) -> list[Row]:
    """Return the rows of a study, or no rows if the file does not exist; missing values are left out of a row.

    Raises
    ------
    ValueError
        If the file is not a Parquet file.
    """
    if not file.exists():
        return []
    status = file.stat()
    return [dict(row) for row in _read(file, status.st_mtime_ns, status.st_size)]


def read_by_method(file: Path) -> dict[str, list[Row]]:
    """Return the rows of a study whose names are ``METHOD/seed0``, ``METHOD/seed1`` and so on, by method."""
    found: dict[str, list[Row]] = {}
    for row in read(file):
        found.setdefault(row["name"].rpartition("/")[0], []).append(row)
    return found


@functools.lru_cache(maxsize=8)
def _read(file: Path, _changed: int, _size: int) -> list[Row]:
    try:
        table = pq.read_table(file)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{file} cannot be read: {error}") from None
    columns = {}
    for field, column in zip(table.schema, table.columns, strict=True):
        values = column.to_pylist()
        if (field.metadata or {}).items() >= AS_JSON.items():
            values = [None if value is None else json.loads(value) for value in values]
        columns[field.name] = values
    rows = [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
    return [{key: value for key, value in row.items() if value is not None} for row in rows]


def pack(file: Path, rows: Iterable[Row], *, replace: bool = False) -> int:
    """Add rows to a study and return the number of new rows.

    Parameters
    ----------
    file
        File of the study, created if needed.
    rows
        Rows, each with a ``name``. A row that the study already has with the same content is skipped.
    replace
        Whether a row may replace a different row of the same name, such as one of a training that was continued.

    Raises
    ------
    ValueError
        If the study has a different row of the same name and ``replace`` is false.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(file.with_name(f".{file.name}.lock"), timeout=120):
        kept = {row["name"]: row for row in read(file)}
        before = len(kept)
        changed = False
        for row in rows:
            found = kept.get(row["name"])
            if found is not None and _plain(found) == _plain(row):
                continue
            if found is not None and not replace:
                raise ValueError(f"{file} has another row {row['name']}; nothing was added")
            kept[row["name"]] = row
            changed = True
        if changed:
            _write(file, [kept[name] for name in sorted(kept)])
        return len(kept) - before


def _write(file: Path, rows: list[Row]) -> None:
    fields, columns = [], []
    for name in sorted({key for row in rows for key in row}, key=lambda key: (key != "name", key)):
        values = [row.get(name) for row in rows]
        is_typed = all(_is_typed(value) for value in values)
        if not is_typed:
            values = [None if value is None else _text(value) for value in values]
        column = pa.array(values)
        fields.append(pa.field(name, column.type, metadata=None if is_typed else AS_JSON))
        columns.append(column)
    sink = pa.BufferOutputStream()
    table = pa.Table.from_arrays(columns, schema=pa.schema(fields))
    pq.write_table(table, sink, compression="zstd", compression_level=19)
    write_atomically(file, sink.getvalue().to_pybytes())


def _is_typed(value: Any) -> bool:
    """Return whether a value can be stored in a typed column: a scalar, a nested list of numbers, or a table."""
    if isinstance(value, list):
        is_table = all(isinstance(each, dict) for each in value)
        if is_table and value:
            return all(
                not isinstance(cell, (dict, list)) for each in value for cell in each.values()
            )
        return all(isinstance(each, (int, float, list)) and _is_typed(each) for each in value)
    return not isinstance(value, dict)


def _plain(value: Any) -> Any:
    """Return a value for comparison with a stored one: without None, and with numbers as text, so that NaN equals NaN.

    A column stores its numbers with one type, so int and float must compare equal too.
    """
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return str(float(value)) if isinstance(value, (int, float)) else value


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def current_origin() -> dict[str, Any]:
    """Return commit, versions and machine, which are stored with every result."""
    return provenance() | {"machine": machine()}


def write_json(file: Path, result: Mapping[str, Any]) -> None:
    """Write a result into a JSON file; create its folder if needed."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, json.dumps(result, indent=1).encode())


def read_table(file: Path) -> list[Row]:
    """Return the rows of a CSV file; cells become numbers where possible, and ``None`` if empty."""
    with file.open(newline="") as opened:
        return [{key: _number(cell) for key, cell in row.items()} for row in csv.DictReader(opened)]


def _number(cell: str) -> int | float | str | None:
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell or None


def commits_of(row: Mapping[str, Any]) -> set[str]:
    """Return the commits of a row: its own, or those at which its runs were started."""
    found = {row.get("commit"), *(each.get("commit") for each in row.get("runs", []))}
    return {commit for commit in found if commit}


def complete_trainings(work: Path) -> list[Row]:
    """Return a row for each complete training in a work folder, from ``SUITE/JOB/result.json`` and ``curve.csv``."""
    return [
        json.loads(result.read_text()) | {"curve": read_table(result.with_name(CURVE))}
        for result in sorted(work.glob(f"*/*/{RESULT}"))
    ]


def main() -> int:
    """List or pack; return 2 if there is nothing to list or pack, or if a row would be changed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=("list", "pack"))
    parser.add_argument("study", type=Path, help="a file of benchmarks/results")
    parser.add_argument(
        "work", type=Path, nargs="?", help="folder of trainings, such as runs/figure6"
    )
    options = parser.parse_args()
    try:
        if options.command == "list":
            for row in _not_empty(read(options.study), options.study):
                print(row["name"], *sorted(commits_of(row)))
            return 0
        if options.work is None:
            raise ValueError("pack needs the folder of the trainings")
        found = _not_empty(complete_trainings(options.work), options.work)
        print(f"{pack(options.study, found)} added to {options.study}")
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _not_empty(rows: list[Row], place: Path) -> list[Row]:
    if not rows:
        raise ValueError(f"{place} has no complete trainings")
    return rows


if __name__ == "__main__":
    sys.exit(main())
