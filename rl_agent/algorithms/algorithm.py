"""Interface of an algorithm to the learner, and code shared by the algorithms that use autograd.

An algorithm keeps all its weights in one flat vector, those of its ``Actor`` first. Its loss is one torch function of
that vector and of a batch. Terms that must not carry a gradient are detached in it, so that one scalar trains all
networks. ``GradientStep`` differentiates the loss, on CPU or GPU, and an ``Optimiser`` updates the weights. With small
networks, autograd's overhead is more than half of such a step on a CPU; an algorithm may therefore provide an analytic
gradient (``gradient.py``), which is used instead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rl_agent.config import ActorCritic, AgentConfig, HasTarget
from rl_agent.networks import Parts
from rl_agent.networks.actor import Acting, Actor
from rl_agent.networks.distributions import densities
from rl_agent.networks.optim.gradient_step import GradientStep
from rl_agent.networks.optim.optimizer import Optimiser
from rl_agent.normalization.spaces import Sizes
from rl_agent.replay.batch import Source, gather_transitions
from rl_agent.replay.refer import Rules, is_near_policy
from rl_agent.runtime.lazy_torch import torch
from rl_agent.schedule import Ratio, Schedule

__all__ = [
    "Algorithm",
    "Evaluation",
    "Tensors",
    "centered",
    "compare_gaussians",
    "evaluation_of",
    "mean_of_present",
    "near_policy_masks",
]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
Tensors: TypeAlias = "dict[str, torch.Tensor]"


@dataclass(frozen=True)
class Evaluation:
    """Results of a gradient step: outputs of the networks for a batch, losses and statistics.

    Attributes
    ----------
    value, rho, kl
        V(s_t) (or Q(s_t, a_t)), importance weight (clipped if the replay method clips it) and D_KL(mu_t || pi), (B,).
    far
        Whether a step is far-policy, shape (B,).
    policy_loss, value_loss
        Mean policy loss and mean half squared error of the value, over the steps that rule 1 keeps.
    mean_rho, mean_kl, far_fraction
        Means over the steps of the batch.
    gradient_norm
        Euclidean norm of dL/dw.
    td_error
        TD error of each step, for priorities, shape (B,).
    advantage
        A(s_t, a_t), if it has a closed form, shape (B,).
    priority
        Priority for a prioritised sampler, used instead of ``td_error`` if given, shape (B,).
    """

    value: F32
    rho: F32
    kl: F32
    far: npt.NDArray[np.bool_]
    policy_loss: float
    value_loss: float
    mean_rho: float
    mean_kl: float
    far_fraction: float
    gradient_norm: float
    td_error: F32 | None = None
    advantage: F32 | None = None
    priority: F32 | None = None


def mean_of_present(numbers: npt.NDArray[Any], present: F32 | None) -> float:
    """Return the mean over the steps of present agents; ``present`` is 1 or 0 per step, ``None`` if all are present."""
    return float(numbers.mean() if present is None else np.average(numbers, weights=present))


def evaluation_of(results: Mapping[str, npt.NDArray[Any]]) -> Evaluation:
    """Build an ``Evaluation`` from the results of a loss; ``far`` and the optional ``present`` are 1 or 0."""
    rho, kl, far = results["rho"], results["kl"], results["far"] > 0.5
    present = results.get("present")
    return Evaluation(
        value=results["value"],
        rho=rho,
        kl=kl,
        far=far,
        policy_loss=float(results["policy_loss"]),
        value_loss=float(results["value_loss"]),
        mean_rho=mean_of_present(rho, present),
        mean_kl=mean_of_present(kl, present),
        far_fraction=mean_of_present(far, present),
        gradient_norm=float(results["gradient_norm"]),
        td_error=results.get("td_error"),
        advantage=results.get("advantage"),
        priority=results.get("priority"),
    )


def near_policy_masks(rho: torch.Tensor, inputs: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
    """Return masks of far-policy steps and of the steps that rule 1 keeps for the update, 1 or 0, shape (B,)."""
    c_max = inputs["c_max"]
    far = 1.0 - is_near_policy(rho, 1.0 / c_max, c_max).to(rho.dtype)
    return far, 1.0 - inputs["rule_1"] * far


def centered(advantage: torch.Tensor, near: torch.Tensor) -> torch.Tensor:
    """Subtract the mean over the batch, weighted by ``near``."""
    return advantage - (near * advantage).sum() / near.sum().clamp(min=1e-6)


def compare_gaussians(
    inputs: Tensors, mean: torch.Tensor, std: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compare the current Gaussian policy with the stored behaviour policy.

    Parameters
    ----------
    inputs
        Inputs of the loss.
    mean, std
        Mean and standard deviation of pi, shapes (B, A), and (A,) or (B, A).

    Returns
    -------
    rho, kl
        Importance weight (held constant) and D_KL(mu || pi), shape (B,).
    far, kept
        See ``near_policy_masks``.
    """
    action, behaviour = inputs["action"], (inputs["behaviour_mean"], inputs["behaviour_std"])
    log_pi, log_mu, kl = densities.compare_normals(action, behaviour, (mean, std))
    rho = densities.importance_weight(log_pi, log_mu).detach()
    return rho, kl, *near_policy_masks(rho, inputs)


class Algorithm(ABC):
    """Base class of the algorithms: the weights, acting and learning.

    Parameters
    ----------
    config
        Settings of the learner.
    sizes
        Sizes of the task.
    actor
        The policy; it uses the first part of the weights.
    parts
        All networks and loose parameters, those of the actor first.
    groups
        Parameter groups by name: the first and the last of the consecutive parts that share Adam moments and a learning
        rate.
    rng
        Samples the initial weights, and later the noise of the losses.

    Attributes
    ----------
    weights, target
        Flat vectors; there is a target if the settings have a ``tau``. With a GPU, these and the moments are copies on
        the host, which ``torch_step.to_host()`` updates.
    optimiser
        Updates the weights and the target, and holds the moments.
    torch_step
        The update by autograd, on the device.
    due
        Groups updated in the current step; a loss may skip terms that train only other groups.
    last_gradient
        dL/dw of the last step with an analytic gradient, shape of ``weights``.
    host_weights, host_target, host_gradient
        ``weights``, ``target`` and ``last_gradient`` as views per network.
    analytic_gradient
        Writes dL/dw of a batch into ``last_gradient`` instead of autograd, if there is an analytic gradient
        (``rl_agent/algorithms/NAME/gradient.py``); takes the arguments of ``update`` without the learning rate.
    uses_value_targets
        Whether the algorithm learns from the stored V_tbc.
    schedule
        Decides when the master loop takes gradient steps.
    """

    uses_value_targets = False
    schedule: type[Schedule] = Ratio
    analytic_gradient: Callable[[Any, Rules, F32 | None], Evaluation] | None = None

    def __init__(
        self,
        config: AgentConfig,
        sizes: Sizes,
        actor: Actor,
        parts: Parts,
        groups: Mapping[str, tuple[str, str]],
        rng: np.random.Generator,
    ) -> None:
        self.config, self.sizes = config, sizes
        self.actor, self.parts, self._rng = actor, parts, rng
        self.network = actor.network
        self.weights: F32 = parts.initialise(rng)
        self.target: F32 | None = self.weights.copy() if isinstance(config, HasTarget) else None
        slices = {
            name: slice(parts.slices[first].start, parts.slices[last].stop)
            for name, (first, last) in groups.items()
        }
        self.due = frozenset(slices)
        self.optimiser = Optimiser(self.weights, slices, self.target)
        self.torch_step = GradientStep(self.optimiser, self.loss, config.device)
        self._act = actor.bind(self.weights)
        self.last_gradient: F32 = np.zeros_like(self.weights)
        self.host_weights = parts.arrays(self.weights)
        self.host_gradient = parts.arrays(self.last_gradient)
        self.host_target = {} if self.target is None else parts.arrays(self.target)

    def act(self, observations: F32, state: F32) -> Acting:
        """Evaluate the newest policy for standardised observations (n, S)."""
        self.torch_step.to_host()
        return self._act(observations, state)

    @property
    def acting_weights(self) -> F32:
        """The newest weights of the policy, a view."""
        self.torch_step.to_host()
        return self.weights[: self.actor.size]

    @property
    def has_diverged(self) -> bool:
        """Whether any weight is not finite."""
        self.torch_step.to_host()
        return not bool(np.isfinite(self.weights).all())

    @property
    def window_steps(self) -> int:
        """Number of observations from which V of the last one is estimated."""
        return self.network.history + 1

    def values(self, windows: F32, lengths: I64, states: F32 | None = None) -> F32:
        """Return V at the end of windows of any lengths, shape (n,); zero for an algorithm without V.

        ``states`` are the recurrent states before the windows, if the memory stores them.
        """
        return np.zeros(len(lengths), np.float32)

    def gather(self, source: Source, indices: I64) -> tuple[I64, Any]:
        """Gather the data of sampled steps for a gradient.

        Returns
        -------
        indices
            Ring indices of the steps to which the results of ``update`` belong.
        batch
            A dataclass of arrays.
        """
        return gather_transitions(source, indices, self.network.history)

    def update(
        self, batch: Any, learning_rate: float, rules: Rules, weight: F32 | None = None
    ) -> Evaluation:
        """Take a gradient step.

        Parameters
        ----------
        batch
            From ``gather``.
        learning_rate
            Annealed value of ``config.learning_rate``; all rates are annealed by the same factor.
        rules
            Current parameters of Remember-and-Forget.
        weight
            Importance-sampling weights of a prioritised sampler, shape (B,); 1 if omitted.
        """
        rates = self.rates(learning_rate / self.config.learning_rate)
        self.due = frozenset(rates)
        if self.analytic_gradient is not None:
            evaluation = self.analytic_gradient(batch, rules, weight)
            self.optimiser.descend(self.last_gradient, rates, self.target_rate())
            return evaluation
        inputs = self.inputs(batch, weight) | rules._asdict()
        return evaluation_of(
            self.sorted_results(self.torch_step(inputs, rates, self.target_rate()))
        )

    def sorted_results(self, results: dict[str, Any]) -> dict[str, Any]:
        """Reorder the results of the loss to match the gathered ``indices``."""
        return results

    def inputs(self, batch: Any, weight: F32 | None) -> dict[str, Any]:
        """Collect the inputs of the loss from a batch; algorithms with random losses add their noise."""
        arrays = {name: array for name, array in vars(batch).items() if array is not None}
        return arrays | {
            "weight": np.ones(len(batch.action), np.float32) if weight is None else weight
        }

    def rates(self, share: float) -> dict[str, float]:
        """Return the learning rates of the groups to update, ``share`` times their initial values."""
        first = {"policy": self.config.policy_rate}
        return {
            name: share * first.get(name, self.config.learning_rate)
            for name in self.optimiser.groups
        }

    def target_rate(self) -> float:
        """Return the Polyak coefficient of the target network in this step."""
        return self.config.tau if isinstance(self.config, HasTarget) else 0.0

    def statistics(self) -> dict[str, float]:
        """Return algorithm-specific statistics to log, by name."""
        return {}

    @abstractmethod
    def loss(self, weights: torch.Tensor, inputs: Tensors) -> tuple[torch.Tensor, Tensors]:
        """Compute the loss of a batch as a torch graph of ``weights``, and the results for ``evaluation_of``."""

    def weight_decay(self, weights: torch.Tensor, *names: str) -> torch.Tensor:
        """Return the L2 penalty of critics: l/2 times the sum of squared weights of these parts, l = ``critic_l2``."""
        if not isinstance(self.config, ActorCritic) or self.config.critic_l2 == 0.0:
            return weights.new_zeros(())
        squares = [(weights[self.parts.slices[name]] ** 2).sum() for name in names]
        return 0.5 * self.config.critic_l2 * torch.stack(squares).sum()

    def arrays(self) -> dict[str, F32]:
        """Return the arrays of a checkpoint: the weights, moments and target, not copied."""
        self.torch_step.to_host()
        return self.optimiser.arrays()

    def counters(self) -> dict[str, Any]:
        """Return the step counters and the random state of a checkpoint."""
        return {
            "adam_steps": {name: adam.steps for name, adam in self.optimiser.adams.items()},
            "random": self._rng.bit_generator.state,
        }

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]], counters: dict[str, Any]) -> None:
        """Restore the arrays and counters of a checkpoint."""
        for name, array in self.arrays().items():
            array[...] = arrays[name]
        for name, steps in counters["adam_steps"].items():
            self.optimiser.adams[name].steps = steps
        self._rng.bit_generator.state = counters["random"]
        self.torch_step.to_device()
