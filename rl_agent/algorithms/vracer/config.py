"""Settings of V-RACER."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field

from rl_agent.config.agent import Count, Replay, Share
from rl_agent.config.kinds import SamplesSteps
from rl_agent.config.registry import register
from rl_agent.config.run_length import RunLength


@register("rl_agent.algorithms.vracer.loss:VRacer")
class VRacerConfig(SamplesSteps):
    """V-RACER.

    Attributes
    ----------
    policy
        ``normal``, or ``clipped``: the normal clipped to the range of the actions, with the probability mass beyond
        a bound assigned to the bound (Weber et al. 2022, appendix B). Discrete actions are sampled from a softmax of
        logits, or with ``boltzmann`` from a softmax with a learned inverse temperature (appendix A).
    relation
        Several agents: an agent's value estimates the return of its own reward (``individual``) or of the mean reward
        of the environment (``cooperative``; Weber et al. 2022, eqs. 8 and 9).
    dynamics
        Several agents: importance weights of each agent's own action (``local``), or of the joint action (``full``;
        eqs. 13 and 12 there).
    policies
        Several agents: one network for all of them (``shared``), or one for each (``own``).
    advantage
        Closed form of A(s, a), learned in addition to V: ``none``, ``quadratic`` or ``gaussian`` (appendix E).
    state_dependent_std
        Whether the standard deviation of a Gaussian policy depends on the state; in the paper all states share it.
    trunks
        ``shared``: V and the policy are outputs of one network (the paper); ``separate``: one network each.
    gamma_first, gamma_steps
        Initial discount factor, and the number of environment steps in which it reaches ``gamma``: the horizon
        1 / (1 - gamma) grows by a constant factor per step. ``None`` (the paper) uses ``gamma`` from the beginning.
    retrace_lambda
        Lambda of the value targets, in [0, 1]: values below 1 (1 in the paper) give more weight to V and less to
        rewards far in the future (Retrace(lambda), ``rl_agent/replay/targets.py``).
    sequence_length
        Network ``lstm``: successive steps in the loss for each sampled step, which is the last of them; a batch has up
        to ``batch_size`` times this number of steps. An LSTM that carries its state runs once along each sequence.
    initial_state
        An LSTM that carries its state: its state before each window in training, ``zero`` or ``stored``, the state
        with which the agent acted.
    """

    title: ClassVar[str] = "V-RACER"
    title_replay: ClassVar[Replay] = "refer"
    colour: ClassVar[str] = "#1f77b4"
    serves_multi_agent: ClassVar[bool] = True
    always_weighs: ClassVar[bool] = True

    algorithm: Literal["vracer"] = "vracer"
    policy: Literal["normal", "clipped", "boltzmann"] = "normal"
    relation: Literal["individual", "cooperative"] = "individual"
    dynamics: Literal["local", "full"] = "local"
    policies: Literal["shared", "own"] = "shared"
    advantage: Literal["none", "quadratic", "gaussian"] = "none"
    state_dependent_std: bool = False
    trunks: Literal["shared", "separate"] = "shared"
    gamma_first: Share | None = None
    gamma_steps: Count | None = None
    retrace_lambda: Share = 1.0
    sequence_length: int = Field(default=1, ge=1, le=1000)
    initial_state: Literal["zero", "stored"] = "zero"

    def rules(self, run: RunLength) -> Iterator[tuple[str, Any]]:
        """Add acting with the carried state, if it is stored."""
        yield from super().rules(run)
        if self.stores_states:
            yield "acting", "carried"

    def _incompatibilities(self) -> Iterator[str]:
        if self.is_clipped and self.squash != "none":
            yield f"policy = clipped is already bounded: squash must be none, not {self.squash}"
        if self.is_clipped and self.advantage != "none":
            yield (
                f"advantage = {self.advantage} assumes a normal distribution without bounds, so policy must be "
                "normal, not clipped"
            )
        if (self.gamma_first is None) != (self.gamma_steps is None):
            yield (
                f"gamma_first = {self.gamma_first} with gamma_steps = {self.gamma_steps}: the first is where gamma "
                "begins and the second how long it takes to grow, so set both or neither"
            )
        elif self.gamma_first is not None and not self.gamma_first <= self.gamma < 1.0:
            yield (
                f"gamma_first = {self.gamma_first} must not be above gamma = {self.gamma}, which must be below 1 then: "
                "the horizon grows from the one to the other"
            )
        if self.learns_sequences:
            yield from self._incompatible_with_sequences()
        yield from super()._incompatibilities()

    def _incompatible_with_sequences(self) -> Iterator[str]:
        what = f"sequence_length = {self.sequence_length}"
        if self.stores_states:
            what = "initial_state = stored"
            if self.acting != "carried" or self.trunks != "shared":
                yield f"{what} is for one LSTM that carries its state: use acting = carried and trunks = shared"
        if self.network != "lstm":
            yield f"{what} is a setting of network = lstm, which network = {self.network} does not read"
        if self.sampler != "uniform":
            yield f"{what} takes successive steps, which sampler = {self.sampler} cannot weigh; use uniform"
        if self.device != "cpu":
            yield (
                f"{what} gives batches of different sizes, which device = {self.device} cannot capture; use "
                "device = cpu"
            )

    def incompatibilities_with_actions(self, choices: int) -> Iterator[str]:
        """Yield a message for each setting that is incompatible with the task's actions."""
        if choices and self.advantage != "none":
            yield f"advantage = {self.advantage} is for continuous actions; with discrete ones use none"
        if choices and self.is_clipped:
            yield "policy = clipped is for continuous actions; with discrete ones use boltzmann or normal"
        if not choices and self.policy == "boltzmann":
            yield "policy = boltzmann is for discrete actions; with continuous ones use normal or clipped"

    @property
    def is_clipped(self) -> bool:
        """Whether the normal distribution of a continuous policy is clipped to the range of the actions."""
        return self.policy == "clipped"

    @property
    def is_cooperative(self) -> bool:
        """Whether an agent's value estimates the return of the mean reward of its environment."""
        return self.relation == "cooperative"

    @property
    def has_full_dynamics(self) -> bool:
        """Whether importance weights are those of the joint action of all agents in an environment."""
        return self.dynamics == "full"

    @property
    def stores_states(self) -> bool:
        """Whether the memory stores the recurrent state before each step."""
        return self.initial_state == "stored"

    @property
    def learns_sequences(self) -> bool:
        """Whether batches consist of sequences of successive steps (``rl_agent.replay.batch.gather_sequences``)."""
        return self.sequence_length > 1 or self.stores_states

    @property
    def trace_decay(self) -> float:
        """Lambda of Retrace(lambda) in the value targets of the memory."""
        return self.retrace_lambda

    def discount(self, step: int) -> float:
        """Return the discount factor after ``step`` environment steps."""
        if self.gamma_first is None or self.gamma_steps is None or step >= self.gamma_steps:
            return self.gamma
        share = step / self.gamma_steps
        return float(1.0 - (1.0 - self.gamma_first) ** (1.0 - share) * (1.0 - self.gamma) ** share)
