"""Forces per unit mass that drive the flows of a batch, and springs of its bodies."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flowsim.backend.host.arrays import Arrays
from flowsim.kernels.forcing import TARGET_X

Array = Any
FloatArray = NDArray[np.float64]


class Driving(Arrays):
    """Current forces and springs; both can be changed."""

    @property
    def body_force(self) -> FloatArray:
        """Uniform force per unit mass (B, 2), in units of U^2/D; writable where no mean velocity is held."""
        return self._needs_forcing()[:, :TARGET_X]

    @property
    def target_mean_velocity(self) -> FloatArray:
        """Mean velocity (B, 2) that the force holds, in units of U, NaN where none is held; writable."""
        return self._needs_forcing()[:, TARGET_X : TARGET_X + 2]

    def _needs_forcing(self) -> FloatArray:
        if not self.is_forced:
            raise ValueError(
                "nothing drives this flow: make the simulation with body_force=(0, 0) to write its force later"
            )
        return self._forcing_columns

    def force_on_faces(self, b: int) -> tuple[FloatArray, FloatArray]:
        """Return the force per unit mass of simulation b on the faces of u and of v, as in the last step."""
        forcing, shape = self._device_state.forcing, self.grid.padded_shape
        uniform = self._forcing_columns[b, :TARGET_X] if forcing is not None else np.zeros(2)
        along_x, along_y = np.full(shape, uniform[0]), np.full(shape, uniform[1])
        if forcing is not None and forcing.along_x is not None and forcing.along_y is not None:
            along_x += self.to_host(forcing.along_x[b])
            along_y += self.to_host(forcing.along_y[b])
        return along_x, along_y

    def given_forcing(self) -> dict[str, Any]:
        """Return the force and the mean velocity that each simulation was made with, and whether it has a field."""
        force, held = np.split(self._first_forcing[:, : TARGET_X + 2], [TARGET_X], axis=1)
        return {
            "body_force": force.tolist(),
            # NaN would differ from itself
            "mean_velocity": [[None if np.isnan(u) else u for u in both] for both in held.tolist()],
            "force_field": self._force_field is not None,
        }

    @property
    def spring_stiffness(self) -> FloatArray:
        """Stiffness (B, K, 3) of the springs of bodies along x, y and angle, in rho U^2 and rho U^2 D^2; writable."""
        return self._needs_springs()[..., :3]

    @property
    def spring_damping(self) -> FloatArray:
        """Damping coefficients (B, K, 3) of the springs of bodies, in rho U D and rho U D^3; writable."""
        return self._needs_springs()[..., 3:6]

    @property
    def spring_rest(self) -> FloatArray:
        """Rest position (B, K, 3) of the springs of bodies in the box, in D and radians; writable."""
        return self._needs_springs()[..., 6:]

    def _needs_springs(self) -> FloatArray:
        if not self.is_mounted:
            raise ValueError(
                "no body of this simulation has springs: give a free one springs={...} to write them later"
            )
        return self._springs
