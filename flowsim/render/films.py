"""Film files: MP4 for players and browsers, WebP and GIF for web pages, numbered PNG files for other programs."""

from __future__ import annotations

import errno
import itertools
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from flowsim.render.fields import Picture, palette
from flowsim.render.quantities import VORTICITY, Quantity

_SMALL_FRAMES = 200
_SMALL_SIZES = (
    *((600, 1), (540, 1), (480, 1), (420, 1), (360, 1), (480, 2), (420, 2), (360, 2)),
    *((360, 3), (320, 4), (240, 4), (240, 8), (240, 12)),
)  # fmt: skip
"""Width and frame stride of the attempts, in order, until a GIF or WebP is small enough."""
_GIF_LEVELS = 49  # levels per quantity in the palette of 256; with 25 files are a third smaller but show bands
_WEBP_QUALITY = 55
_SAMPLES = 8  # frames of a film from which its palette is computed
FPS = 25.0
"""Frames per second: 40 ms each, so that a GIF, whose delays are in units of 10 ms, can use every nth frame."""


def write_films(
    frames: Iterable[Picture],
    *,
    mp4: Path | None = None,
    gif: Path | None = None,
    webp: Path | None = None,
    png: Path | None = None,
    fps: float = FPS,
    quantities: Sequence[Quantity] = (VORTICITY,),
) -> None:
    """Write the frames to all files in one pass; GIF and WebP have the same duration with fewer frames.

    Parameters
    ----------
    frames
        uint8, shape (height, width, 3), both sides even.
    mp4, gif, webp
        Paths of the films, written atomically.
    png
        Path of a picture of the last frame; or of all frames, if the name contains a number format (``wake-%04d.png``).
    fps
        Frames per second of the MP4.
    quantities
        Quantities that the frames show, for the palette of the GIF; empty for external pictures.

    Raises
    ------
    ValueError
        If there are no frames, or the film does not fit into a GIF or WebP.
    OSError
        If a file, which the error names, cannot be written; if its folder is not writable, before the first frame.
    """
    for file in filter(None, (mp4, gif, webp, png)):
        _refuse_unwritable(file)
    stride = 1
    kept: list[Picture] = []
    small = gif is not None or webp is not None
    series = png if png is not None and is_series(png) else None
    frame: Picture | None = None

    def passing() -> Iterator[Picture]:
        nonlocal frame, stride
        number, before = 0, None
        for number, frame in enumerate(frames, 1):
            if small and (number - 1) % stride == 0:  # a repeated frame is reduced only once
                kept.append(
                    kept[-1] if frame is before else reduce_picture(frame, _SMALL_SIZES[0][0])
                )
                before = frame
                if len(kept) > _SMALL_FRAMES:  # the number of frames is not known in advance
                    del kept[1::2]
                    stride *= 2
            if series is not None:
                write_png(_numbered(series, number), frame)
            yield frame
        if series is not None:
            _remove_from(series, number + 1)

    if mp4 is not None:
        write_mp4(mp4, passing(), fps)
    else:
        for _ in passing():
            pass
    if gif is not None:
        write_gif(gif, kept, fps / stride, quantities=quantities)
    if webp is not None:
        write_webp(webp, kept, fps / stride)
    if png is not None and frame is None:
        raise ValueError(f"the picture {png} cannot be written: the film has no frames")
    if png is not None and series is None and frame is not None:
        write_png(png, frame)


def is_series(path: Path) -> bool:
    """Return whether a name contains one number format, such as ``%04d``, and no other per cent sign."""
    return re.fullmatch(r"[^%]*%0?\d*d[^%]*", path.name) is not None


def _numbered(series: Path, number: int) -> Path:
    return series.with_name(series.name % number)


def _remove_from(series: Path, number: int) -> None:
    """Remove the remaining files of an older and longer series of this name."""
    while (path := _numbered(series, number)).exists():
        path.unlink()
        number += 1


def write_png(path: Path, frame: Picture) -> None:
    """Write a picture atomically."""
    with _replacing(path) as temporary:
        # level 3 takes a third of the time of level 6; files are a tenth larger
        Image.fromarray(frame).save(temporary, compress_level=3)


def _refuse_unwritable(path: Path) -> None:
    """Create the folder of a file and check that it is writable.

    Raises
    ------
    OSError
        With the name of the file, not of a temporary one.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or errno.EIO), str(path)) from error


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary name in the folder of `path` and rename it on success, so that no partial film is left."""
    _refuse_unwritable(path)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


_BT709 = [
    *("-vf", "scale=out_color_matrix=bt709:out_range=tv", "-color_range", "tv"),
    *("-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709"),
]
"""Colour encoding; players guess it from the size of a film that does not specify it."""


def write_mp4(path: Path, frames: Iterable[Picture], fps: float = FPS) -> None:
    """Write an H.264 film for browsers; frames are uint8, shape (height, width, 3), both sides even.

    Raises
    ------
    ValueError
        If there are no frames.
    OSError
        If the film cannot be written completely: a full disk gives ``ENOSPC``, ``EDQUOT`` or ``EFBIG``.
    """
    iterator = iter(frames)
    first = next(iterator, None)
    if first is None:
        raise ValueError(f"the film {path} has no frames, but must have at least one")
    with _replacing(Path(path)) as temporary:
        code, said = _encode(temporary, itertools.chain([first], iterator), first.shape[:2], fps)
        if code:
            raise _encoder_failure(code, said, Path(path))


def _encode(
    path: Path, frames: Iterable[Picture], shape: tuple[int, ...], fps: float
) -> tuple[int, str]:
    """Send frames to ffmpeg; return its exit code and error output.

    imageio_ffmpeg provides the program. Its own writer does not report failures of ffmpeg, so a film that was truncated
    by a full disk would look complete.
    """
    import imageio_ffmpeg

    height, width = shape
    raw = ("-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{fps:g}")
    coding = ("-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "20", "-preset", "ultrafast")
    command = [
        *(imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-y", *raw, "-i", "-", "-an", *coding),
        *("-movflags", "+faststart", *_BT709, str(path)),
    ]
    # Ctrl-C in the terminal must reach this process only: ffmpeg ends with its input
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        process_group=0,
    ) as encoder:
        assert encoder.stdin is not None
        for frame in frames:
            try:
                encoder.stdin.write(np.ascontiguousarray(frame).data)
            except BrokenPipeError:  # ffmpeg has failed; its error output says why
                break
        _, said = encoder.communicate()
    return encoder.returncode, said.decode(errors="replace")


def _encoder_failure(code: int, said: str, path: Path) -> OSError:
    """Return the error for the output of ffmpeg: a full-disk error, otherwise one with its last line."""
    for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        if os.strerror(number) in said or (number, code) == (errno.EFBIG, -signal.SIGXFSZ):
            return OSError(number, os.strerror(number), str(path))
    last = said.strip().rpartition("\n")[2] or f"exit code {code}"
    return OSError(errno.EIO, f"ffmpeg cannot write it ({last})", str(path))


def reduce_picture(picture: Picture, width: int) -> Picture:
    """Return a picture reduced to at most `width` pixels."""
    if picture.shape[1] <= width:
        return picture
    height = round(picture.shape[0] * width / picture.shape[1])
    return np.asarray(Image.fromarray(picture).resize((width, height), Image.Resampling.HAMMING))


def write_gif(
    path: Path,
    frames: Sequence[Picture],
    fps: float = 10.0,
    max_bytes: int = 1_500_000,
    quantities: Sequence[Quantity] = (VORTICITY,),
) -> None:
    """Write a looping GIF of at most `max_bytes`, with size and number of frames reduced until it fits.

    Its palette is that of the quantities or, without any, of the frames themselves.

    Raises
    ------
    ValueError
        If there are no frames, or if not even a twelfth of them at half the usual width fits.
    """
    # one palette for all frames, to avoid flicker
    if quantities or not frames:
        colours = Image.new("P", (1, 1))
        colours.putpalette(palette(_GIF_LEVELS, tuple(quantities)).tobytes())
    else:
        some = np.concatenate(frames[:: max(1, len(frames) // _SAMPLES)])
        colours = Image.fromarray(some).quantize(256, dither=Image.Dither.NONE)

    def pictures(reduced: Sequence[Picture]) -> list[Image.Image]:
        return [
            Image.fromarray(frame).quantize(palette=colours, dither=Image.Dither.NONE)
            for frame in reduced
        ]

    _write_small(Path(path), frames, fps, max_bytes, pictures, optimize=True)


def write_webp(
    path: Path, frames: Sequence[Picture], fps: float = 10.0, max_bytes: int = 1_500_000
) -> None:
    """Write a looping WebP of at most `max_bytes`, with at least twice the frames of a GIF of this size.

    Raises
    ------
    ValueError
        As for :func:`write_gif`.
    """

    def pictures(reduced: Sequence[Picture]) -> list[Image.Image]:
        return [Image.fromarray(frame) for frame in reduced]

    _write_small(Path(path), frames, fps, max_bytes, pictures, quality=_WEBP_QUALITY, method=4)


def _write_small(
    path: Path,
    frames: Sequence[Picture],
    fps: float,
    max_bytes: int,
    pictures: Callable[[Sequence[Picture]], list[Image.Image]],
    **options: Any,
) -> None:
    """Write a GIF or WebP, with size and then number of frames reduced until it fits."""
    if not frames:
        raise ValueError(f"the film {path} has no frames, but must have at least one")
    # the file size grows as width^1.5, because edges take more bytes than areas; so most sizes can be skipped
    per_amount = 0.0
    with _replacing(path) as temporary:
        for width, stride in _SMALL_SIZES:
            amount = width**1.5 / stride
            if amount * per_amount > 1.1 * max_bytes and (width, stride) != _SMALL_SIZES[-1]:
                continue
            first, *others = pictures([reduce_picture(frame, width) for frame in frames[::stride]])
            duration = round(1000 * stride / fps)
            first.save(
                temporary, save_all=True, append_images=others, duration=duration, loop=0, **options
            )
            if temporary.stat().st_size <= max_bytes:
                return
            per_amount = temporary.stat().st_size / amount
        raise ValueError(
            f"the film {path} of {len(frames)} frames does not fit into {max_bytes} bytes: ask for a shorter film"
        )
