"""What a film of a flow shall show, as its options say."""

from typing import TYPE_CHECKING

from coupling.errors import ConfigError

if TYPE_CHECKING:
    from flowsim.render.quantities import Quantity

__all__ = ["quantities"]


def quantities(names: str | None, ranges: str | None) -> "list[Quantity]":
    """Return what a film shall show."""
    from flowsim.render.quantities import choose

    try:
        return choose(names or "vorticity", ranges)
    except ValueError as error:
        raise ConfigError(f"--{error}") from error
