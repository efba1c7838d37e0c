"""Settings of ACER."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal, get_args

from pydantic import Field

from rl_agent.config.agent import Few, Hidden
from rl_agent.config.kinds import HasTrustRegion
from rl_agent.config.registry import register
from rl_agent.config.run_length import RunLength
from rl_agent.config.segments import SegmentConfig

Component = Literal["retrace", "dueling", "trust_region", "bias_correction"]


@register("rl_agent.algorithms.acer.loss:ACER")
class ACERConfig(SegmentConfig, HasTrustRegion):
    """ACER.

    Attributes
    ----------
    dueling_samples, advantage_hidden
        Continuous actions: number of samples that estimate the mean advantage, and hidden units of the advantage
        network, "an additional small network" in the ACER paper; ``None`` uses the units of the other networks (ReF-ER
        paper).
    shared_network
        Discrete actions: whether policy and Q are outputs of one network, with one learning rate, as in the ACER paper.
    replay_ratio
        Discrete actions: mean number of replay calls after each on-policy call, which learns from the steps collected
        since the last on-policy call.
    without
        Components to leave out, for ablations: ``retrace`` (one-step targets r + gamma V), ``dueling`` (continuous
        actions: a network Q(s, a) that shares nothing with V(s)), ``trust_region`` and ``bias_correction`` (importance
        weights are clipped at c without correction).
    """

    title: ClassVar[str] = "ACER"
    colour: ClassVar[str] = "#17becf"
    policy_share: ClassVar[float] = 0.1
    fitted_policy_share: ClassVar[float | None] = 0.3

    algorithm: Literal["acer"] = "acer"
    tau: float = Field(default=1e-3, gt=0.0, le=1.0)
    dueling_samples: Few = 5
    advantage_hidden: Hidden | None = None
    shared_network: bool = False
    replay_ratio: float = Field(default=4.0, ge=0.0, le=1000.0)
    without: tuple[Component, ...] = Field(default=(), max_length=len(get_args(Component)))

    @property
    def divergence_bound(self) -> float:
        """Delta of the trust region; infinite without one."""
        return float("inf") if "trust_region" in self.without else self.trust_region

    @property
    def policy_rate(self) -> float:
        """Learning rate of the policy at t = 0."""
        return self.learning_rate if self.shared_network else super().policy_rate

    def rules(self, run: RunLength) -> Iterator[tuple[str, Any]]:
        """Leave out the learning rate of the policy if it has no network of its own."""
        for key, value in super().rules(run):
            if not (self.shared_network and key == "policy_learning_rate"):
                yield key, value

    def incompatibilities_with_actions(self, choices: int) -> Iterator[str]:
        """Yield a message for each setting that is incompatible with the task's actions."""
        if not choices and self.shared_network:
            yield "shared_network = True is for discrete actions; with continuous ones the networks are separate"
        if not choices and self.network == "conv":
            yield "algorithm = acer with network = conv needs discrete actions; use vracer or ppo"
        if choices and "dueling" in self.without:
            yield "without = dueling is for continuous actions; with discrete ones the value is a mean of Q already"
        if not choices and self.replay_ratio != type(self).model_fields["replay_ratio"].default:
            yield (
                f"replay_ratio = {self.replay_ratio:g} is for discrete actions; with continuous ones algorithm = acer "
                "learns in replay alone (ACER paper, section 6), so leave it out"
            )

    def on_policy_ratio(self, choices: int) -> float | None:
        """Return the mean number of replay calls per on-policy call; ``None`` (replay only) for continuous actions."""
        return self.replay_ratio if choices else None
