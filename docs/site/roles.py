"""Sphinx's roles in docstrings, ``:func:`name```, as links between the pages of the API where there is such a page."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

ROLE = re.compile(r":(?:func|meth|class|mod|attr|data):`~?([^`]+)`")


class Roles(Extension):
    """Turns a role into the name alone, as code."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite the docstring of an object."""
        if obj.docstring:
            obj.docstring.value = ROLE.sub(r"`\1`", obj.docstring.value)
