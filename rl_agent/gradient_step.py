"""A gradient step: autograd of a loss and Adam on one flat vector, on the CPU or captured as a CUDA graph.

Stretches of the vector (a policy, a critic) have moments and a learning rate of their own, and may sit out a step. A
target network follows the weights: w~ <- (1 - alpha) w~ + alpha w, after each step.

The loss of an algorithm is a function of tensors alone. On the CPU it is called anew for every step, and Adam is one
compiled pass (``rl_agent/adam.py``); on a CUDA device the whole step (loss, its gradient, Adam) is captured once for
fixed shapes and replayed: one copy of the inputs to the device, one launch, one copy of the results back. Without the
graph the hundreds of small kernels of a step would each wait for their launch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rl_agent.adam import BETA_1, BETA_2, EPSILON, Adam, follow
from rl_agent.later import torch

__all__ = ["GradientStep", "Loss", "descend"]

F32 = npt.NDArray[np.float32]
Tensors: TypeAlias = "dict[str, torch.Tensor]"

Loss: TypeAlias = "Callable[[torch.Tensor, Tensors], tuple[torch.Tensor, Tensors]]"
"""From the flat weights and the inputs of a step to the loss and the results that the host wants.

It must be made of operations on the device alone, without a look at their values (no ``float(x)``, no ``if x``), and
keep the shapes of its results.
"""

WARM_UP_STEPS = 3
"""Steps before the capture, in which cuBLAS and the allocator make what a graph cannot make (torch's own advice)."""


class GradientStep:
    """Weights on a device, and one step against the gradient of their loss.

    Parameters
    ----------
    weights
        Flat weights on the host. On the CPU they are moved in place; otherwise ``pull`` brings them up to date.
    stretches
        By name, a stretch of the weights and its moments on the host, which are handled like the weights.
    loss
        What is minimised.
    device
        ``cpu`` or ``cuda``.
    target
        Weights of the target network, on the host; the loss finds them as ``target_weights``.

    Attributes
    ----------
    max_norm
        Gradients that are longer are shortened to it.
    """

    def __init__(
        self,
        weights: F32,
        stretches: Mapping[str, tuple[slice, Adam]],
        loss: Loss,
        device: str,
        target: F32 | None = None,
    ) -> None:
        self._stretches = dict(stretches)
        self._host = [weights]
        for _, adam in self._stretches.values():
            self._host += [adam.first, adam.second]
        if target is not None:
            self._host.append(target)
        self._loss = loss
        self.max_norm: float | None = None
        self._target = target
        self._is_graphed = device == "cuda"
        self._copies = (
            [torch.from_numpy(array).to(device) for array in self._host] if self._is_graphed else []
        )
        self._stale = False
        self._programs: dict[tuple[Any, ...], _Program] = {}

    def __call__(
        self,
        inputs: Mapping[str, npt.ArrayLike],
        rates: Mapping[str, float],
        target_rate: float = 0.0,
    ) -> dict[str, F32]:
        """Take a step.

        Parameters
        ----------
        inputs
            Arrays and numbers that the loss reads; they reach it as float32.
        rates
            Learning rates of the stretches that move; the others sit out this step.
        target_rate
            Share of the weights that enters the target network.

        Returns
        -------
        dict of str to F32
            Results of the loss at the weights before the step, with ``gradient_norm`` added.
        """
        arrays = {name: np.asarray(value, np.float32) for name, value in inputs.items()}
        if not self._is_graphed:
            return self._step_on_host(arrays, rates, target_rate)
        self._stale = True
        numbers = self._numbers(rates) | {"target_rate": target_rate}
        arrays |= {name: np.asarray(value, np.float32) for name, value in numbers.items()}
        program = (tuple(rates), *((name, array.shape) for name, array in arrays.items()))
        if program not in self._programs:
            self._programs[program] = _Program(self._compute, self._copies, arrays)
        return self._programs[program](arrays)

    def _step_on_host(
        self, arrays: Mapping[str, F32], rates: Mapping[str, float], target_rate: float
    ) -> dict[str, F32]:
        weights = self._host[0]
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        if self._target is not None:
            tensors["target_weights"] = torch.from_numpy(self._target)
        results, slope = self._differentiate(torch.from_numpy(weights), tensors)
        gradient = slope.numpy()
        norm = np.asarray(math.sqrt(float(gradient @ gradient)), np.float32)
        if self.max_norm is not None and norm > self.max_norm:
            gradient = gradient * np.float32(self.max_norm / norm)
        self.descend(gradient, rates, target_rate)
        return {name: result.numpy() for name, result in results.items()} | {"gradient_norm": norm}

    def descend(self, gradient: F32, rates: Mapping[str, float], target_rate: float = 0.0) -> None:
        """Take a step on the host against a gradient of the shape of the weights; see ``__call__``."""
        weights = self._host[0]
        for name, rate in rates.items():
            place, adam = self._stretches[name]
            adam.step(weights[place], gradient[place], rate)
        if self._target is not None and target_rate > 0.0:
            follow(self._target, weights, np.float32(target_rate))

    def _numbers(self, rates: Mapping[str, float]) -> dict[str, float]:
        """Count a step of every stretch that is due, and tell what Adam needs to know of it."""
        numbers: dict[str, float] = {}
        for name, (_, adam) in self._stretches.items():
            is_due = name in rates
            adam.steps += is_due
            steps = max(1, adam.steps)
            numbers[f"due/{name}"] = float(is_due)
            numbers[f"rate/{name}"] = rates.get(name, 0.0) / (1.0 - BETA_1**steps)
            numbers[f"per_root/{name}"] = 1.0 / math.sqrt(1.0 - BETA_2**steps)
        return numbers

    def to_host(self) -> None:
        """Bring weights and moments on the host up to date."""
        if self._stale:
            for array, tensor in zip(self._host, self._copies, strict=True):
                torch.from_numpy(array).copy_(tensor)
            self._stale = False

    def to_device(self) -> None:
        """Take over weights and moments that were changed on the host."""
        for array, tensor in zip(self._host, self._copies, strict=False):
            tensor.copy_(torch.from_numpy(array))

    def _differentiate(
        self, weights: torch.Tensor, inputs: Tensors
    ) -> tuple[Tensors, torch.Tensor]:
        """Compute the results of the loss, and its gradient."""
        leaf = weights.detach().requires_grad_()
        loss, results = self._loss(leaf, inputs)
        (gradient,) = torch.autograd.grad(loss, leaf)
        return {name: result.detach().clone() for name, result in results.items()}, gradient

    def _compute(self, inputs: Tensors) -> Tensors:
        """One step of Adam on every stretch that is due, as operations on the device."""
        weights, *moments = self._copies
        if self._target is not None:
            inputs = inputs | {"target_weights": moments[-1]}
        results, gradient = self._differentiate(weights, inputs)
        norm = gradient.norm()
        if self.max_norm is not None:
            gradient = gradient * (self.max_norm / norm.clamp(min=self.max_norm))
        for k, (name, (place, adam)) in enumerate(self._stretches.items()):
            due, rate, per_root = (inputs[f"{of}/{name}"] for of in ("due", "rate", "per_root"))
            descend(
                weights[place],
                gradient[place],
                moments[2 * k],
                moments[2 * k + 1],
                due,
                rate,
                per_root,
                adam.epsilon,
            )
        if self._target is not None:
            moments[-1].add_((weights - moments[-1]) * inputs["target_rate"])
        return results | {"gradient_norm": norm}


def descend(
    weights: torch.Tensor,
    gradient: torch.Tensor,
    first: torch.Tensor,
    second: torch.Tensor,
    due: torch.Tensor,
    rate: torch.Tensor,
    per_root: torch.Tensor,
    epsilon: float = EPSILON,
) -> None:
    """Take a step of Adam in place as operations on a device; nothing moves with ``due`` = 0.

    ``rate`` and ``per_root`` hold the corrections of the first steps (``Adam.step``).
    """
    first.add_((gradient - first) * ((1.0 - BETA_1) * due))
    second.add_((gradient * gradient - second) * ((1.0 - BETA_2) * due))
    weights -= rate * first / (second.sqrt() * per_root + epsilon)


class _Program:
    """A captured step for inputs of fixed shapes, with its buffers.

    Parameters
    ----------
    compute
        The step as a function of its inputs.
    state
        What it moves; left as it was by the warm-up.
    arrays
        Inputs of the shapes to come.
    """

    def __init__(
        self,
        compute: Callable[[Tensors], Tensors],
        state: list[torch.Tensor],
        arrays: dict[str, F32],
    ) -> None:
        device = state[0].device
        size = sum(array.size for array in arrays.values())
        self._sent = torch.empty(size, pin_memory=True)
        self._received = torch.empty(size, device=device)
        self._places = _split(
            self._sent.numpy(), {name: array.shape for name, array in arrays.items()}
        )
        inputs: Tensors = _split(
            self._received, {name: array.shape for name, array in arrays.items()}
        )
        self._send(arrays)
        before = [tensor.clone() for tensor in state]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP_STEPS):
                results = compute(inputs)
        torch.cuda.current_stream().wait_stream(stream)
        for tensor, saved in zip(state, before, strict=True):
            tensor.copy_(saved)
        self._shapes = {name: tuple(result.shape) for name, result in results.items()}
        self._returned = torch.empty(
            sum(result.numel() for result in results.values()), pin_memory=True
        )
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            results = compute(inputs)
            self._results = torch.cat(
                [results[name].to(torch.float32).reshape(-1) for name in self._shapes]
            )

    def __call__(self, arrays: dict[str, F32]) -> dict[str, F32]:
        """Replay the step."""
        self._send(arrays)
        self._graph.replay()
        self._returned.copy_(self._results, non_blocking=True)
        torch.cuda.current_stream().synchronize()
        return _split(self._returned.numpy().copy(), self._shapes)

    def _send(self, arrays: dict[str, F32]) -> None:
        for name, array in arrays.items():
            self._places[name][...] = array
        self._received.copy_(self._sent, non_blocking=True)


def _split(flat: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """Cut into consecutive stretches of the given shapes a flat array or tensor."""
    out, offset = {}, 0
    for name, shape in shapes.items():
        end = offset + math.prod(shape)
        out[name] = flat[offset:end].reshape(shape)
        offset = end
    return out
