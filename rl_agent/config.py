"""The settings of a learner, typed and validated at start.

The defaults are the values of the paper (Novati & Koumoutsakos 2019, "Remember and Forget for Experience
Replay", appendices A and B) unless a field says otherwise; presets override them and name what differs.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["AgentConfig"]

PositiveInt = Annotated[int, Field(ge=1)]


class AgentConfig(BaseModel):
    """Settings of one learner.

    Attributes
    ----------
    algorithm
        The learning rule; see ``rl_agent/algorithms``.
    network
        ``mlp`` (softsign layers) or ``lstm`` (recurrent layers, trained on windows).
    hidden
        Units per hidden layer; ``None`` takes the paper's 128, 128 (mlp) or 32, 32 (lstm).
    window
        Steps of history before the drawn step that an lstm is unrolled over (appendix D runs: 16).
    gamma
        Discount factor, in [0, 1].
    learning_rate
        Step size of Adam at t = 0 (eta of eq. 13); also the pace of beta (eq. 12).
    batch
        Steps drawn for a gradient (B).
    memory
        Steps that the replay memory holds at most (N); whole episodes leave first in, first out.
    start
        Steps in the memory at which learning starts (N_start); scaling of states is frozen there.
    steps_per_update
        Environment steps per gradient step (F), held exactly; 0.5 means two gradient steps per step.
    replay
        ``refer`` (rules 1 and 2), ``refer-1`` (only clips far-policy gradients), ``refer-2`` (only the KL
        penalty, importance weights clipped at 1000) or ``uniform`` (plain experience replay).
    c
        C of eq. 13: far-policy starts at an importance weight of c_max = 1 + C / (1 + A t).
    a
        A of eq. 13: pace of the annealing of c_max and of the learning rate, per environment step.
    d
        D of eq. 12: the tolerated fraction of far-policy steps in the memory.
    beta
        Weight of the loss against the KL penalty at t = 0 (eq. 10; 0.3 in Weber et al. 2022).
    sigma
        Standard deviation of the policy at t = 0, in half ranges of the action (paper: variance 0.2).
    sigma_min
        Floor of the standard deviation, added to the softplus (the paper has none). On a short run the policy
        gradient can shrink sigma before the mean has found its way, and exploration with it.
    center_advantages
        Subtract from Q_ret - V its near-policy mean over the batch, weighted by rho. A constant has no expected policy
        gradient, but while V lags behind returns that rise, the mean pulls the policy to every stored action.
    acting
        What an lstm knows while acting: ``carried``, its state since the episode began, or ``window``, the same last
        steps that it is trained on, so that importance weights of late steps are exact.
    squash
        ``none``: actions are centre + a (high - low) / 2, and the environment clips; ``tanh``: tanh(a) takes
        the place of a.
    device
        Where gradients are computed: ``cpu``, or ``cuda`` (torch, captured as a CUDA graph). The memory and the
        acting networks stay on the CPU.
    threads
        Threads of the linear algebra in the process of the learner.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    algorithm: Literal["vracer"] = "vracer"
    network: Literal["mlp", "lstm"] = "mlp"
    hidden: tuple[PositiveInt, ...] | None = Field(default=None, min_length=1)
    window: int = Field(default=16, ge=0, le=1000)
    gamma: float = Field(default=0.995, ge=0.0, le=1.0)
    learning_rate: float = Field(default=1e-4, gt=0.0, lt=1.0)
    batch: int = Field(default=256, ge=1)
    memory: int = Field(default=2**18, ge=2)
    start: int = Field(default=2**17, ge=1)
    steps_per_update: float = Field(default=1.0, ge=1e-3, le=1e6)
    replay: Literal["refer", "refer-1", "refer-2", "uniform"] = "refer"
    c: float = Field(default=4.0, gt=0.0)
    a: float = Field(default=5e-7, ge=0.0)
    d: float = Field(default=0.1, ge=0.0, le=1.0)
    beta: float = Field(default=0.3, ge=0.0, le=1.0)
    sigma: float = Field(default=math.sqrt(0.2), gt=0.0, le=100.0)
    sigma_min: float = Field(default=0.0, ge=0.0, le=100.0)
    center_advantages: bool = False
    acting: Literal["carried", "window"] = "carried"
    squash: Literal["none", "tanh"] = "none"
    device: Literal["cpu", "cuda"] = "cpu"
    threads: int = Field(default=1, ge=1, le=256)

    @model_validator(mode="after")
    def _start_fits_into_memory(self) -> AgentConfig:
        if self.start > self.memory:
            raise ValueError(
                f"start = {self.start} must not be above memory = {self.memory}: learning would never start"
            )
        return self

    @model_validator(mode="after")
    def _sigma_is_above_its_floor(self) -> AgentConfig:
        if self.sigma <= self.sigma_min:
            raise ValueError(f"sigma = {self.sigma} must be above its floor, sigma_min = {self.sigma_min}")
        return self

    @property
    def hidden_sizes(self) -> tuple[int, ...]:
        """Units per hidden layer, the network's default where ``hidden`` is not given."""
        if self.hidden is not None:
            return self.hidden
        return (128, 128) if self.network == "mlp" else (32, 32)
