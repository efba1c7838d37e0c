"""Compiled functions as object code in a folder, from which other processes load them."""

from __future__ import annotations

import functools
import hashlib
import importlib
import os
import tempfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite.binding as llvm

from flowsim.backend.jit_cache import OPTIONS, cache_folder

CACHE_FOLDER = cache_folder()


class Need(NamedTuple):
    """A function that is called as C does, named ``name`` in ``module``, and the types it is compiled for.

    What has that name returns, by its method ``entry(types)``, a function that numba can compile, and its signature.
    """

    module: str
    name: str
    types: tuple[Any, ...] = ()

    @property
    def file(self) -> Path:
        """Where its object code is kept."""
        digest = hashlib.sha256(repr(self).encode() + _source(self.module)).hexdigest()[:16]
        return CACHE_FOLDER / f"{self.name}-{digest}.object"

    def is_kept(self) -> bool:
        """Return whether it is there, undamaged."""
        return _read(self.file) is not None


@functools.cache
def _source(module: str) -> bytes:
    """Return the text of a module, which need not be among those that the name of the folder changes with."""
    return Path(str(importlib.import_module(module).__file__)).read_bytes()


def keep(need: Need) -> bytes:
    """Compile a function and keep it, if the disk can; return its symbol and its object code."""
    import numba

    function, signature = getattr(importlib.import_module(need.module), need.name).entry(need.types)
    compiled: Any = numba.cfunc(signature, **OPTIONS)(function)
    symbol, code = compiled._wrapper_name.encode(), compiled._library._get_compiled_object()
    content = symbol + b"\0" + code
    with suppress(OSError):  # on a full disk the function serves this process
        _write(need.file, zlib.crc32(content).to_bytes(4, "little") + content)
    return content


@functools.cache
def address(need: Need) -> int:
    """Return where a function is in the memory of this process; it is compiled if it is not kept."""
    symbol, _, code = (_read(need.file) or keep(need)).partition(b"\0")
    engine = _engine(code)
    _engines.append(engine)
    return int(engine.get_function_address(symbol.decode()))


_engines: list[Any] = []
"""They own the functions."""


def _engine(code: bytes) -> Any:
    """Return an engine with nothing but this code: in one for all, functions would be bound to each other's parts."""
    from numba.core.registry import cpu_target
    from numba.core.runtime import rtsys

    # a process that compiles nothing has not told LLVM yet where numba's own functions are; the code calls some of them
    rtsys.initialize(cpu_target.target_context)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


def _read(file: Path) -> bytes | None:
    """Return what was kept, or None where that is not there or damaged."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    whole = zlib.crc32(content[4:]).to_bytes(4, "little") == content[:4]
    return content[4:] if whole else None


def _write(file: Path, content: bytes) -> None:
    """Write a file at once, so that no other process sees a part of it."""
    with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as part:
        part.write(content)
    os.replace(part.name, file)
