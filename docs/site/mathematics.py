"""Formulas as MathML, which browsers draw by themselves: no script, and nothing from elsewhere."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">\s*\\([(\[])(.*?)\\[)\]]\s*</\1>', re.DOTALL)


def on_page_content(page_html: str, **_: Any) -> str:
    """Replace the formulas of a page that Markdown has found."""
    return FORMULA.sub(_as_mathml, page_html)


def _as_mathml(match: re.Match[str]) -> str:
    display = "inline" if match[2] == "(" else "block"
    return convert(html.unescape(match[3]).strip(), display=display)
