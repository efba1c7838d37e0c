"""ACER (Wang et al. 2017): actor-critic with experience replay on stretches of episodes, continuous and discrete.

For a stretch s_0, a_0, r_1, ... s_k of at most ``segment`` steps, with rho_i = pi(a_i|s_i) / mu(a_i|s_i), from its end:

    Qret <- r_{i+1} + gamma Qret,  starting from V(s_k) (0 after a terminal state);  the same for Qopc
    g    <- min(c, rho_i) (Qopc - V_i) grad_phi log f(a_i|phi) + the correction of what c cuts off          (eq. 16)
    k    <- grad_phi D_KL( f(.|phi_a) || f(.|phi) ),  phi_a of the average policy network                  (section 3.3)
    z    <- g - max( 0, (k'g - delta) / |k|^2 ) k                                                         (eq. 12)
    Qret <- c_i (Qret - Q_i) + V_i,    Qopc <- (Qopc - Q_i) + V_i

The policy's loss is -phi' z with z constant. Averages: w_a <- (1 - alpha) w_a + alpha w.

Continuous actions (algorithm 3). Networks for the policy's mean phi = m(s) (fixed sigma), V(s) and A(s, a):

    Q~(s, a) = V(s) + A(s, a) - mean_j A(s, u_j),  u_1 ... u_n ~ pi( . | s), n = 5                           (eq. 13)
    c_i      = min( 1, rho_i^(1/d) )
    correction: [1 - c / rho'_i]+ ( Q~(s_i, a'_i) - V_i ) grad_phi log f(a'_i|phi),  a'_i ~ pi( . | s_i)
    L_Q      = ( Qret - Q~(s_i, a_i) )^2 / 2 + ( V_target - V(s_i) )^2 / 2,
    V_target = V_i + min(1, rho_i) ( Qret - Q~_i )                                                         (eq. 14)

Discrete actions (algorithm 2). Networks for phi = pi(.|s) and Q(s, .); V_i = sum_a pi(a|s_i) Q(s_i, a);
c_i = min(1, rho_i); Qret in the place of Qopc; and as
correction sum_a [1 - c / rho_i(a)]+ pi(a|s_i) ( Q(s_i, a) - V_i ) grad_phi log pi(a|s_i).
Calls alternate: one on the newest episodes, then Poisson(``replay_ratio``) on the memory (algorithm 1).

Defaults are those of Novati & Koumoutsakos 2019 (appendix A): memory 1e5, 24 episodes a gradient, alpha 0.001, c = 5,
delta = 1, learning rates 1e-4 (V, A, Q) and 1e-5 (policy). A run takes fewer episodes a gradient, a gradient per four
steps, and its own learning rates, gamma, memory, start and annealing where none are named (``rl_agent/defaults.py``).

Done otherwise than there:

1. Stretches have at most 50 steps (the k of the ACER paper's continuous tasks); ``segment`` 1000 takes whole episodes.
2. (Q(x, a) in the correction where algorithm 2 prints Q(x, a_i): the latter would not correct anything.)
3. One gradient for all stretches, averaged over their steps, in place of asynchronous threads; no entropy bonus.
4. An lstm runs once along a stretch, from zero at up to ``window`` steps before it; with ``acting`` ``window`` it sees
   the window that ends at each step, as for the other algorithms.

``loss`` is for autograd, which a GPU runs; on a CPU its gradient is written out (``by_hand/acer.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from rl_agent import densities, distributions
from rl_agent.actor import Actor
from rl_agent.algorithms.algorithm import Algorithm, Source, Tensors, nearness
from rl_agent.algorithms.by_hand import acer as by_hand
from rl_agent.config import ACERConfig
from rl_agent.networks import Parts, Views, is_written_out, make_network, outputs_along
from rl_agent.scaling import Sizes

__all__ = ["ACER", "Stretches", "make_actor", "retrace", "trust_region_step"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Stretches:
    """n drawn stretches of up to T steps, aligned at their ends in a grid (T, n); M of its places are gathered.

    Attributes
    ----------
    sequences, lengths
        Up to ``network.history`` observations before each stretch, its own and the one that followed, aligned at their
        ends, zeros before an episode, shape (H + T + 1, n, S); and how many of them exist, not growing, shape (n,).
    action, behaviour_mean, behaviour_std, reward
        Shape (M, ...); the reward in scaled units.
    place
        Where each of the M lies in the grid, counted along its rows, shape (M,).
    exists
        1 for steps of a stretch, 0 for places before it begins, shape (T, n).
    goes_on
        0 where a terminal state follows the stretch, else 1, shape (n,).
    """

    sequences: F32
    lengths: I64
    action: F32
    behaviour_mean: F32
    behaviour_std: F32
    reward: F32
    place: I64
    exists: F32
    goes_on: F32


def make_actor(config: ACERConfig, sizes: Sizes) -> Actor:
    """Build the policy: the mean of a Gaussian with a fixed sigma, or logits."""
    network = make_network(config, sizes.observation, sizes.choices or sizes.action)
    std = np.full(sizes.action, config.sigma, np.float32)

    def gaussian(outputs: F32, loose: F32) -> tuple[F32, F32, F32]:
        return np.zeros(len(outputs), np.float32), outputs, std

    def categorical(outputs: F32, loose: F32) -> tuple[F32, F32, F32]:
        nothing = np.zeros((len(outputs), 0), np.float32)
        return np.zeros(len(outputs), np.float32), distributions.softmax(outputs), nothing

    return Actor(network, 0, categorical if sizes.choices else gaussian)


def retrace(
    reward: torch.Tensor,
    value: torch.Tensor,
    q: torch.Tensor,
    trace: torch.Tensor,
    last: torch.Tensor,
    gamma: float,
) -> torch.Tensor:
    """Q_i = r_{i+1} + gamma [ trace_{i+1} (Q_{i+1} - q_{i+1}) + V_{i+1} ] along stretches (Retrace; 1 as trace: Q opc).

    Parameters
    ----------
    reward, value, q, trace
        r_{i+1}, V(s_i), Q(s_i, a_i) and the trace's coefficient, shape (T, n).
    last
        Value of what followed the last steps, shape (n,).
    gamma
        Discount factor.

    Returns
    -------
    Tensor
        Shape (T, n).
    """
    targets, following = [], last
    for i in range(len(reward) - 1, -1, -1):
        target = reward[i] + gamma * following
        targets.append(target)
        following = trace[i] * (target - q[i]) + value[i]
    return torch.stack(targets[::-1])


def trust_region_step(g: torch.Tensor, k: torch.Tensor, delta: float) -> torch.Tensor:
    """Solve min_z |g - z|^2 / 2 subject to k'z <= delta over the last axis (eqs. 11, 12)."""
    excess = ((k * g).sum(-1, keepdim=True) - delta).clamp(min=0.0)
    return g - excess / (k * k).sum(-1, keepdim=True).clamp(min=1e-12) * k


def _between(
    inputs: Tensors,
) -> tuple[Callable[[torch.Tensor], torch.Tensor], Callable[[torch.Tensor], torch.Tensor]]:
    """Ways from what is gathered, shape (M,), to the grid of ``Stretches``, and back."""
    shape, place = inputs["exists"].shape, inputs["place"].long()

    def grid(x: torch.Tensor) -> torch.Tensor:
        return x.new_zeros(shape.numel()).index_copy(0, place, x).reshape(shape)

    return grid, lambda y: y.reshape(-1)[place]


def _places(inputs: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
    """Where in ``sequences`` the M steps lie, and what followed the n last ones."""
    total, n, _ = inputs["sequences"].shape
    before = total - 1 - len(inputs["exists"])
    after = (total - 1) * n + torch.arange(n, device=inputs["place"].device)
    return inputs["place"].long() + before * n, after


class ACER(Algorithm):
    """A policy with its average, and critics; see the module."""

    config: ACERConfig

    def __init__(self, config: ACERConfig, sizes: Sizes, rng: np.random.Generator) -> None:
        actor = make_actor(config, sizes)
        state = sizes.observation
        if sizes.choices:
            parts = Parts(policy=actor.network, critic=make_network(config, state, sizes.choices))
        else:
            advantage = make_network(config, state + sizes.action, 1)
            parts = Parts(policy=actor.network, advantage=advantage, critic=make_network(config, state, 1))
        first = "critic" if sizes.choices else "advantage"
        stretches = {"policy": ("policy", "policy"), "critic": (first, "critic")}
        super().__init__(config, sizes, actor, parts, stretches, rng)
        self._is_step: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
        if config.device == "cpu" and is_written_out(self.network):
            self.by_hand = by_hand.Gradient(self, config)

    def gather(self, source: Source, slots: I64) -> tuple[I64, Stretches]:
        """Gather the stretches that end at ``slots``, those with the longest past first."""
        memory, history = source.memory, self.network.history
        longest = self.config.segment
        if self.config.device == "cpu":  # a graph needs the same shapes every time
            longest = min(longest, int(memory.position[slots].max()) + 1)
        known = np.minimum(memory.position[slots] + 2, history + longest + 1)
        order = np.argsort(-known, kind="stable")
        slots, known = slots[order], known[order]
        back = np.arange(longest - 1, -1, -1)[:, None]
        exists = memory.position[slots] >= back
        is_gathered = exists if self.config.device == "cpu" else np.ones_like(exists)
        place = np.flatnonzero(is_gathered)
        places = (np.where(exists, slots - back, slots) % memory.capacity).reshape(-1)[place]
        rows = memory.rows(slots)
        is_last = memory.position[slots] + 1 == memory.length[rows]
        self._is_step = exists.reshape(-1)[place]
        return places[self._is_step], Stretches(
            sequences=memory.following(slots, history + longest + 1, source.mean, source.per_std),
            lengths=known,
            action=memory.action[places],
            behaviour_mean=memory.behaviour_mean[places],
            behaviour_std=memory.behaviour_std[places],
            reward=memory.reward[places] * np.float32(1.0 / source.reward_scale),
            place=place,
            exists=exists.astype(np.float32),
            goes_on=(~(memory.terminated[rows] & is_last)).astype(np.float32),
        )

    def inputs(self, batch: Stretches, weight: F32 | None) -> dict[str, Any]:
        """Add the noise of a' and of u_1 ... u_n."""
        inputs = super().inputs(batch, weight)
        if not self.sizes.choices:
            shape = (1 + self.config.dueling_samples, *batch.action.shape)
            inputs["noise"] = self._rng.standard_normal(shape, np.float32)
        return inputs

    def sorted_results(self, results: dict[str, Any]) -> dict[str, Any]:
        """Leave out the rows that are no steps."""
        return {name: array[self._is_step] if np.ndim(array) else array for name, array in results.items()}

    def loss(self, weights: torch.Tensor, inputs: Tensors) -> tuple[torch.Tensor, Tensors]:
        """Loss of the policy and the critics over all steps of the stretches."""
        return self._discrete(weights, inputs) if self.sizes.choices else self._continuous(weights, inputs)

    def _continuous(self, weights: torch.Tensor, inputs: Tensors) -> tuple[torch.Tensor, Tensors]:
        action, config = inputs["action"], self.config
        m = len(action)
        views, (steps, after) = self.parts.views(weights), _places(inputs)
        mean, average = self._policies(views, inputs, steps)
        std = torch.full_like(mean[0], config.sigma)
        behaviour = inputs["behaviour_mean"], inputs["behaviour_std"]
        # a' first, then u_1 ... u_n
        drawn = mean.detach() + std * inputs["noise"]
        weight_of = lambda a: densities.importance_weight(  # noqa: E731
            densities.gaussian_log_density(a, mean.detach(), std), densities.gaussian_log_density(a, *behaviour)
        )
        rho, rho_drawn = weight_of(action), weight_of(drawn[0])

        values = self._along("critic", views, inputs, torch.cat([steps, after]))[:, 0]
        value, last = values[:m], values[m:].detach() * inputs["goes_on"]
        every = torch.cat([action[None], drawn])
        raw = self._along("advantage", views, inputs, steps, every)[..., 0]
        centre = raw[2:].mean(0)
        q, q_drawn = value + raw[0] - centre, (value + raw[1] - centre).detach()

        with torch.no_grad():
            grid, flat = _between(inputs)
            trace = rho.clamp(max=1.0) if action.shape[1] == 1 else (rho ** (1.0 / action.shape[1])).clamp(max=1.0)
            known = grid(inputs["reward"]), grid(value), grid(q)
            q_ret = flat(retrace(*known, grid(trace), last, config.gamma))
            q_opc = flat(retrace(*known, grid(torch.ones_like(trace)), last, config.gamma))
            push = (rho.clamp(max=config.truncation) * (q_opc - value))[:, None] * (action - mean) / std**2
            share = (1.0 - config.truncation / rho_drawn).clamp(min=0.0)
            push = push + (share * (q_drawn - value))[:, None] * (drawn[0] - mean) / std**2
            z = trust_region_step(push, (mean - average) / std**2, config.trust_region)
            target = value + rho.clamp(max=1.0) * (q_ret - q)
        policy_loss = -(mean * z).sum(1)
        error = q_ret - q
        value_loss = 0.5 * (error**2 + (target - value) ** 2)
        kl = densities.gaussian_kl(*behaviour, mean, std)
        return self._total(policy_loss, value_loss, inputs, {"value": value, "rho": rho, "kl": kl})

    def _discrete(self, weights: torch.Tensor, inputs: Tensors) -> tuple[torch.Tensor, Tensors]:
        action, config = inputs["action"].long(), self.config
        views, (steps, after) = self.parts.views(weights), _places(inputs)
        logits, average_logits = self._policies(views, inputs, steps)
        phi, average = torch.softmax(logits, -1), torch.softmax(average_logits, -1)
        q_all = self._along("critic", views, inputs, steps)
        q = q_all.gather(1, action).squeeze(1)
        with torch.no_grad():
            p = phi.clamp(min=1e-6)
            value = (phi * q_all).sum(1)
            next_p = torch.softmax(self._along("policy", views, inputs, after), -1)
            last = (next_p * self._along("critic", views, inputs, after)).sum(1) * inputs["goes_on"]
            rho_all = p / inputs["behaviour_mean"].clamp(min=1e-6)
            rho = rho_all.gather(1, action).squeeze(1)
            grid, flat = _between(inputs)
            known = grid(inputs["reward"]), grid(value), grid(q)
            q_ret = flat(retrace(*known, grid(rho.clamp(max=1.0)), last, config.gamma))
            # grad_phi log f(a|phi) is 1 / phi_a in the place of a
            taken = torch.zeros_like(p).scatter(1, action, 1.0)
            push = taken * (rho.clamp(max=config.truncation) * (q_ret - value))[:, None] / p
            push = push + (1.0 - config.truncation / rho_all).clamp(min=0.0) * (q_all - value[:, None])
            z = trust_region_step(push, -average / p, config.trust_region)
        policy_loss = -(phi * z).sum(1)
        value_loss = 0.5 * (q_ret - q) ** 2
        kl = densities.categorical_kl(inputs["behaviour_mean"], logits)
        return self._total(policy_loss, value_loss, inputs, {"value": value, "rho": rho, "kl": kl})

    def _along(
        self, name: str, views: Views, inputs: Tensors, place: torch.Tensor, actions: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Compute the outputs of a network at steps of the stretches."""
        return outputs_along(self.parts, name, views, inputs["sequences"], inputs["lengths"], place, actions)

    def _policies(self, views: Views, inputs: Tensors, steps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute the outputs of the policy and of its average."""
        with torch.no_grad():
            average = self._along("policy", self.parts.views(inputs["target_weights"]), inputs, steps)
        return self._along("policy", views, inputs, steps), average

    def _total(
        self, policy_loss: torch.Tensor, value_loss: torch.Tensor, inputs: Tensors, results: Tensors
    ) -> tuple[torch.Tensor, Tensors]:
        """Average over the steps that exist."""
        exists = inputs["exists"].reshape(-1)[inputs["place"].long()]
        mean = lambda x: (x * exists).sum() / exists.sum()  # noqa: E731
        far, _ = nearness(results["rho"], inputs)
        losses = {"policy_loss": mean(policy_loss), "value_loss": mean(value_loss)}
        return losses["policy_loss"] + losses["value_loss"], results | losses | {"far": far}
