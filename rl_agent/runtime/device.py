"""Device of the updates: the CPU, with a number of threads, or a CUDA device."""

from __future__ import annotations

from threadpoolctl import threadpool_limits

from rl_agent.runtime import lazy_torch
from rl_agent.runtime.lazy_torch import torch

__all__ = ["DeviceError", "check_device", "prepare_device"]


class DeviceError(ValueError):
    """Raised if the device in the settings is not available."""


def check_device(device: str) -> None:
    """Check that a device is available on this machine.

    Raises
    ------
    DeviceError
        If it is not available.
    """
    if device == "cuda" and not torch.cuda.is_available():
        built = (
            f"is built for CUDA {torch.version.cuda} but finds no device"
            if torch.version.cuda
            else "has no CUDA"
        )
        raise DeviceError(
            f"device = 'cuda' needs a CUDA device, but torch {torch.__version__} here {built}"
        )


def prepare_device(device: str, threads: int) -> None:
    """Check that a device is available, and limit the threads of the numerical libraries in this process."""
    check_device(device)
    threadpool_limits(threads)
    lazy_torch.use_threads(threads)
