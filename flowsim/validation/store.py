"""Storage of results of validation cases as JSON files, one per case."""

from __future__ import annotations

import base64
import json
import math
import os
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from flowsim.validation.result import Curve, Picture, Plot, Result, Row


def as_rows(case: str, result: Result, seconds: float, quick: bool) -> list[dict[str, Any]]:
    """Return the rows for printing and storing; numbers that are not finite become None, as JSON cannot store them."""
    return [_as_row(case, row, seconds, quick) for row in result.rows]


def _as_row(case: str, row: Row, seconds: float, quick: bool) -> dict[str, Any]:
    setup = (
        {"grid": None, "box": None, "blockage": None} if row.setup is None else asdict(row.setup)
    )
    return {
        "case": case,
        "quantity": row.quantity,
        "value": _finite(row.value),
        "reference": row.reference,
        "source": row.source,
        "error": _finite(row.error),
        "tolerance": row.tolerance,
        "measure": row.measure,
        "passed": row.passed,
        **setup,
        "quick": quick,
        "seconds": round(seconds, 2),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def file_of(folder: Path, case: str, quick: bool) -> Path:
    """Return the path of the result of a case; quick results never replace full ones."""
    return folder / (f"{case}.quick.json" if quick else f"{case}.json")


def write(
    folder: Path,
    case: str,
    result: Result,
    rows: list[dict[str, Any]],
    quick: bool,
    provenance: Mapping[str, Any],
) -> Path:
    """Store the result of a case atomically.

    Parameters
    ----------
    folder : Path
        Created if missing.
    case : str
    result : Result
    rows : list of dict
        From :func:`as_rows`.
    quick : bool
    provenance : mapping
        Origin of the result: machine, versions, commit.
    """
    content = {
        "case": case,
        **provenance,
        "rows": rows,
        "plots": [asdict(plot) for plot in result.plots],
        "pictures": [_packed(picture) for picture in result.pictures],
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = file_of(folder, case, quick)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(_dump(content), encoding="utf-8")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return path


def _dump(content: dict[str, Any]) -> str:
    """Return JSON with one line per row, plot and picture, for readable diffs."""
    parts = []
    for key, value in content.items():
        if isinstance(value, list):
            lines = ",\n".join(f"  {json.dumps(item, allow_nan=False)}" for item in value)
            parts.append(
                f" {json.dumps(key)}: [\n{lines}\n ]" if value else f" {json.dumps(key)}: []"
            )
        else:
            parts.append(f" {json.dumps(key)}: {json.dumps(value, allow_nan=False)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _packed(picture: Picture) -> dict[str, Any]:
    return {
        "name": picture.name,
        "shape": picture.levels.shape,
        "levels": base64.b64encode(zlib.compress(picture.levels.tobytes(), 9)).decode(),
        "limit": picture.limit,
        "size": picture.size,
        "outlines": [np.round(points, 4).tolist() for points in picture.outlines],
    }


def read(path: Path) -> dict[str, Any]:
    """Read a stored result, with its plots and pictures.

    Raises
    ------
    ValueError
        When the file is not a stored result.
    """
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        content["plots"] = [_plot(plot) for plot in content["plots"]]
        content["pictures"] = [_picture(picture) for picture in content["pictures"]]
        content["rows"][0]["case"]
    except (KeyError, IndexError, TypeError, ValueError, zlib.error) as error:
        raise ValueError(f"{path} is not a result of a validation case: {error}") from error
    return content


def _plot(stored: dict[str, Any]) -> Plot:
    return Plot(**(stored | {"curves": [Curve(**curve) for curve in stored["curves"]]}))


def _picture(stored: dict[str, Any]) -> Picture:
    levels = np.frombuffer(zlib.decompress(base64.b64decode(stored["levels"])), np.int8).reshape(
        stored["shape"]
    )
    outlines = [np.array(points) for points in stored["outlines"]]
    return Picture(
        stored["name"], levels, stored["limit"], (stored["size"][0], stored["size"][1]), outlines
    )
