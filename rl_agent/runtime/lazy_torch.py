"""torch, imported on first use; training with analytic gradients never imports it.

    from rl_agent.runtime.lazy_torch import torch

takes no time, whereas ``import torch`` takes two seconds of processor time, more than all other imports of a run.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

__all__ = ["torch", "use_threads"]


class _Torch:
    """Proxy of the module that caches looked-up attributes."""

    threads = 0
    """Number of threads to set when torch is imported; 0 keeps torch's default."""

    def __getattr__(self, name: str) -> Any:
        is_new = "torch" not in sys.modules
        import torch

        if is_new and self.threads:
            torch.set_num_threads(self.threads)
        value = getattr(torch, name)
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    import torch as torch
else:
    torch = _Torch()


def use_threads(threads: int) -> None:
    """Set the number of torch threads, now or when it is imported."""
    _Torch.threads = threads
    if "torch" in sys.modules:
        torch.set_num_threads(threads)
