"""What the learner asks of an algorithm, and the machinery that those share which learn by autograd.

An algorithm keeps all its weights in one flat vector, those of its ``Actor`` first. Its loss is one torch function of
that vector and of a batch; whatever must not carry a gradient is detached there, so that one scalar trains all the
networks. ``GradientStep`` differentiates it, on either device, and an ``Optimiser`` descends. Where the networks are
small, more than half of such a step on a CPU is autograd's own work; there an algorithm may have its gradient written
out, too (``gradient.py``), with which it descends by itself.
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
    """What the networks say about a batch, and the size of the losses.

    Attributes
    ----------
    value, rho, kl
        V(s_t) (or Q(s_t, a_t)), importance weight (clipped where the replay asks for it) and D_KL(mu_t || pi), (B,).
    far
        Whether a step is far-policy, shape (B,).
    policy_loss, value_loss
        Means over the steps that rule 1 keeps, of the policy's loss and of the squared error of the value, halved.
    mean_rho, mean_kl, far_fraction
        Means over the experiences of the batch.
    gradient_norm
        Euclidean norm of dL/dw.
    td_error
        Error of the value of each step, for priorities, shape (B,).
    advantage
        A(s_t, a_t), where it has a closed form, shape (B,).
    priority
        What a prioritised sampler goes by instead of ``td_error``, shape (B,).
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
    """Mean over the steps that agents took part in; ``present`` is 1 or 0 for each, ``None`` where all did."""
    return float(numbers.mean() if present is None else np.average(numbers, weights=present))


def evaluation_of(results: Mapping[str, npt.NDArray[Any]]) -> Evaluation:
    """Sort the results of a loss into an ``Evaluation``; ``far`` comes as 1 or 0, and so may ``present``."""
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
    """Tell which steps are far-policy, and which steps rule 1 keeps for the update, both as 1 or 0 of shape (B,)."""
    c_max = inputs["c_max"]
    far = 1.0 - is_near_policy(rho, 1.0 / c_max, c_max).to(rho.dtype)
    return far, 1.0 - inputs["rule_1"] * far


def centered(advantage: torch.Tensor, near: torch.Tensor) -> torch.Tensor:
    """Subtract the mean over the batch, weighted by ``near``."""
    return advantage - (near * advantage).sum() / near.sum().clamp(min=1e-6)


def compare_gaussians(
    inputs: Tensors, mean: torch.Tensor, std: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compare the present Gaussian policy with the stored behaviour.

    Parameters
    ----------
    inputs
        Of a loss.
    mean, std
        Statistics of pi, shapes (B, A), and (A,) or (B, A).

    Returns
    -------
    rho, kl
        Importance weight (held constant) and D_KL(mu || pi), shape (B,).
    far, kept
        As of ``near_policy_masks``.
    """
    action, behaviour = inputs["action"], (inputs["behaviour_mean"], inputs["behaviour_std"])
    log_pi, log_mu, kl = densities.compare_normals(action, behaviour, (mean, std))
    rho = densities.importance_weight(log_pi, log_mu).detach()
    return rho, kl, *near_policy_masks(rho, inputs)


class Algorithm(ABC):
    """Weights of an algorithm, how they act and how they learn.

    Parameters
    ----------
    config
        The learner's settings.
    sizes
        Of the task.
    actor
        The policy; it reads the first weights.
    parts
        All networks and loose parameters, those of the actor first.
    groups
        By name, the first and the last of the consecutive parts that share moments and a learning rate.
    rng
        Samples the first weights, and later the noise of the losses.

    Attributes
    ----------
    weights, target
        Flat vectors; there is a target where the settings have a rate for it. With a GPU they and the moments are
        copies on the host: ``torch_step.to_host()`` brings them up to date.
    optimiser
        Moves the weights and the target; it has the moments.
    torch_step
        The update by autograd, on the device.
    due
        Groups that move in the step under way; a loss may leave out what the others would learn from.
    last_gradient
        dL/dw of the last step whose gradient was written out, shape of ``weights``.
    host_weights, host_target, host_gradient
        ``weights``, ``target`` and ``last_gradient`` cut into the blocks of the networks.
    analytic_gradient
        Where the gradient is written out, what writes dL/dw of a batch into ``last_gradient`` instead of autograd
        (``rl_agent/algorithms/NAME/gradient.py``); arguments of ``update`` without the learning rate.
    uses_value_targets
        Whether it learns from the stored V_tbc.
    schedule
        When the master loop learns.
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
        self.config, self.sizes, self.actor, self.parts, self._rng = (
            config,
            sizes,
            actor,
            parts,
            rng,
        )
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
        self.host_weights, self.host_gradient = (
            parts.arrays(self.weights),
            parts.arrays(self.last_gradient),
        )
        self.host_target = {} if self.target is None else parts.arrays(self.target)

    def act(self, observations: F32, state: F32) -> Acting:
        """Tell what the newest policy says about standardised observations (n, S)."""
        self.torch_step.to_host()
        return self._act(observations, state)

    @property
    def acting_weights(self) -> F32:
        """The newest weights of the policy, not a copy."""
        self.torch_step.to_host()
        return self.weights[: self.actor.size]

    @property
    def has_diverged(self) -> bool:
        """Whether a weight is not finite: nothing can be learned any more."""
        self.torch_step.to_host()
        return not bool(np.isfinite(self.weights).all())

    def values(self, windows: F32, lengths: I64) -> F32:
        """V at the end of windows of any lengths, shape (n,); zero for an algorithm without V."""
        return np.zeros(len(lengths), np.float32)

    def gather(self, source: Source, indices: I64) -> tuple[I64, Any]:
        """Gather what a gradient needs of sampled steps.

        Returns
        -------
        indices
            Ring indices of the steps that the results of ``update`` are about.
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
            Present value of ``config.learning_rate``; all rates are annealed alike.
        rules
            Of remember-and-forget.
        weight
            Importance-sampling weights of a prioritised sampler, shape (B,); 1 if left out.
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
        """Bring the results of the loss into the order of the gathered ``indices``."""
        return results

    def inputs(self, batch: Any, weight: F32 | None) -> dict[str, Any]:
        """Collect what the loss reads of a batch; algorithms with random losses add their noise."""
        arrays = {name: array for name, array in vars(batch).items() if array is not None}
        return arrays | {
            "weight": np.ones(len(batch.action), np.float32) if weight is None else weight
        }

    def rates(self, share: float) -> dict[str, float]:
        """Learning rates of the groups that move in this step, annealed to ``share`` of their first values."""
        first = {"policy": self.config.policy_rate}
        return {
            name: share * first.get(name, self.config.learning_rate)
            for name in self.optimiser.groups
        }

    def target_rate(self) -> float:
        """Share of the weights that enters the target network in this step."""
        return self.config.tau if isinstance(self.config, HasTarget) else 0.0

    def statistics(self) -> dict[str, float]:
        """Tell what is worth a curve in this algorithm alone."""
        return {}

    @abstractmethod
    def loss(self, weights: torch.Tensor, inputs: Tensors) -> tuple[torch.Tensor, Tensors]:
        """Loss of a batch as a torch graph of ``weights``, and the results that ``evaluation_of`` sorts."""

    def weight_decay(self, weights: torch.Tensor, *names: str) -> torch.Tensor:
        """L2 decay of critics: l/2 times the sum of squares of the weights of these parts, l being ``critic_l2``."""
        if not isinstance(self.config, ActorCritic) or self.config.critic_l2 == 0.0:
            return weights.new_zeros(())
        squares = [(weights[self.parts.slices[name]] ** 2).sum() for name in names]
        return 0.5 * self.config.critic_l2 * torch.stack(squares).sum()

    def arrays(self) -> dict[str, F32]:
        """Arrays of a checkpoint: the weights, moments and target themselves, not copies."""
        self.torch_step.to_host()
        return self.optimiser.arrays()

    def counters(self) -> dict[str, Any]:
        """Numbers of a checkpoint."""
        return {
            "adam_steps": {name: adam.steps for name, adam in self.optimiser.adams.items()},
            "random": self._rng.bit_generator.state,
        }

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]], counters: dict[str, Any]) -> None:
        """Take over the arrays and numbers of a checkpoint."""
        for name, array in self.arrays().items():
            array[...] = arrays[name]
        for name, steps in counters["adam_steps"].items():
            self.optimiser.adams[name].steps = steps
        self._rng.bit_generator.state = counters["random"]
        self.torch_step.to_device()
