"""A gradient step by autograd, on the CPU or captured as a CUDA graph.

The loss of an algorithm depends only on tensors. On the CPU it is called for every step, and the optimiser updates the
weights on the host (``rl_agent/networks/optim/optimizer.py``). On a CUDA device the whole step (loss, gradient, Adam)
is captured once for fixed shapes and replayed: one copy of the inputs to the device, one launch, one copy of the
results back. Without the graph, the hundreds of small kernels of a step would each have the latency of a launch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rl_agent.networks.optim.optimizer import Optimiser
from rl_agent.runtime.lazy_torch import torch

__all__ = ["GradientStep", "Loss"]

F32 = npt.NDArray[np.float32]
Tensors: TypeAlias = "dict[str, torch.Tensor]"

Loss: TypeAlias = "Callable[[torch.Tensor, Tensors], tuple[torch.Tensor, Tensors]]"
"""Maps the flat weights and the inputs of a step to the loss and the results to return to the host.

It must consist of device operations that do not read values (no ``float(x)``, no ``if x``), and always return results
of the same shapes.
"""

WARM_UP_STEPS = 3
"""Steps before the capture, in which cuBLAS and the allocator initialise (as the torch documentation recommends)."""


class GradientStep:
    """Gradient steps that minimise a loss.

    Parameters
    ----------
    optimiser
        The weights, on the host. On the CPU they are updated in place; otherwise copies on the device are updated, and
        ``to_host`` copies weights, moments and target back.
    loss
        The loss to minimise; the weights of a target network are passed as the input ``target_weights``.
    device
        ``cpu`` or ``cuda``.

    Attributes
    ----------
    max_norm
        Norm to which gradients are clipped, or ``None``. It may be changed at any time.
    """

    def __init__(self, optimiser: Optimiser, loss: Loss, device: str) -> None:
        self._optimiser, self._loss = optimiser, loss
        self.max_norm: float | None = None
        self._is_graphed = device == "cuda"
        self._copies: Tensors = {}
        if self._is_graphed:
            self._copies = {
                name: torch.from_numpy(array).to(device)
                for name, array in optimiser.arrays().items()
            }
        self._stale = False
        self._programs: dict[tuple[Any, ...], _Program] = {}
        self._constants: tuple[float | None, ...] = ()

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
            Arrays and numbers for the loss, converted to float32.
        rates, target_rate
            As in ``Optimiser.descend``.

        Returns
        -------
        dict of str to F32
            Results of the loss at the weights before the step, with ``gradient_norm`` added.
        """
        arrays = {name: np.asarray(value, np.float32) for name, value in inputs.items()}
        if not self._is_graphed:
            return self._step_on_host(arrays, rates, target_rate)
        self._stale = True
        numbers = self._optimiser.count_step(rates, target_rate)
        arrays |= {name: np.asarray(value, np.float32) for name, value in numbers.items()}
        constants = (self.max_norm, *(adam.epsilon for adam in self._optimiser.adams.values()))
        if constants != self._constants:  # they are part of the captured steps
            self._programs.clear()
            self._constants = constants
        program = (tuple(rates), *((name, array.shape) for name, array in arrays.items()))
        if program not in self._programs:
            self._programs[program] = _Program(
                self._step_on_device, list(self._copies.values()), arrays
            )
        return self._programs[program](arrays)

    def to_host(self) -> None:
        """Copy weights, moments and target from the device to the host, if they have changed."""
        if self._stale:
            for name, array in self._optimiser.arrays().items():
                torch.from_numpy(array).copy_(self._copies[name])
            self._stale = False

    def to_device(self) -> None:
        """Copy weights, moments and target from the host to the device."""
        if self._is_graphed:
            for name, array in self._optimiser.arrays().items():
                self._copies[name].copy_(torch.from_numpy(array))

    def _step_on_host(
        self, arrays: Mapping[str, F32], rates: Mapping[str, float], target_rate: float
    ) -> dict[str, F32]:
        optimiser = self._optimiser
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        if optimiser.target is not None:
            tensors["target_weights"] = torch.from_numpy(optimiser.target)
        results, slope = self._differentiate(torch.from_numpy(optimiser.weights), tensors)
        gradient = slope.numpy()
        norm = np.asarray(math.sqrt(float(gradient @ gradient)), np.float32)
        if self.max_norm is not None and norm > self.max_norm:
            gradient = gradient * np.float32(self.max_norm / norm)
        optimiser.descend(gradient, rates, target_rate)
        return {name: result.numpy() for name, result in results.items()} | {"gradient_norm": norm}

    def _step_on_device(self, inputs: Tensors) -> Tensors:
        """Take a step with device operations; ``inputs`` contains the numbers of ``Optimiser.count_step``."""
        copies = self._copies
        if "target" in copies:
            inputs = inputs | {"target_weights": copies["target"]}
        results, gradient = self._differentiate(copies["weights"], inputs)
        norm = gradient.norm()
        if self.max_norm is not None:
            gradient = gradient * (self.max_norm / norm.clamp(min=self.max_norm))
        self._optimiser.descend_on_device(copies, gradient, inputs)
        return results | {"gradient_norm": norm}

    def _differentiate(
        self, weights: torch.Tensor, inputs: Tensors
    ) -> tuple[Tensors, torch.Tensor]:
        """Compute the results of the loss and its gradient."""
        leaf = weights.detach().requires_grad_()
        loss, results = self._loss(leaf, inputs)
        (gradient,) = torch.autograd.grad(loss, leaf)
        return {name: result.detach().clone() for name, result in results.items()}, gradient


class _Program:
    """A captured step for inputs of fixed shapes, with its buffers.

    Parameters
    ----------
    compute
        The step as a function of its inputs.
    state
        Tensors that the step updates; restored after the warm-up.
    arrays
        Inputs with the shapes to capture.
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
        try:
            with torch.cuda.stream(stream):
                for _ in range(WARM_UP_STEPS):
                    results = compute(inputs)
        finally:  # also if interrupted
            torch.cuda.current_stream().wait_stream(stream)
            for tensor, saved in zip(state, before, strict=True):
                tensor.copy_(saved)
        self._shapes = {name: tuple(result.shape) for name, result in results.items()}
        self._returned = torch.empty(
            sum(result.numel() for result in results.values()), pin_memory=True
        )
        self._graph = torch.cuda.CUDAGraph()
        # other threads may use the device during the capture (a flow on the same device)
        with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
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
    """Split a flat array or tensor into consecutive views of the given shapes."""
    out, offset = {}, 0
    for name, shape in shapes.items():
        end = offset + math.prod(shape)
        out[name] = flat[offset:end].reshape(shape)
        offset = end
    return out
