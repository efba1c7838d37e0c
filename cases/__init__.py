"""Flow-control tasks as Gymnasium environments; importing this package registers them, where there is Gymnasium."""

try:
    import gymnasium
except ModuleNotFoundError:
    # presets and options are of use without it: the solver alone reads them
    pass
else:
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
    gymnasium.register(
        id="flowsim/SwimmerSchool-v0",
        entry_point="cases.swimmer_school.env:SwimmerSchoolEnv",
        vector_entry_point="cases.swimmer_school.env:SwimmerSchoolVectorEnv",
    )
    gymnasium.register(
        id="flowsim/FluidicPinball-v0",
        entry_point="cases.fluidic_pinball.env:FluidicPinballEnv",
        vector_entry_point="cases.fluidic_pinball.env:FluidicPinballVectorEnv",
    )
    gymnasium.register(
        id="flowsim/RotatingCylinder-v0",
        entry_point="cases.rotating_cylinder.env:RotatingCylinderEnv",
        vector_entry_point="cases.rotating_cylinder.env:RotatingCylinderVectorEnv",
    )
    gymnasium.register(
        id="flowsim/CylinderJets-v0",
        entry_point="cases.cylinder_jets.env:CylinderJetsEnv",
        vector_entry_point="cases.cylinder_jets.env:CylinderJetsVectorEnv",
    )
    gymnasium.register(
        id="flowsim/SquareJets-v0",
        entry_point="cases.square_jets.env:SquareJetsEnv",
        vector_entry_point="cases.square_jets.env:SquareJetsVectorEnv",
    )
    gymnasium.register(
        id="flowsim/LinearQuadratic-v0",
        entry_point="cases.small.env:LinearQuadratic",
        max_episode_steps=20,
    )
    gymnasium.register(
        id="flowsim/Atari-v0", entry_point="cases.atari.env:make_atari", max_episode_steps=27_000
    )
    gymnasium.register(
        id="flowsim/MinAtar-v0", entry_point="cases.atari.env:MinAtar", max_episode_steps=5000
    )
    gymnasium.register(
        id="flowsim/Glide-v0", entry_point="cases.small.env:Glide", max_episode_steps=500
    )
    gymnasium.register(
        id="flowsim/Recall-v0", entry_point="cases.small.env:Recall", max_episode_steps=4
    )
    gymnasium.register(
        id="flowsim/HiddenPendulum-v0",
        entry_point="cases.small.env:HiddenPendulum",
        max_episode_steps=200,
    )
    gymnasium.register(
        id="flowsim/Reach-v0", entry_point="cases.small.env:Reach", max_episode_steps=50
    )
    gymnasium.register(
        id="flowsim/SparsePendulum-v0",
        entry_point="cases.replay.env:SparsePendulum",
        max_episode_steps=200,
    )
    gymnasium.register(
        id="flowsim/Chain-v0", entry_point="cases.small.env:Chain", max_episode_steps=50
    )
