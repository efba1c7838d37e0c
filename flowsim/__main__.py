"""``python -m flowsim``: the same as the command ``flowsim``.

The command line lies above the solver, which imports nothing from there. So this file only names it, as the entry
point in ``pyproject.toml`` does.
"""

import importlib

COMMAND_LINE = "coupling.commands.start"

if __name__ == "__main__":
    importlib.import_module(COMMAND_LINE).main()
