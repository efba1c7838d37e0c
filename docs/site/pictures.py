"""Pictures that can be read on a phone: one that would become too small is scrolled instead of shrunk."""

from __future__ import annotations

import html
import io
import posixpath
import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page
from PIL import Image

IMAGE = re.compile(r'<img alt="([^"]*)" src="([^":]+)"\s*/?>')
SMALLEST = 0.32
"""Share of its own width to which a plot is shrunk at most: its letters of 10 points then have 9 pixels."""


def on_page_content(page_html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Give the pictures of a page their size, and a box of their own that scrolls."""

    def place(match: re.Match[str]) -> str:
        alt, source = match[1], html.unescape(match[2])
        uri = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), source))
        file = files.get_file_from_path(uri)
        if file is None or not uri.endswith((".png", ".gif", ".webp")):
            return match[0]
        width, height = Image.open(io.BytesIO(file.content_bytes)).size
        is_plot = uri.endswith(".png")
        least = f' style="min-width: {SMALLEST * width:.0f}px"' if is_plot else ""
        kind = "plot" if is_plot else "film"
        return (
            f'<span class="picture"><img class="{kind}" alt="{alt}" src="{match[2]}" '
            f'width="{width}" height="{height}"{least}></span>'
        )

    return IMAGE.sub(place, page_html)
