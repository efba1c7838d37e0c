"""Code shared by the on-policy algorithms, which have a network for V and discard each horizon after learning."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rl_agent.algorithms.algorithm import Algorithm
from rl_agent.replay.batch import Batch, Source, gather_batch
from rl_agent.runtime.lazy_torch import torch
from rl_agent.schedule import Iterations

__all__ = ["OnPolicy"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


class OnPolicy(Algorithm):
    """Base class of the on-policy algorithms, which learn in iterations; the part ``value`` is V."""

    schedule = Iterations

    def values(self, windows: F32, lengths: I64, states: F32 | None = None) -> F32:
        """Return V at the end of windows, shape (n,)."""
        self.torch_step.to_host()
        with torch.no_grad():
            views = self.parts.views(torch.from_numpy(self.weights))
            outputs = self.parts(
                "value", views, torch.from_numpy(windows), torch.from_numpy(lengths)
            )
        return outputs[:, 0].numpy()

    def gather(self, source: Source, indices: I64) -> tuple[I64, Batch]:
        """Gather sampled steps; ``v_tbc`` holds G_t and ``q_ret`` A_t, standardised if the algorithm does so."""
        indices, batch = gather_batch(source, indices, self.network.history)
        return indices, Batch(**vars(batch) | {"q_ret": source.memory.values.advantage[indices]})
