"""Who starts workers: :mod:`~coupling.launch.local` supervises processes of this machine."""
