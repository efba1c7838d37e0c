"""Film files: MP4 for players and browsers, GIF for pages."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image

from flowsim.viz import Picture, palette

_GIF_FRAMES = 160
_GIF_SIZES = ((600, 1), (600, 2), (600, 3), (540, 3), (480, 3), (400, 4), (360, 6), (320, 8), (240, 8), (240, 12))
"""Width, and which of the frames, until the file is small enough."""
_GIF_LEVELS = 49  # vorticities among its 256 colours; 201 in the place of 65 made it 1.7 times as large


def write_films(
    frames: Iterable[Picture],
    *,
    mp4: Path | None = None,
    gif: Path | None = None,
    png: Path | None = None,
    fps: float = 20.0,
    expected: int | None = None,
) -> None:
    """Write the frames to an MP4, a GIF or both in one pass; the GIF takes the same time with fewer of them.

    Parameters
    ----------
    frames
        uint8, shape (height, width, 3), both sides even.
    mp4, gif
        The films; each appears only when it is whole.
    png
        A picture, the last of the frames.
    fps
        Frames per second of the MP4.
    expected
        How many frames there will be, which a GIF needs to know.

    Raises
    ------
    ValueError
        If there are no frames, or too many for a GIF.
    """
    stride = max(1, math.ceil((expected or 1) / _GIF_FRAMES))
    kept: list[Picture] = []
    frame: Picture | None = None

    def passing() -> Iterator[Picture]:
        nonlocal frame
        for n, frame in enumerate(frames):
            if gif is not None and n % stride == 0:
                kept.append(reduce_picture(frame, _GIF_SIZES[0][0]))
            yield frame

    if mp4 is not None:
        write_mp4(mp4, passing(), fps)
    else:
        for _ in passing():
            pass
    if gif is not None:
        write_gif(gif, kept, fps / stride)
    if png is not None:
        if frame is None:
            raise ValueError(f"the picture {png} is of a film without frames, but must be of one with a frame")
        with _replacing(png) as beside:
            Image.fromarray(frame).save(beside)


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Give a name beside `path` to write to, and rename it when all went well: no half film is left."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield beside
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


_BT709 = [
    *("-vf", "scale=out_color_matrix=bt709:out_range=tv", "-color_range", "tv"),
    *("-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709"),
]
"""How colours are coded; players guess it from the size of a film that does not say so."""


def write_mp4(path: Path, frames: Iterable[Picture], fps: float = 20.0) -> None:
    """Write an H.264 film that browsers play; frames are uint8, shape (height, width, 3), both sides even.

    Raises
    ------
    ValueError
        If there are no frames.
    """
    import imageio_ffmpeg

    iterator = iter(frames)
    first = next(iterator, None)
    if first is None:
        raise ValueError(f"the film {path} has no frames, but must have at least one")
    height, width = first.shape[:2]
    with _replacing(Path(path)) as beside:
        writer = imageio_ffmpeg.write_frames(
            str(beside), (width, height), fps=fps, codec="libx264", macro_block_size=2, quality=None,
            output_params=["-crf", "18", "-preset", "fast", "-movflags", "+faststart", *_BT709],
        )  # fmt: skip
        writer.send(None)
        try:
            writer.send(np.ascontiguousarray(first))
            for frame in iterator:
                writer.send(np.ascontiguousarray(frame))
        finally:
            writer.close()


def reduce_picture(picture: Picture, width: int) -> Picture:
    """Return a picture that is at most `width` pixels wide."""
    if picture.shape[1] <= width:
        return picture
    height = round(picture.shape[0] * width / picture.shape[1])
    return np.asarray(Image.fromarray(picture).resize((width, height), Image.Resampling.HAMMING))


def write_gif(path: Path, frames: Sequence[Picture], fps: float = 10.0, max_bytes: int = 1_500_000) -> None:
    """Write a looping GIF of at most `max_bytes`: smaller and with fewer frames until it fits.

    Raises
    ------
    ValueError
        If there are no frames, or if not even a twelfth of them at half the usual width fits.
    """
    if not frames:
        raise ValueError(f"the film {path} has no frames, but must have at least one")
    with _replacing(Path(path)) as beside:
        for width, stride in _GIF_SIZES:
            _write_gif(beside, [reduce_picture(frame, width) for frame in frames[::stride]], fps / stride)
            if beside.stat().st_size <= max_bytes:
                return
        raise ValueError(
            f"the film {path} of {len(frames)} frames does not fit into {max_bytes} bytes: ask for a shorter film"
        )


def _write_gif(path: Path, frames: Sequence[Picture], fps: float) -> None:
    colours = Image.new("P", (1, 1))  # the same for all frames, against flicker
    colours.putpalette(palette(_GIF_LEVELS).tobytes())
    images = [Image.fromarray(frame).quantize(palette=colours, dither=Image.Dither.NONE) for frame in frames]
    images[0].save(path, save_all=True, append_images=images[1:], duration=round(1000 / fps), loop=0, optimize=True)
