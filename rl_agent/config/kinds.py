"""What several algorithms have in common: a memory, targets, a policy of its own, a trust region."""

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
    """What learns from a replay memory all the time.

    Attributes
    ----------
    fragment_length
        Steps after which a running episode goes to the memory as far as it has come, bootstrapped there like a
        truncated one; ``None`` (the paper) keeps it back until it ends. The windows of an lstm and stacks of frames do
        not cross fragments.
    policy_average
        Share of the gradient steps so far over which the weights of the policy are averaged that is evaluated, filmed
        and handed out; 0 takes the newest weights. The agents act with the newest in any case.
    """

    fragment_length: Steps | None = None
    policy_average: Share = 0.0

    def rules(self, run: RunLength) -> Iterator[tuple[str, Any]]:
        """Add the memory, when learning starts, and fragments of long episodes."""
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
        """Return a sixth of the run with remember-and-forget, else all of it, as far as published."""
        if self.replay != "none":
            return min(2**16, max(2**12, run.steps // 6))
        return max(2, min(self.buffer_size, max(run.steps, 2**12)))

    def _incompatibilities(self) -> Iterator[str]:
        yield from super()._incompatibilities()
        if self.learning_starts > self.buffer_size:
            yield (
                f"learning_starts = {self.learning_starts} must not be above buffer_size = {self.buffer_size}: "
                "learning would never start"
            )


class DrawsSteps(Remembering):
    """What learns from single steps of its memory.

    Attributes
    ----------
    episode_share
        Sampler ``uniform``: share of a batch that is sampled by episodes, which are equally likely whatever their
        length; so steps of short ones are seen more often.
    """

    episode_share: Share = 0.0

    def rules(self, run: RunLength) -> Iterator[tuple[str, Any]]:
        """Add what an lstm learns with: windows that are short and those it acts on (docs/studies/memory.md)."""
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
    """What has a target network.

    Attributes
    ----------
    tau
        Share of the weights that enters the target network (with a trust region: the average policy) in a gradient
        step.
    """

    tau: float = Field(default=0.01, gt=0.0, le=1.0)


class WithTarget(HasTarget, DrawsSteps):
    """What has a target network, and learns from single steps of its memory."""


class WithPolicy(AgentConfig):
    """What has a network for the policy alone.

    Attributes
    ----------
    policy_learning_rate
        Step size of that network; ``None`` takes ``policy_share`` of ``learning_rate``.
    """

    policy_share: ClassVar[float] = 1.0
    """Learning rate of the policy over that of the critics (ReF-ER paper, appendix A)."""

    fitted_policy_share: ClassVar[float | None] = None
    """The same in a run, where it is not the published one."""

    policy_learning_rate: Rate | None = None

    def rules(self, run: RunLength) -> Iterator[tuple[str, Any]]:
        """Add the learning rate of the policy."""
        yield from super().rules(run)
        if self.fitted_policy_share is not None:
            rate = self.named("learning_rate", self.learning_rate_factor * run.learning_rate)
            yield "policy_learning_rate", rounded(self.fitted_policy_share * rate)

    @property
    def policy_rate(self) -> float:
        """Learning rate of the policy's own network at t = 0."""
        own = self.policy_learning_rate
        return self.policy_share * self.learning_rate if own is None else own


class ActorCritic(WithTarget, WithPolicy):
    """What has critics of actions.

    Attributes
    ----------
    critic_l2
        L2 decay of the critic's weights.
    """

    serves_choices: ClassVar[bool] = False

    critic_l2: Share = 0.0

    def _incompatibilities(self) -> Iterator[str]:
        yield from super()._incompatibilities()
        if self.network == "conv":
            yield (
                f"algorithm = {self.algorithm} has critics of actions, and network = conv reads pictures alone; "
                "use mlp or lstm"
            )


class TwoCritics(ActorCritic):
    """What TD3 and SAC have in common: the defaults of the NERS paper, table B.1."""

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
    """Refuse ``squash`` where the policy has a tanh of its own."""
    if config.squash != "none":
        yield (
            f"algorithm = {config.algorithm} has its tanh inside the policy: squash must be none, not {config.squash}"
        )


class HasTrustRegion(HasTarget):
    """What keeps the policy in a trust region around its average (Wang et al. 2017, section 3.3).

    Attributes
    ----------
    trust_region
        delta of the trust region.
    """

    tau: float = Field(default=5e-3, gt=0.0, le=1.0)
    trust_region: Positive = 1.0

    def rules(self, run: RunLength) -> Iterator[tuple[str, Any]]:
        """Add the pace of the average, which bounds that of the policy."""
        yield from super().rules(run)
        yield "tau", 0.02
