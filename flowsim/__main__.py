"""``python -m flowsim``: the same as the command ``flowsim``.

The solver imports nothing from the command line, which is built on top of it. So this file refers to the command line
by name only, as the entry point in ``pyproject.toml`` does.
"""

import importlib

COMMAND_LINE = "coupling.commands.start"

if __name__ == "__main__":
    importlib.import_module(COMMAND_LINE).main()
