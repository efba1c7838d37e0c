"""Snapshots of simulations, from which they continue bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from flowsim.backend.host.arrays import Arrays
from flowsim.kernels.far_field import DEPARTED

Array = Any
FloatArray = NDArray[np.float64]


class Snapshots(Arrays):
    """Reads and writes everything that the future of a simulation depends on."""

    def _state_arrays(self) -> dict[str, NDArray[Any]]:
        flow = self._device_state
        arrays = {
            "u": self.u,
            "v": self.v,
            "rate_u": flow.fields.rate_u,
            "rate_v": flow.fields.rate_v,
            "pressure": self.pressure,
            "time": self.time,
            "dt": self.dt,
            "lag": self._lag,
            "steps": self.steps,
            "diverged": self.diverged,
            "speed": self._speed,
            "viscosity": self.viscosity,
            "sides": flow.box.given,
        }
        if (room := flow.far_room) is not None:
            arrays |= {"departed": room.vortices[..., -DEPARTED:], "excess": room.excess}
        if flow.has_bending_bodies:
            midlines = flow.bodies.table.midlines
            arrays |= {"gait": self.gait, "form": self.form, "midlines": midlines}
        if self.jets:
            arrays["jets"] = self._jet_states
        if flow.forcing is not None:
            arrays["forcing"] = self._forcing_columns
            if flow.forcing.along_x is not None:
                arrays |= {"force_x": flow.forcing.along_x, "force_y": flow.forcing.along_y}
        if self.is_mounted:
            arrays["springs"] = self._springs
        if flow.heat is not None:
            arrays |= {
                "temperature": flow.heat.temperature,
                "rate_temperature": flow.heat.rate,
                "diffusivity": self._diffusivity,
                "heat": self._heat_columns,
                "side_heat": self._side_heat,
            }
        return arrays | {f"body_{name}": array for name, array in vars(self.body_state).items()}

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled; a shallow copy would share its fields with the original."""
        raise TypeError(
            "a Simulation cannot be copied or pickled: build a second one and transfer the states with get_state and "
            "set_state, or write them with flowsim.io.write_restart"
        )

    def get_state(self, b: int = 0) -> dict[str, NDArray[Any]]:
        """Return a copy of everything that the future of simulation b depends on."""
        return {
            name: np.array(self.to_host(array[b])) for name, array in self._state_arrays().items()
        }

    def set_state(self, b: int, state: dict[str, NDArray[Any]]) -> None:
        """Set simulation b to a state from :meth:`get_state`; it continues as the original would, bit for bit.

        Raises
        ------
        ValueError
            If the state belongs to another grid, precision or set of bodies.
        """
        own, state = self._state_arrays(), self._with_lag(state)
        self._check_states({name: np.asarray(values)[None] for name, values in state.items()})
        for name, array in own.items():
            array[b] = (
                state[name] if isinstance(array, np.ndarray) else self._device.array(state[name])
            )
        self._predict_sides(b)

    def store_states(self, states: dict[str, NDArray[Any]]) -> dict[str, Array]:
        """Store states as arrays of the backend, for :meth:`restore_states`.

        On the CPU no field is copied; a GPU holds every field of every state, some 5 numbers per cell.

        Parameters
        ----------
        states : dict of arrays
            States from :meth:`get_state`, stacked along a leading axis.

        Raises
        ------
        ValueError
            If the states belong to another grid, precision or set of bodies.
        MemoryError
            If the device has too little memory.
        """
        states = self._with_lag(states)
        self._check_states(states)
        own, count = self._state_arrays(), len(states["u"])
        near = {name for name, array in own.items() if not isinstance(array, np.ndarray)}
        needed = sum(states[name].nbytes for name in near)
        self._device.reserve(count, self.grid, self.dtype.name, needed)
        return {
            name: self._device.array(values) if name in near else values
            for name, values in states.items()
        }

    def restore_states(
        self, which: Sequence[int], stored: dict[str, Array], numbers: Sequence[int]
    ) -> None:
        """Set several simulations to stored states; each continues as after :meth:`set_state`.

        Parameters
        ----------
        which : sequence of int
            The simulations.
        stored : dict of arrays
            From :meth:`store_states` of this simulation.
        numbers : sequence of int
            Index of the stored state for each simulation.
        """
        host = np.array(which, np.int64), np.array(numbers, np.int64)
        near = tuple(map(self._device.array, host))
        for name, array in self._state_arrays().items():
            to, by = host if isinstance(array, np.ndarray) else near
            array[to] = stored[name][by]
        self._predict_sides(near[0])

    def _predict_sides(self, where: Any) -> None:
        """Copy the velocity to the predicted one: no sweep predicts that on a side, but it counts for bodies there."""
        fields = self._device_state.fields
        fields.new_u[where], fields.new_v[where] = fields.u[where], fields.v[where]

    def _with_lag(self, states: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return states with the lag, which older ones do not contain: after equal steps it is the step."""
        return {"lag": states["dt"]} | states if "dt" in states else states

    def _check_states(self, states: dict[str, NDArray[Any]]) -> None:
        """Raise an error for stacked states that belong to another grid, precision or set of bodies."""
        own = self._state_arrays()
        for names, fault in (
            (set(own) - set(states), "lacks fields of this simulation"),
            (set(states) - set(own), "has fields that this simulation lacks"),
        ):
            if names:
                raise ValueError(f"the state {fault}: {', '.join(sorted(names))}")
        for name, array in own.items():
            shape, dtype = states[name].shape[1:], states[name].dtype
            if shape != array.shape[1:] or dtype != array.dtype:
                raise ValueError(
                    f"the state's {name} is {shape} {dtype}, this simulation's is {array.shape[1:]} {array.dtype}"
                )
