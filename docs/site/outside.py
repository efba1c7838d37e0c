"""Pages for files outside docs/, so that links to them, which a reader of the plain files follows, lead somewhere.

A link that leaves docs/ (to a source file, a result, the licence) leads to a page of the site that shows the file; one
to a folder to a page that lists it. ``file.py#Name.method`` leads to the line where that name is defined.
"""

from __future__ import annotations

import ast
import logging
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
DOCS = "docs/"
SHOWN = "source/"
"""Folder of the site in which files from outside docs/ are shown."""
LONGEST = 200_000
"""Characters of a file that is shown; a longer one is only named."""
LANGUAGES = {
    ".py": "python",
    ".yaml": "yaml",
    ".json": "json",
    ".toml": "toml",
    ".c": "c",
    ".h": "c",
    ".f90": "fortran",
}

FENCED = re.compile(
    r"^(?P<fence> *(?:```+|~~~+)).*?^(?P=fence)[`~]*[ \t]*$", re.MULTILINE | re.DOTALL
)
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?\)")

log = logging.getLogger(f"mkdocs.hooks.{__name__}")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for every file outside docs/ that a page links to."""
    waiting = [DOCS + file.src_uri for file in files.documentation_pages() if file.abs_src_path]
    done = set(waiting)
    while waiting:
        page = waiting.pop()
        for _, target, _ in _links(page, (ROOT / page).read_text(encoding="utf-8")):
            if target in done or target.startswith(DOCS):
                continue
            if target.startswith("..") or not (ROOT / target).exists():
                log.warning("%s links to %s, which is not there", page, target)
                continue
            done.add(target)
            files.append(File.generated(config, _page_of(target), content=_shown(target)))
            if target.endswith(".md"):
                waiting.append(target)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links that leave docs/ to the pages that show the files."""
    here = page.file.src_uri
    source = here.removeprefix(SHOWN).removesuffix(".md") if here.startswith(SHOWN) else DOCS + here
    if here.startswith(SHOWN) and not source.endswith(".md"):
        return markdown
    parts, end = [], 0
    for match, target, name in _links(source, markdown):
        page_uri = target.removeprefix(DOCS) if target.startswith(DOCS) else _page_of(target)
        page_uri = page_uri.replace(".ipynb", ".md")
        anchor = (
            f"__codelineno-0-{_line(source, target, name)}"
            if name and target.endswith(".py")
            else name
        )
        link = posixpath.relpath(page_uri, posixpath.dirname(here)) + (anchor and f"#{anchor}")
        parts += [markdown[end : match.start()], f"]({link})"]
        end = match.end()
    return "".join([*parts, markdown[end:]])


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> None:
    """Tell MkDocs of the anchors that the lines of code have, which it does not look for."""
    if page.present_anchor_ids is not None:
        page.present_anchor_ids |= set(re.findall(r'<a id="(__codelineno-\d+-\d+)"', html))


def _links(source: str, markdown: str) -> Iterator[tuple[re.Match[str], str, str]]:
    """Find the links of a page, with what they lead to, from the root of the repository, and the name behind the #."""
    fences = [match.span() for match in FENCED.finditer(markdown)]
    for match in LINK.finditer(markdown):
        if not any(begin <= match.start() < end for begin, end in fences):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[1]))
            yield match, target, (match[2] or "").removeprefix("#")


def _page_of(target: str) -> str:
    return f"{SHOWN}{target}.md"


def _shown(target: str) -> str:
    """Write the page that shows a file or lists a folder."""
    path = ROOT / target
    if path.is_dir():
        children = [
            child for child in sorted(path.iterdir()) if not child.name.startswith((".", "__"))
        ]
        names = [f"- `{child.name}{'/' * child.is_dir()}`\n" for child in children]
        return f"# {target}/\n\nA folder of the repository:\n\n{''.join(names)}"
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    if len(text) > LONGEST:
        return f"# {target}\n\nA file of the repository, {len(text):,} characters long: too long to be shown here.\n"
    head = "---\nhide: [toc]\nsearch: {exclude: true}\n---\n\n"
    fence, language = "`" * 8, LANGUAGES.get(path.suffix, "text")
    return f'{head}# {target}\n\n{fence} {{.{language} linenums="1"}}\n{text}\n{fence}\n'


def _line(source: str, target: str, name: str) -> int:
    """Find the line in which a dotted name is defined in a file of Python."""
    body: list[ast.stmt] = ast.parse((ROOT / target).read_text(encoding="utf-8")).body
    line = 1
    for part in name.split("."):
        found = [node for node in body if part in _defined(node)]
        if not found:
            log.warning("%s links to %s, where %s is not defined", source, target, name)
            return 1
        line, body = found[0].lineno, getattr(found[0], "body", [])
    return line


def _defined(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    targets = (
        node.targets
        if isinstance(node, ast.Assign)
        else [node.target]
        if isinstance(node, ast.AnnAssign)
        else []
    )
    return {target.id for target in targets if isinstance(target, ast.Name)}
