"""A gradient step as a torch program: autograd and Adam on one flat vector, on the CPU or captured as a CUDA graph.

The loss of an algorithm is a function of tensors alone. On the CPU it is called anew for every step; on a CUDA
device the whole step (loss, its gradient, Adam) is captured once for fixed shapes and replayed: one copy of the
inputs to the device, one launch, one copy of the results back. Without the graph the hundreds of small kernels
of a step would each wait for their launch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from rl_agent.adam import BETA_1, BETA_2, EPSILON, Adam

__all__ = ["GradientStep", "Loss"]

F32 = npt.NDArray[np.float32]
Tensors = dict[str, torch.Tensor]

Loss = Callable[[torch.Tensor, Tensors], tuple[torch.Tensor, Tensors]]
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
    adam
        The moments, on the host; handled like the weights.
    loss
        What is minimised.
    device
        ``cpu`` or ``cuda``.
    """

    def __init__(self, weights: F32, adam: Adam, loss: Loss, device: str) -> None:
        self._host = (weights, adam.first, adam.second)
        self._adam, self._loss = adam, loss
        self._device = torch.device(device)
        self._is_graphed = self._device.type == "cuda"
        self._copies = [torch.from_numpy(array).to(self._device) for array in self._host] if self._is_graphed else []
        self._stale = False
        self._programs: dict[tuple[Any, ...], _Program] = {}

    def __call__(self, inputs: Mapping[str, npt.ArrayLike], learning_rate: float) -> dict[str, F32]:
        """Take a step.

        Parameters
        ----------
        inputs
            Arrays and numbers that the loss reads; they reach it as float32.
        learning_rate
            Step size of Adam.

        Returns
        -------
        dict of str to F32
            Results of the loss at the weights before the step, with ``gradient_norm`` added.
        """
        adam = self._adam
        adam.steps += 1
        rates = {
            "rate": learning_rate / (1.0 - BETA_1**adam.steps),
            "per_root": 1.0 / math.sqrt(1.0 - BETA_2**adam.steps),
        }
        arrays = {name: np.asarray(value, np.float32) for name, value in (dict(inputs) | rates).items()}
        self._stale = self._is_graphed
        if not self._is_graphed:
            results = self._compute({name: torch.from_numpy(array) for name, array in arrays.items()})
            return {name: result.numpy() for name, result in results.items()}
        shapes = tuple((name, array.shape) for name, array in arrays.items())
        if shapes not in self._programs:
            self._programs[shapes] = _Program(self._compute, self._copies, arrays)
        return self._programs[shapes](arrays)

    def pull(self) -> None:
        """Bring weights and moments on the host up to date."""
        if self._stale:
            for array, tensor in zip(self._host, self._copies, strict=True):
                torch.from_numpy(array).copy_(tensor)
            self._stale = False

    def push(self) -> None:
        """Take over weights and moments that were changed on the host."""
        for array, tensor in zip(self._host, self._copies, strict=False):
            tensor.copy_(torch.from_numpy(array))

    def _compute(self, inputs: Tensors) -> Tensors:
        """One step of Adam (the same as ``Adam.step``), as operations on the device."""
        weights, first, second = self._copies or map(torch.from_numpy, self._host)
        leaf = weights.detach().requires_grad_()
        loss, results = self._loss(leaf, inputs)
        (gradient,) = torch.autograd.grad(loss, leaf)
        with torch.no_grad():
            first.mul_(BETA_1).add_(gradient, alpha=1.0 - BETA_1)
            second.mul_(BETA_2).addcmul_(gradient, gradient, value=1.0 - BETA_2)
            weights.sub_(inputs["rate"] * first / (second.sqrt() * inputs["per_root"] + EPSILON))
        return {name: result.detach() for name, result in results.items()} | {"gradient_norm": gradient.norm()}


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
        self, compute: Callable[[Tensors], Tensors], state: list[torch.Tensor], arrays: dict[str, F32]
    ) -> None:
        device = state[0].device
        size = sum(array.size for array in arrays.values())
        self._sent = torch.empty(size, pin_memory=True)
        self._received = torch.empty(size, device=device)
        self._places = _split(self._sent.numpy(), {name: array.shape for name, array in arrays.items()})
        inputs: Tensors = _split(self._received, {name: array.shape for name, array in arrays.items()})
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
        self._returned = torch.empty(sum(result.numel() for result in results.values()), pin_memory=True)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            results = compute(inputs)
            self._results = torch.cat([results[name].to(torch.float32).reshape(-1) for name in self._shapes])

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
