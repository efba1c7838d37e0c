"""Update of flat weights: Adam, and a target network.

Groups of the weights (a policy, a critic) have separate moments and learning rates, and may be left out of a step.
After each step the target is updated: w~ <- (1 - alpha) w~ + alpha w.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from rl_agent.networks.optim.adam import Adam, follow, follow_on_device, step_on_device
from rl_agent.runtime.lazy_torch import torch

__all__ = ["Optimiser"]

F32 = npt.NDArray[np.float32]
Tensors: TypeAlias = "dict[str, torch.Tensor]"


class Optimiser:
    """Weights on the host with their moments and target, and their update on the host or, for copies, on a device.

    Parameters
    ----------
    weights
        Flat vector, updated in place.
    groups
        Slices of the weights that share moments and a learning rate, by name.
    target
        Weights of the target network, if any, shape of ``weights``.

    Attributes
    ----------
    adams
        Moments of each group.
    """

    def __init__(
        self, weights: F32, groups: Mapping[str, slice], target: F32 | None = None
    ) -> None:
        self.weights, self.groups, self.target = weights, dict(groups), target
        self.adams = {name: Adam(len(weights[block])) for name, block in groups.items()}

    def arrays(self) -> dict[str, F32]:
        """Return all arrays that a step changes, not copied; checkpoints store them and a device has copies."""
        arrays = {"weights": self.weights}
        for name, adam in self.adams.items():
            arrays |= {f"adam/{name}/first": adam.first, f"adam/{name}/second": adam.second}
        return arrays if self.target is None else arrays | {"target": self.target}

    def descend(self, gradient: F32, rates: Mapping[str, float], target_rate: float = 0.0) -> None:
        """Take a step on the host.

        Parameters
        ----------
        gradient
            Gradient, shape of the weights.
        rates
            Learning rates of the groups to update; the others are left unchanged.
        target_rate
            Polyak coefficient of the target network.
        """
        for name, rate in rates.items():
            block = self.groups[name]
            self.adams[name].step(self.weights[block], gradient[block], rate)
        if self.target is not None and target_rate > 0.0:
            follow(self.target, self.weights, np.float32(target_rate))

    def count_step(self, rates: Mapping[str, float], target_rate: float = 0.0) -> dict[str, float]:
        """Count a step taken on a device, and return the numbers that ``descend_on_device`` needs for it."""
        numbers: dict[str, float] = {}
        for name, adam in self.adams.items():
            is_due = name in rates
            adam.steps += is_due
            rate, per_root = adam.corrected(rates.get(name, 0.0))
            numbers[f"due/{name}"] = float(is_due)
            numbers[f"rate/{name}"], numbers[f"per_root/{name}"] = rate, per_root
        return numbers | {"target_rate": target_rate}

    def descend_on_device(
        self, copies: Tensors, gradient: torch.Tensor, numbers: Mapping[str, torch.Tensor]
    ) -> None:
        """Take the step of ``descend`` on copies of ``arrays()``, with operations that a CUDA graph can capture."""
        for name, block in self.groups.items():
            first, second = (copies[f"adam/{name}/{moment}"] for moment in ("first", "second"))
            due, rate, per_root = (numbers[f"{of}/{name}"] for of in ("due", "rate", "per_root"))
            step_on_device(
                copies["weights"][block],
                gradient[block],
                first,
                second,
                due,
                rate,
                per_root,
                self.adams[name].epsilon,
            )
        if self.target is not None:
            follow_on_device(copies["target"], copies["weights"], numbers["target_rate"])
