"""Files of measurements: NumPy, and NetCDF by xarray."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import xarray

MISSING = "xarray and h5netcdf write NetCDF: install flowsim-rl[xarray]"


def require_xarray() -> None:
    """Raise RuntimeError if xarray and h5netcdf are not installed."""
    try:
        import h5netcdf  # noqa: F401
        import xarray  # noqa: F401
    except ImportError:
        raise RuntimeError(MISSING) from None


def to_dataset(
    arrays: Mapping[str, NDArray[Any]],
    dimensions: Mapping[str, Sequence[str]],
    coordinates: Mapping[str, NDArray[Any]] | None = None,
) -> xarray.Dataset:
    """Return arrays with named dimensions as a dataset.

    Raises
    ------
    RuntimeError
        If xarray is not installed.
    """
    require_xarray()
    import xarray

    variables = {name: (tuple(dimensions[name]), values) for name, values in arrays.items()}
    return xarray.Dataset(variables, coords=coordinates)


def save_arrays(
    path: Path,
    arrays: Mapping[str, NDArray[Any]],
    dataset: Callable[[], xarray.Dataset],
    also: Sequence[str] = (),
) -> Path:
    """Write arrays atomically as ``.npz`` or, by xarray, as ``.nc``.

    Raises
    ------
    ValueError
        For another suffix; ``also`` are suffixes that the caller handles.
    RuntimeError
        For ``.nc`` if xarray or h5netcdf is not installed.
    """
    from flowsim.io import write_whole

    buffer = io.BytesIO()
    if path.suffix == ".npz":
        np.savez(buffer, **dict(arrays))  # type: ignore[arg-type]
    elif path.suffix == ".nc":
        dataset().to_netcdf(buffer, engine="h5netcdf")
    else:
        endings = ", ".join([".npz", *also, ".nc"])
        raise ValueError(f"{path}: measurements are written to files that end with {endings}")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, buffer.getvalue())
    return path
