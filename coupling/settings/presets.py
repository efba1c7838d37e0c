"""The shipped presets as a table: name, environment, purpose."""

import re

from coupling.settings.content import find_preset, read_yaml, shipped_presets

__all__ = ["describe_presets"]


def describe_presets() -> list[dict[str, str]]:
    """Return a row for each shipped preset: ``preset``, ``env`` and ``about``, the first sentence of its file."""
    return [
        {"preset": name, "env": read_yaml(find_preset(name))["env"], "about": _first_sentence(name)}
        for name in shipped_presets()
    ]


def _first_sentence(name: str) -> str:
    """Return the first sentence of the comment at the top of a preset, up to a ``;`` if it contains one."""
    text = []
    for line in find_preset(name).read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        text.append(line.removeprefix("#").strip())
    words = " ".join(text)
    for end in re.finditer(r"(?<!et al)[.;](?= |$)", words):
        sentence = words[: end.start()]
        if sentence.count("(") == sentence.count(")"):
            return sentence
    return words
