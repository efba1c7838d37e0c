"""Cache of compiled functions as object code in a folder, from which other processes load them."""

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
    """A function to compile with the calling convention of C: its module, its name, and the types it is compiled for.

    The object of that name has a method ``entry(types)``, which returns a function that numba can compile, and its
    signature.
    """

    module: str
    name: str
    types: tuple[Any, ...] = ()

    @property
    def file(self) -> Path:
        """Path of its object code in the cache."""
        digest = hashlib.sha256(repr(self).encode() + _source(self.module)).hexdigest()[:16]
        return CACHE_FOLDER / f"{self.name}-{digest}.object"

    def is_kept(self) -> bool:
        """Return whether its object code is in the cache, undamaged."""
        return _read(self.file) is not None


@functools.cache
def _source(module: str) -> bytes:
    """Return the source of a module, which need not be among those that the name of the folder depends on."""
    return Path(str(importlib.import_module(module).__file__)).read_bytes()


def keep(need: Need) -> bytes:
    """Compile a function and store it in the cache, if possible; return its symbol and its object code."""
    import numba

    function, signature = getattr(importlib.import_module(need.module), need.name).entry(need.types)
    compiled: Any = numba.cfunc(signature, **OPTIONS)(function)
    symbol, code = compiled._wrapper_name.encode(), compiled._library._get_compiled_object()
    content = symbol + b"\0" + code
    with suppress(OSError):  # if the disk is full, only this process has the function
        _write(need.file, zlib.crc32(content).to_bytes(4, "little") + content)
    return content


@functools.cache
def address(need: Need) -> int:
    """Return the address of a function in this process; it is compiled if it is not in the cache."""
    symbol, _, code = (_read(need.file) or keep(need)).partition(b"\0")
    engine = _engine(code)
    _engines.append(engine)
    return int(engine.get_function_address(symbol.decode()))


_engines: list[Any] = []
"""Engines own the memory of the functions, so they are kept."""


def _engine(code: bytes) -> Any:
    """Return an engine with only this code: in one engine for all, functions would be linked to each other's parts."""
    from numba.core.registry import cpu_target
    from numba.core.runtime import rtsys

    # the code calls some of numba's own functions, which are not yet known to LLVM in a process that compiles nothing
    rtsys.initialize(cpu_target.target_context)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


def _read(file: Path) -> bytes | None:
    """Return the content of a file of the cache, or None if it is missing or damaged."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    whole = zlib.crc32(content[4:]).to_bytes(4, "little") == content[:4]
    return content[4:] if whole else None


def _write(file: Path, content: bytes) -> None:
    """Write a file atomically, so that no other process sees a part of it."""
    with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as part:
        part.write(content)
    os.replace(part.name, file)
