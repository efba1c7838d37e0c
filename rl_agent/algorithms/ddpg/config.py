"""Settings of DDPG."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from rl_agent.config.agent import Count, PositiveStd, Share
from rl_agent.config.kinds import ActorCritic, tanh_inside
from rl_agent.config.registry import register


@register("rl_agent.algorithms.ddpg.loss:DDPG")
class DDPGConfig(ActorCritic):
    """DDPG.

    Attributes
    ----------
    noise
        Exploration noise: ``gaussian``, or ``ou`` (Ornstein-Uhlenbeck, theta 0.15), the default without ReF-ER.
    """

    title: ClassVar[str] = "DDPG"
    colour: ClassVar[str] = "#74c476"
    policy_share: ClassVar[float] = 0.1
    fitted_policy_share: ClassVar[float | None] = 0.3
    is_stochastic: ClassVar[bool] = False

    algorithm: Literal["ddpg"] = "ddpg"
    batch_size: Count = 128
    critic_l2: Share = 1e-4
    sigma: PositiveStd = 0.2
    noise: Literal["gaussian", "ou"] = "gaussian"

    @classmethod
    def _usual(cls, named: dict[str, Any]) -> dict[str, Any]:
        # appendix A and section 5.1: without ReF-ER, DDPG needs correlated noise and no annealing
        plain = {"noise": "ou", "annealing": 0.0} if named.get("replay") == "none" else {}
        return super()._usual(named) | plain

    def _incompatibilities(self) -> Iterator[str]:
        yield from super()._incompatibilities()
        if self.noise == "ou" and self.replay != "none":
            yield (
                f"noise = ou is correlated in time, so the importance weights of replay = {self.replay} would be "
                "wrong; use noise = gaussian, or replay = none"
            )
        yield from tanh_inside(self)

    @property
    def has_correlated_noise(self) -> bool:
        """Whether exploration is an Ornstein-Uhlenbeck process around the mean action."""
        return self.noise == "ou"
