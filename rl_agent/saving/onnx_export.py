"""Export of a policy to ONNX: one network that any runtime can evaluate, without flowsim or torch.

Inputs and outputs are named. ``observation`` (n, S) is unscaled, and ``action`` is in the task's units: (n, A) within
its bounds, or the numbers of discrete actions, int64 (n,). It is deterministic: the mean of a Gaussian policy, or the
most likely discrete action. A policy with a state (an LSTM, a stack of frames) has ``state`` and ``next_state``,
shape (n, state size); an episode begins with zeros. With N agents per environment the shapes are (n, N, S), (n, N, A)
and (n, N, state size).
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rl_agent.algorithms.making import make_actor
from rl_agent.normalization.actions import ActionMap

if TYPE_CHECKING:
    from rl_agent.policy import Policy

__all__ = ["export_onnx", "largest_difference"]

F32 = npt.NDArray[np.float32]

STEPS_COMPARED = 8
"""Number of steps over which a file is compared with its policy."""


def export_onnx(policy: Policy, path: Path, notes: dict[str, Any] | None = None) -> None:
    """Write a policy as an ONNX model; an older file at ``path`` is replaced only when the new one is complete.

    Parameters
    ----------
    policy
        The policy.
    path
        The file.
    notes
        Additional metadata by name; values other than strings are written as JSON.

    Raises
    ------
    ModuleNotFoundError
        If ``onnx`` or ``onnxscript`` is not installed.
    OSError
        If the file cannot be written.
    """
    import onnx
    import onnxscript  # noqa: F401  (torch would say that it is missing in a traceback of its own)
    import torch

    size, axis = policy.state_size, policy.sizes.agents_axis
    names = ["observation", "state"][: 1 + bool(size)]
    widths = (policy.sizes.seen, size)[: len(names)]
    given = tuple(torch.zeros(2, *axis, width) for width in widths)
    batch = torch.export.Dim("batch")
    module = _module(policy)
    with _quiet(), torch.no_grad():
        program = torch.onnx.export(
            module, given, input_names=names, output_names=["action", "next_state"][: len(names)],
            dynamic_shapes=({0: batch},) * len(names), dynamo=True, verbose=False,
        )  # fmt: skip
    assert program is not None
    model = program.model_proto
    metadata = {
        "action_low": policy.action_low.tolist(),
        "action_high": policy.action_high.tolist(),
        "agents_of_an_environment": policy.sizes.agents_per_env,
        "algorithm": policy.config.algorithm,
        **(notes or {}),
    }
    model.producer_name = "flowsim"
    for name, value in metadata.items():
        model.metadata_props.add(
            key=name, value=value if isinstance(value, str) else json.dumps(value)
        )
    onnx.checker.check_model(model)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.write_bytes(model.SerializeToString())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _module(policy: Policy) -> Any:
    """Return the policy's deterministic action as a torch module."""
    import torch

    actor = make_actor(policy.config, policy.sizes)
    action_map, sizes = policy.action_map, policy.sizes

    class Deterministic(torch.nn.Module):
        """Maps observations, and states if there are any, to actions and next states."""

        weights: torch.Tensor
        mean: torch.Tensor
        per_std: torch.Tensor
        low: torch.Tensor
        high: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            tensors = {
                "weights": policy.weights,
                "mean": policy.state_mean,
                "per_std": policy.state_per_std,
                "low": policy.action_low,
                "high": policy.action_high,
            }
            for name, array in tensors.items():
                self.register_buffer(name, torch.from_numpy(np.array(array, np.float32)))

        def forward(self, observation: torch.Tensor, state: torch.Tensor | None = None) -> Any:
            if not sizes.agents_axis:
                return self.of_rows(observation, state)
            each = None if state is None else state.flatten(0, 1)
            given = self.of_rows(observation.flatten(0, 1), each)
            apart = lambda rows: rows.unflatten(0, (-1, sizes.agents_per_env))  # noqa: E731
            return apart(given) if state is None else tuple(map(apart, given))

        def of_rows(self, observation: torch.Tensor, state: torch.Tensor | None) -> Any:
            before = observation.new_zeros(observation.shape[0], 0) if state is None else state
            if sizes.previous_action:
                read = torch.cat([observation, before[:, -sizes.previous_action :]], dim=1)
                before = before[:, : -sizes.previous_action]
            else:
                read = observation
            mode, after = actor.reference_mode(
                self.weights, (read - self.mean) * self.per_std, before
            )
            if isinstance(action_map, ActionMap):
                raw = torch.tanh(mode) if action_map.squash == "tanh" else mode
                centre, half = (torch.from_numpy(a) for a in (action_map.centre, action_map.half))
                action = torch.minimum(torch.maximum(centre + half * raw, self.low), self.high)
                chosen = raw.clamp(-1.0, 1.0)
            else:
                best = mode.argmax(dim=1)
                action = best + int(action_map.low[0])
                chosen = torch.nn.functional.one_hot(best, mode.shape[1]).to(mode.dtype)
            if sizes.previous_action:
                after = torch.cat([after, chosen], dim=1)
            return action if state is None else (action, after)

    return Deterministic().eval()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter's progress messages."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def largest_difference(policy: Policy, path: Path, environments: int = 5) -> float:
    """Evaluate a file with ONNX Runtime on random observations, and compare it with the policy.

    Observations are sampled from the distribution used to standardise the policy's inputs, over several steps, so that
    the state of a recurrent policy is tested.

    Parameters
    ----------
    policy
        The exported policy.
    path
        The file.
    environments
        Number of rows evaluated at once.

    Returns
    -------
    float
        Largest difference between actions, in units of the range of each action; for discrete actions, the fraction of
        rows that differ. NaN if an action is NaN.

    Raises
    ------
    ModuleNotFoundError
        If ``onnxruntime`` is not installed.
    """
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    rng, axis, largest = np.random.default_rng(0), policy.sizes.agents_axis, 0.0
    state = ours = policy.initial_state(environments)
    for _ in range(STEPS_COMPARED):
        normal = rng.standard_normal((environments, *axis, policy.sizes.observation), np.float32)
        seen = (policy.state_mean + normal / policy.state_per_std)[..., : policy.sizes.seen]
        fed = {"observation": seen} | ({"state": state} if policy.state_size else {})
        action, *following = session.run(None, fed)
        expected, ours = policy.act(seen, ours, deterministic=True)
        if policy.sizes.choices:
            differs = action.reshape(expected.shape) != expected
            difference = differs.mean()
        else:
            # float32 bounds of 1e38 would overflow
            width = policy.action_high.astype(np.float64) - policy.action_low
            difference = (np.abs(action.astype(np.float64) - expected) / width).max()
        largest = float(np.maximum(largest, difference))  # unlike max, NaN if either is
        if policy.state_size:
            state = following[0]
    return largest
