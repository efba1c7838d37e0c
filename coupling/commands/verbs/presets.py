"""flowsim presets: list what can be trained by name."""

import json

from coupling.commands import next_steps
from coupling.commands.console import print_next, reporting_errors
from coupling.commands.options import Json
from coupling.commands.outcome import print_presets

__all__ = ["presets"]

SHORT_HELP = "List the presets that can be trained by name."
EXAMPLE = "flowsim presets --json"


@reporting_errors
def presets(as_json: Json = False) -> None:
    """List the presets that can be trained by name."""
    from coupling.settings.presets import describe_presets

    if as_json:
        print(json.dumps(describe_presets()))
        return
    print_presets()
    print_next(next_steps.after_presets())
