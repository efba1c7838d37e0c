"""Flow-control tasks as Gymnasium environments; importing this package registers them."""

import gymnasium

gymnasium.register(
    id="flowsim/DCylinderWake-v0",
    entry_point="cases.d_cylinder_wake.env:DCylinderWakeEnv",
    vector_entry_point="cases.d_cylinder_wake.env:DCylinderWakeVectorEnv",
)
gymnasium.register(
    id="flowsim/EllipticalSwimmer-v0",
    entry_point="cases.elliptical_swimmer.env:EllipticalSwimmerEnv",
    vector_entry_point="cases.elliptical_swimmer.env:EllipticalSwimmerVectorEnv",
)
