"""Flow-control tasks as Gymnasium environments; importing this package registers them if Gymnasium is installed."""

FLOW_TASKS = {
    "DCylinderWake": "d_cylinder_wake",
    "EllipticalSwimmer": "elliptical_swimmer",
    "SwimmerSchool": "swimmer_school",
    "FluidicPinball": "fluidic_pinball",
    "RotatingCylinder": "rotating_cylinder",
    "CylinderJets": "cylinder_jets",
    "SquareJets": "square_jets",
    "PitchingFoil": "pitching_foil",
    "BackwardStep": "backward_step",
    "OpenCavity": "open_cavity",
    "RayleighBenard": "rayleigh_benard",
}
"""Folder of each flow task ``flowsim/NAME-v0``."""

try:
    import gymnasium
except ModuleNotFoundError:
    # the solver reads presets and options without Gymnasium
    pass
else:
    for name, folder in FLOW_TASKS.items():
        gymnasium.register(
            id=f"flowsim/{name}-v0",
            entry_point=f"cases.{folder}.env:{name}Env",
            vector_entry_point=f"cases.{folder}.env:{name}VectorEnv",
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
        id="flowsim/LongRecall-v0",
        entry_point="cases.small.env:Recall",
        max_episode_steps=21,
        kwargs={"wait": 20},
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
