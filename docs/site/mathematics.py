"""Formulas as pictures of curves, which look the same everywhere: no script, no font, nothing from elsewhere.

Matplotlib's own typesetter draws them. It knows the better part of LaTeX's mathematics, and what it does not know ends
the build with its sentence.
"""

from __future__ import annotations

import functools
import html
import re
from typing import Any

from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.textpath import TextPath

FORMULA = re.compile(r'<(span|div) class="arithmatex">\s*\\([(\[])(.*?)\\[)\]]\s*</\1>', re.DOTALL)
FONT = FontProperties(math_fontfamily="cm")
SIZE = 1000.0
"""Units of a picture in the size of a letter of a formula."""
SCALE = 1.15
"""Size of a letter of a formula over that of the text."""
LETTERS = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C"}


def on_page_content(page_html: str, **_: Any) -> str:
    """Replace the formulas of a page that Markdown has found."""
    return FORMULA.sub(_draw, page_html)


def _draw(match: re.Match[str]) -> str:
    latex, is_inline = " ".join(html.unescape(match[3]).split()), match[2] == "("
    if is_inline:
        return _picture(latex, latex)
    large = latex.replace(r"\frac", r"\dfrac")
    return f'<div class="formula">{_picture(latex, large)}</div>'


@functools.cache
def _picture(name: str, latex: str) -> str:
    path = TextPath((0.0, 0.0), f"${latex}$", size=SIZE, prop=FONT)
    points = (path.vertices * (1.0, -1.0)).round().astype(int)  # in the web y runs down
    ends = path.codes == Path.CLOSEPOLY
    (x0, y0), (x1, y1) = points[~ends].min(axis=0), points[~ends].max(axis=0)
    curves, last = [], Path.STOP
    for (x, y), code in zip(points.tolist(), path.codes.tolist(), strict=True):
        curves.append(
            "Z" if code == Path.CLOSEPOLY else f"{LETTERS[code] if code != last else ' '}{x} {y}"
        )
        last = code
    place, em = f"{x0} {y0} {x1 - x0} {y1 - y0}", SIZE / SCALE
    style = f"width:{(x1 - x0) / em:.3f}em;height:{(y1 - y0) / em:.3f}em;vertical-align:{-y1 / em:.3f}em"
    return (
        f'<svg class="formula" role="img" aria-label="{html.escape(name)}" viewBox="{place}" style="{style}">'
        f'<path d="{"".join(curves)}"/></svg>'
    )
