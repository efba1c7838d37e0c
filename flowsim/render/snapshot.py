"""Serialisation of a scene and its caption, to be drawn in another process: tens of kilobytes, without pickle."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import asdict
from typing import Any

import numpy as np

from flowsim.render.fields import Caption, Outline, Scene
from flowsim.render.quantities import Quantity
from flowsim.render.units import Units

_LOOK = ("name", "unit", "limit", "signed", "colours")


def pack_glimpse(scene: Scene, caption: Caption) -> bytes:
    """Return a scene and its caption as the bytes of an .npz file; values are rounded to float16.

    Parameters
    ----------
    scene
        All but the view is stored; of the quantity, only its appearance.
    caption
    """
    limit = np.finfo(np.float16).max
    arrays: dict[str, Any] = {
        "values": np.clip(np.nan_to_num(scene.values), -limit, limit).astype(np.float16)
    }
    arrays |= {f"outline{n}": shape.points for n, shape in enumerate(scene.outlines)}
    arrays |= {
        "sensors": scene.sensors,
        "force": np.array(scene.force if scene.force is not None else ()),
    }
    words = {
        "size": list(scene.size),
        "agents": [shape.agent for shape in scene.outlines],
        "alive_box": scene.alive_box,
        "target": scene.target,
        "units": scene.units,
        "quantity": {name: getattr(scene.quantity, name) for name in _LOOK},
        "caption": asdict(caption),
    }
    file = io.BytesIO()
    np.savez(file, words=np.array(json.dumps(words, default=float)), **arrays)
    return file.getvalue()


def unpack_glimpse(content: bytes) -> tuple[Scene, Caption]:
    """Return the scene and caption packed by :func:`pack_glimpse`.

    Raises
    ------
    ValueError
        When the bytes are not a packed scene.
    """
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            words = json.loads(str(arrays["words"]))
            outlines = [
                Outline(arrays[f"outline{n}"], agent) for n, agent in enumerate(words["agents"])
            ]
            force = arrays["force"]
            scene = Scene(
                values=arrays["values"].astype(np.float32),
                size=tuple(words["size"]),
                outlines=outlines,
                sensors=arrays["sensors"],
                force=(force[0], force[1]) if len(force) else None,
                alive_box=words["alive_box"] and tuple(words["alive_box"]),
                target=words["target"] and tuple(words["target"]),
                units=Units(*words["units"]),
                quantity=Quantity(**words["quantity"]),
            )
        tuples = {name: tuple(words["caption"][name]) for name in ("action", "action_names")}
        caption = Caption(**words["caption"] | tuples)
    except (KeyError, TypeError, ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"these bytes are not a snapshot of a flow: {error!r}") from error
    return scene, caption
