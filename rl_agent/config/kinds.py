"""Settings that several algorithms share: replay memory, target network, policy network, trust region."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from pydantic import Field

from rl_agent.config.agent import (
    Activation,
    AgentConfig,
    Count,
    Hidden,
    NotNegative,
    Positive,
    Rate,
    Replay,
    Share,
    Steps,
)
from rl_agent.config.run_length import USUAL_AGENTS, RunLength, rounded

SHORTEST_FRAGMENT = 50
FITTED_WINDOW = 8


class Remembering(AgentConfig):
    """Settings of algorithms that learn from a replay memory.

    Attributes
    ----------
    fragment_length
        Number of steps after which an open episode is stored in the memory as a fragment, bootstrapped at its end like
        a truncated episode; ``None`` (the paper) stores episodes only when they end. The observations before a
        fragment are stored with it, so windows of an LSTM and stacks of frames continue across the cut.
    policy_average
        Fraction of the gradient steps so far over which the weights are averaged for evaluation, films and export; 0
        uses the newest weights. The agents always act with the newest weights during training.
    """

    fragment_length: Steps | None = None
    policy_average: Share = 0.0

    def rules(self, run: RunLength) -> Iterator[tuple[str, Any]]:
        """Add the memory size, the learning start, and fragments for long episodes."""
        yield from super().rules(run)
        size = self.named("buffer_size", self.fitted_buffer(run))
        starts = self.named("learning_starts", run.learning_starts(self.fitted_batch))
        yield "buffer_size", max(size, self.named("learning_starts", 0))
        yield "learning_starts", min(starts, size)
        fragment = max(SHORTEST_FRAGMENT, starts // USUAL_AGENTS)
        has_memory = self.network != "mlp" or self.frames > 1
        if not has_memory and (run.episode_steps is None or run.episode_steps > fragment):
            yield "fragment_length", fragment

    def fitted_buffer(self, run: RunLength) -> int:
        """Return 1/6 of the run with Remember-and-Forget, otherwise all of it up to ``buffer_size`` (both bounded)."""
        if self.replay != "none":
            return min(2**16, max(2**12, run.steps // 6))
        return max(2, min(self.buffer_size, max(run.steps, 2**12)))

    def _incompatibilities(self) -> Iterator[str]:
        yield from super()._incompatibilities()
        if self.learning_starts > self.buffer_size:
            yield (
                f"learning_starts = {self.learning_starts} must not be above buffer_size = {self.buffer_size}: "
                "the memory would evict steps before learning starts"
            )


class SamplesSteps(Remembering):
    """Settings of algorithms that learn from single steps of the memory.

    Attributes
    ----------
    episode_share
        Sampler ``uniform``: fraction of a batch that is sampled by episode, with equal probability for all episodes
        regardless of length, so that steps of short episodes are sampled more often.
    """

    episode_share: Share = 0.0

    def rules(self, run: RunLength) -> Iterator[tuple[str, Any]]:
        """Add short windows for an LSTM, used for acting as well (docs/studies/memory.md)."""
        yield from super().rules(run)
        if self.network == "lstm":
            yield "window", min(FITTED_WINDOW, run.episode_steps or FITTED_WINDOW)
            yield "acting", "window"
            if self.fits_learning_rate and self.annealing > 0.0:
                yield "annealing", run.slight_annealing

    def _incompatibilities(self) -> Iterator[str]:
        yield from super()._incompatibilities()
        if self.episode_share > 0.0 and self.sampler != "uniform":
            yield (
                f"episode_share = {self.episode_share} is a share of a uniform batch, which sampler = {self.sampler} "
                "does not sample; use sampler = uniform"
            )


class HasTarget(AgentConfig):
    """Settings of algorithms with a target network.

    Attributes
    ----------
    tau
        Polyak coefficient of the target network (with a trust region: of the average policy) per gradient step.
    """

    tau: float = Field(default=0.01, gt=0.0, le=1.0)


class WithTarget(HasTarget, SamplesSteps):
    """Settings of algorithms with a target network that learn from single steps of the memory."""

    unread: ClassVar[tuple[str, ...]] = ("center_advantages", "sigma_min")


class WithPolicy(AgentConfig):
    """Settings of algorithms with a separate policy network.

    Attributes
    ----------
    policy_learning_rate
        Step size of that network; ``None`` uses ``policy_share`` times ``learning_rate``.
    """

    policy_share: ClassVar[float] = 1.0
    """Ratio of the learning rates of policy and critics (ReF-ER paper, appendix A)."""

    fitted_policy_share: ClassVar[float | None] = None
    """The ratio used for a run, if it differs from the published one."""

    policy_learning_rate: Rate | None = None

    def rules(self, run: RunLength) -> Iterator[tuple[str, Any]]:
        """Add the learning rate of the policy."""
        yield from super().rules(run)
        if self.fitted_policy_share is not None:
            rate = self.named("learning_rate", self.learning_rate_factor * run.learning_rate)
            yield "policy_learning_rate", rounded(self.fitted_policy_share * rate)

    @property
    def policy_rate(self) -> float:
        """Learning rate of the policy network at t = 0."""
        own = self.policy_learning_rate
        return self.policy_share * self.learning_rate if own is None else own


class ActorCritic(WithTarget, WithPolicy):
    """Settings of algorithms with critics Q(s, a).

    Attributes
    ----------
    critic_l2
        L2 penalty coefficient of the critic's weights.
    """

    serves_choices: ClassVar[bool] = False

    critic_l2: Share = 0.0

    def _incompatibilities(self) -> Iterator[str]:
        yield from super()._incompatibilities()
        if self.network == "conv":
            yield (
                f"algorithm = {self.algorithm} has critics of actions, and network = conv reads images only; use mlp "
                "or lstm"
            )


class TwoCritics(ActorCritic):
    """Settings shared by TD3 and SAC: the defaults of the NERS paper, table B.1."""

    fits_learning_rate: ClassVar[bool] = False

    hidden: Hidden | None = (256, 256)
    activation: Activation = "relu"
    batch_size: Count = 128
    gamma: Share = 0.99
    learning_rate: Rate = 3e-4
    buffer_size: Steps = 1_000_000
    learning_starts: Count = 5_000
    tau: float = Field(default=5e-3, gt=0.0, le=1.0)
    replay: Replay = "none"
    annealing: NotNegative = 0.0

    @classmethod
    def _usual(cls, named: dict[str, Any]) -> dict[str, Any]:
        return super()._usual(named) | {"random_start": named.get("replay", "none") == "none"}


def tanh_inside(config: AgentConfig) -> Iterator[str]:
    """Yield a message if ``squash`` is set, for a policy that already has a tanh."""
    if config.squash != "none":
        yield (
            f"algorithm = {config.algorithm} already applies tanh in its policy: squash must be none, not "
            f"{config.squash}"
        )


class HasTrustRegion(HasTarget):
    """Settings of algorithms that keep the policy in a trust region around its average (Wang et al. 2017, section 3.3).

    Attributes
    ----------
    trust_region
        delta of the trust region.
    """

    tau: float = Field(default=5e-3, gt=0.0, le=1.0)
    trust_region: Positive = 1.0

    def rules(self, run: RunLength) -> Iterator[tuple[str, Any]]:
        """Add the averaging rate, which limits how fast the policy can change."""
        yield from super().rules(run)
        yield "tau", 0.02
