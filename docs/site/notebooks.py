"""The notebooks of docs/notebooks as pages, with the outputs that they were committed with."""

from __future__ import annotations

from pathlib import Path

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from nbconvert import MarkdownExporter


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page, and its pictures, for every notebook."""
    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        assert file.abs_src_path is not None
        folder, stem = Path(file.src_uri).parent, Path(file.src_uri).stem
        notebook = nbformat.read(file.abs_src_path, as_version=4)
        exporter = MarkdownExporter()
        resources = {"unique_key": stem, "output_files_dir": f"{stem}_files"}
        text, outputs = exporter.from_notebook_node(notebook, resources)
        files.append(File.generated(config, f"{folder}/{stem}.md", content=text))
        for name, data in outputs["outputs"].items():
            files.append(File.generated(config, f"{folder}/{name}", content=data))
    return files
