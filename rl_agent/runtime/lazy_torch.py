"""torch, imported when something of it is first used: gradients that are written out never do.

    from rl_agent.runtime.lazy_torch import torch

takes no time, where ``import torch`` takes two seconds of processor time, more than all else that a run imports.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

__all__ = ["torch", "use_threads"]


class _Torch:
    """Stands for the module; what was looked up once is kept."""

    threads = 0
    """That torch is to use from its import on; its own choice if 0."""

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
    """Let torch use so many threads, now or when it is imported."""
    _Torch.threads = threads
    if "torch" in sys.modules:
        torch.set_num_threads(threads)
