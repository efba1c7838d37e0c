"""The mechanics of one deforming body, shared by all backends: a strip bent along its midline.

The body is a plate of half-width w(s), s being the arc length from the head, bent by the angle theta(s, t) of its
midline. The surface keeps its distance w(s) from the midline, and the inside moves such that areas are conserved:

    x = r + d n,    u = r_t + d n_t - kappa_t (w^2 - d^2) / (2 (1 - kappa d)) n,    |d| <= w,

with r_s = (cos theta, sin theta), n its normal and kappa = theta_s; the last term, zero on the surface, makes the field
divergence-free. Its net linear and angular momentum are subtracted (Gazzola et al. 2011): the frame of the body is that
of its centre of mass, and the shape is rotated in it, by the angle ``TWIST``, such that its angular momentum is zero.
"""

from __future__ import annotations

import math
from typing import Any

from flowsim.kernels.device_function import device_function
from flowsim.kernels.distances import MIDLINE
from flowsim.kernels.layout import AXIS_A, AXIS_B, SHAPE, SIDE, START

Array = Any

# columns of ``nodes`` (K, M, 6): what a body is, at M points of its midline
ARC, HALF_WIDTH, WEIGHT, AMPLITUDE, SLOPE, STEERING = range(6)
"""Arc length, half-width, weight in integrals over s, amplitude of the wave and its slope, curvature of a turn."""
NODE_COLUMNS = 6

# columns of ``waves`` (K, 7)
WAVELENGTH, LATERAL, LENGTH, RAMP, MARGIN, SPACING, GAP = range(7)
"""Wavelength, 1 if the amplitude is that of a displacement, length of the body, periods in which the wave grows, margin
and spacing of the table of distances from the straight body, and largest distance between every fourth point."""
WAVE_COLUMNS = 7

# columns of ``gait`` (B, K, 10): how a body moves
PHASE, AGE, TWIST, SPIN_OF_SHAPE, SINCE, OVER, TURN_BEFORE, TURN, RATE_BEFORE, RATE = range(10)
"""Phase and its growth since the start, in periods; angle of the shape in the frame of the body, and spin of the shape
before its rotation; time of the last command and duration of the transition to it; turn and phases per time, before the
command and commanded."""
GAIT_COLUMNS = 10

# columns of ``form`` (B, K, 6): what the shape amounts to
INERTIA, INERTIA_BEFORE, ENERGY, ENERGY_BEFORE, POWER, WORK = range(6)
"""Moment of inertia and energy of the deformation, and both a step before; power that the deformation gave to the fluid
in the last step, and its integral over time."""
FORM_COLUMNS = 6

# columns of ``midlines`` (B, K, M, 9), in the frame of the body
X, Y, U, V, COS, SIN, SPIN, BEND, BEND_RATE = range(9)
"""Position, velocity, direction towards the tail, its spin, curvature, and the rate of the curvature."""
MIDLINE_COLUMNS = 9

STRIDE = 4
"""Stride over the points of the midline in the first search for the nearest one."""
STEEPEST = 0.95
"""Bound on the slope of a lateral displacement over the arc length."""


@device_function
def blend(x: float) -> tuple[float, float]:
    """Return a smooth step from 0 to 1 over [0, 1], and its slope."""
    x = min(max(x, 0.0), 1.0)
    return x * x * (3.0 - 2.0 * x), 6.0 * x * (1.0 - x)


@device_function
def command_at(gait: Array, time: float) -> tuple[float, float, float]:
    """Return the turn, its rate, and the phases per time."""
    over = max(gait[OVER], 1e-12)
    done, slope = blend((time - gait[SINCE]) / over)
    turn = gait[TURN_BEFORE] + done * (gait[TURN] - gait[TURN_BEFORE])
    turn_rate = slope / over * (gait[TURN] - gait[TURN_BEFORE])
    return turn, turn_rate, gait[RATE_BEFORE] + done * (gait[RATE] - gait[RATE_BEFORE])


@device_function
def _write_angles(nodes: Array, waves: Array, gait: Array, time: float, line: Array) -> None:
    """Write the angle of the midline and its rate to the columns X and SPIN."""
    turn, turn_rate, rate = command_at(gait, time)
    grown, growth = blend(gait[AGE] / waves[RAMP])
    growth *= rate / waves[RAMP]
    number, pulse = 2.0 * math.pi / waves[WAVELENGTH], 2.0 * math.pi * rate
    lateral = waves[LATERAL] > 0.0
    angle, spin = math.pi, 0.0
    last, last_rate = 0.0, 0.0
    for i in range(len(nodes)):
        phase = 2.0 * math.pi * gait[PHASE] - number * nodes[i, ARC]
        cos, sin = math.cos(phase), math.sin(phase)
        a, c = nodes[i, AMPLITUDE], nodes[i, STEERING]
        bend, bend_rate = -turn * c, -turn_rate * c
        if not lateral:
            bend += grown * a * sin
            bend_rate += growth * a * sin + grown * a * pulse * cos
        if i > 0:
            half = 0.5 * (nodes[i, ARC] - nodes[i - 1, ARC])
            angle, spin = angle + half * (last + bend), spin + half * (last_rate + bend_rate)
        last, last_rate = bend, bend_rate
        line[i, X], line[i, SPIN] = angle, spin
        if lateral:
            slope = nodes[i, SLOPE] * sin - a * number * cos
            slope_rate = (nodes[i, SLOPE] * cos + a * number * sin) * pulse
            q, q_rate = grown * slope, grown * slope_rate + growth * slope
            q = min(max(q, -STEEPEST), STEEPEST)
            line[i, X] -= math.asin(q)
            line[i, SPIN] -= q_rate / math.sqrt(1.0 - q * q)


@device_function
def _write_curve(nodes: Array, line: Array) -> None:
    """Write curvatures, directions, positions and velocities, from the angles; the head rests at the origin."""
    points = len(nodes)
    for i in range(points):
        low, high = max(i - 1, 0), min(i + 1, points - 1)
        length = nodes[high, ARC] - nodes[low, ARC]
        line[i, BEND] = (line[high, X] - line[low, X]) / length
        line[i, BEND_RATE] = (line[high, SPIN] - line[low, SPIN]) / length
    x, y, u, v, angle, spin = 0.0, 0.0, 0.0, 0.0, line[0, X], line[0, SPIN]
    for i in range(points):
        next_angle, next_spin = line[i, X], line[i, SPIN]
        if i > 0:
            ds, middle = nodes[i, ARC] - nodes[i - 1, ARC], 0.5 * (angle + next_angle)
            cos, sin, turning = (
                ds * math.cos(middle),
                ds * math.sin(middle),
                0.5 * (spin + next_spin),
            )
            x, y, u, v = x + cos, y + sin, u - sin * turning, v + cos * turning
        angle, spin = next_angle, next_spin
        line[i, X], line[i, Y], line[i, U], line[i, V] = x, y, u, v
        line[i, COS], line[i, SIN] = math.cos(angle), math.sin(angle)


@device_function
def _centre(nodes: Array, line: Array) -> tuple[float, float, float, float]:
    """Return the centre of mass and its velocity: the integrals of x and u over the strip, over its area."""
    area, cx, cy, cu, cv = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(len(nodes)):
        w, cos, sin = nodes[i, HALF_WIDTH], line[i, COS], line[i, SIN]
        zeroth = 2.0 * w * nodes[i, WEIGHT]
        second = w * w / 3.0 * zeroth
        bend, rate, spin = line[i, BEND], line[i, BEND_RATE], line[i, SPIN]
        area += zeroth
        cx += zeroth * line[i, X] + second * bend * sin
        cy += zeroth * line[i, Y] - second * bend * cos
        cu += zeroth * line[i, U] + second * (rate * sin + bend * spin * cos)
        cv += zeroth * line[i, V] - second * (rate * cos - bend * spin * sin)
    return cx / area, cy / area, cu / area, cv / area


@device_function
def _momenta(nodes: Array, line: Array) -> tuple[float, float, float]:
    """Return moment of inertia, angular momentum and energy about the origin."""
    inertia, momentum, energy = 0.0, 0.0, 0.0
    for i in range(len(nodes)):
        x, y, u, v = line[i, X], line[i, Y], line[i, U], line[i, V]
        cos, sin, spin = line[i, COS], line[i, SIN], line[i, SPIN]
        w = nodes[i, HALF_WIDTH]
        zeroth = 2.0 * w * nodes[i, WEIGHT]
        second = w * w / 3.0 * zeroth
        bend, rate = line[i, BEND], line[i, BEND_RATE]
        inertia += zeroth * (x * x + y * y) + second * (1.0 - 2.0 * bend * (y * cos - x * sin))
        # r x n_t + n x r_t, and r x n
        mixed = -spin * (x * sin - y * cos) - (sin * v + cos * u)
        across = x * cos + y * sin
        momentum += zeroth * (x * v - y * u) + second * (spin - bend * mixed - rate * across)
        turning, rising = -spin * (u * cos + v * sin), v * cos - u * sin
        energy += 0.5 * zeroth * (u * u + v * v) + second * (
            0.5 * spin * spin - bend * turning - rate * rising
        )
    return inertia, momentum, energy


@device_function
def bend(
    nodes: Array, waves: Array, gait: Array, form: Array, line: Array, before: float, dt: float
) -> None:
    """Advance a body's gait from time ``before`` to the end of a step, and bend its midline accordingly.

    With dt = 0 the shape is that of this time, and the gait does not advance.
    """
    _, _, rate = command_at(gait, before + 0.5 * dt)
    gait[PHASE] += rate * dt
    gait[AGE] += rate * dt
    _write_angles(nodes, waves, gait, before + dt, line)
    _write_curve(nodes, line)
    cx, cy, cu, cv = _centre(nodes, line)
    for i in range(len(nodes)):
        line[i, X] -= cx
        line[i, Y] -= cy
        line[i, U] -= cu
        line[i, V] -= cv
    inertia, momentum, _ = _momenta(nodes, line)
    spin = momentum / inertia
    gait[TWIST] -= 0.5 * dt * (gait[SPIN_OF_SHAPE] + spin)
    gait[SPIN_OF_SHAPE] = spin
    cos, sin = math.cos(gait[TWIST]), math.sin(gait[TWIST])
    for i in range(len(nodes)):
        x, y = line[i, X], line[i, Y]
        u, v = line[i, U] + spin * y, line[i, V] - spin * x
        tx, ty = line[i, COS], line[i, SIN]
        line[i, X], line[i, Y] = cos * x - sin * y, sin * x + cos * y
        line[i, U], line[i, V] = cos * u - sin * v, sin * u + cos * v
        line[i, COS], line[i, SIN] = cos * tx - sin * ty, sin * tx + cos * ty
        line[i, SPIN] -= spin
    _, _, energy = _momenta(nodes, line)
    if dt == 0.0:
        form[INERTIA], form[ENERGY] = inertia, energy
    form[INERTIA_BEFORE], form[ENERGY_BEFORE] = form[INERTIA], form[ENERGY]
    form[INERTIA], form[ENERGY] = inertia, energy


@device_function
def _on_piece(line: Array, i: int, x: float, y: float) -> tuple[float, float]:
    """Return the position of (x, y) along a piece of a midline, in lengths of the piece, and its lateral offset."""
    ex, ey = line[i + 1, X] - line[i, X], line[i + 1, Y] - line[i, Y]
    rx, ry = x - line[i, X], y - line[i, Y]
    square = ex * ex + ey * ey
    return (rx * ex + ry * ey) / square, (ex * ry - ey * rx) / math.sqrt(square)


@device_function
def nearest(line: Array, x: float, y: float, far: float) -> tuple[int, float, float]:
    """Return the piece of a midline that is nearest to (x, y), the position on it from 0 to 1, and the lateral offset.

    Before the head and behind the tail the position is below 0 or above 1 in the first or last piece: the midline is
    continued straight. A piece of -1 means that every fourth point is further away than ``far``, and the distance is to
    these points. If the body is bent back on itself, the nearest of these points decides which part is used.
    """
    points = len(line)
    closest, shortest = 0, math.inf
    for i in range(0, points, STRIDE):
        square = (x - line[i, X]) ** 2 + (y - line[i, Y]) ** 2
        if square < shortest:
            closest, shortest = i, square
    if shortest > far * far:
        return -1, 0.0, math.sqrt(shortest)
    for i in range(max(closest - STRIDE + 1, 0), min(closest + STRIDE, points)):
        square = (x - line[i, X]) ** 2 + (y - line[i, Y]) ** 2
        if square < shortest:
            closest, shortest = i, square
    piece = min(closest, points - 2)
    place, lateral = _on_piece(line, piece, x, y)
    if place < 0.0 and piece > 0:
        piece -= 1
        place, lateral = _on_piece(line, piece, x, y)
    return piece, place, lateral


@device_function
def strip_distance(table: Array, start: int, side: int, waves: Array, s: float, d: float) -> float:
    """Return the distance from the straight body, whose upper half is tabulated, at arc length s and offset d."""
    margin, spacing = waves[MARGIN], waves[SPACING]
    columns = int((waves[LENGTH] + 2.0 * margin) / spacing + 1.5)
    a, b = (s + margin) / spacing, abs(d) / spacing
    a0, b0 = min(max(a, 0.0), columns - 1.0), min(b, side - 1.0)
    i, j = min(int(a0), columns - 2), min(int(b0), side - 2)
    p, q = a0 - i, b0 - j
    k = start + i * side + j
    low = (1.0 - p) * table[k] + p * table[k + side]
    high = (1.0 - p) * table[k + 1] + p * table[k + side + 1]
    return (1.0 - q) * low + q * high + spacing * math.sqrt((a - a0) ** 2 + (b - b0) ** 2)


# many arguments: rows of the table of bodies, which the caller reads once for many points
@device_function
def midline_distance(
    nodes: Array,
    waves: Array,
    line: Array,
    half: float,
    table: Array,
    start: int,
    side: int,
    x: float,
    y: float,
) -> float:
    """Return the signed distance of a point of the body's frame from the bent body; exact to first order near it.

    ``half`` is the largest half-width. Only few values are passed, because this is called for every face of a window.
    """
    beyond = half + 0.5 * waves[GAP]
    i, place, lateral = nearest(line, x, y, beyond + waves[MARGIN])
    if i < 0:
        return lateral - beyond
    s = nodes[i, ARC] + place * (nodes[i + 1, ARC] - nodes[i, ARC])
    return strip_distance(table, start, side, waves, s, lateral)


@device_function
def deformation_velocity(
    nodes: Array, line: Array, rx: float, ry: float, cos: float, sin: float
) -> tuple[float, float]:
    """Return the deformation velocity at a point in or near the body, both along the axes of the box."""
    i, place, d = nearest(line, cos * rx + sin * ry, cos * ry - sin * rx, math.inf)
    b = min(max(place, 0.0), 1.0)
    a = 1.0 - b
    w = a * nodes[i, HALF_WIDTH] + b * nodes[i + 1, HALF_WIDTH]
    tx, ty = a * line[i, COS] + b * line[i + 1, COS], a * line[i, SIN] + b * line[i + 1, SIN]
    spin, curvature = (
        a * line[i, SPIN] + b * line[i + 1, SPIN],
        a * line[i, BEND] + b * line[i + 1, BEND],
    )
    rate = a * line[i, BEND_RATE] + b * line[i + 1, BEND_RATE]
    inner = -0.5 * rate * max(w * w - d * d, 0.0) / max(1.0 - curvature * d, 0.5)
    u = a * line[i, U] + b * line[i + 1, U] - d * spin * tx - inner * ty
    v = a * line[i, V] + b * line[i + 1, V] - d * spin * ty + inner * tx
    return cos * u - sin * v, sin * u + cos * v


@device_function
def note_deformation(
    form: Array, torque: float, work: float, spins: tuple[float, float], inertia: float, dt: float
) -> float:
    """Store the power of the deformation in a step, and return the torque including the changing moment of inertia.

    The power that the fluid gets is that of the penalty, ``work`` over dt, minus what the inside of the body keeps: the
    rate of its energy, and -spin^2/2 times that of its moment of inertia.

    Parameters
    ----------
    torque : float
        Torque as if the moment of inertia of the fluid inside were always ``inertia``.
    spins : (float, float)
        Spin of the body before and after the step.
    """
    old, new = spins
    growth = form[INERTIA] - form[INERTIA_BEFORE]
    form[POWER] = (work - (form[ENERGY] - form[ENERGY_BEFORE]) + 0.5 * new * new * growth) / dt
    form[WORK] += form[POWER] * dt
    return torque + ((form[INERTIA] - inertia) * new - (form[INERTIA_BEFORE] - inertia) * old) / dt


@device_function
def midline_extent(
    nodes: Array, line: Array, cos: float, sin: float
) -> tuple[float, float, float, float]:
    """Return the bounding box x0, x1, y0, y1 of the body, along the axes of the box, relative to its centre of mass."""
    x0, x1, y0, y1 = math.inf, -math.inf, math.inf, -math.inf
    for i in range(len(nodes)):
        x, y = cos * line[i, X] - sin * line[i, Y], sin * line[i, X] + cos * line[i, Y]
        w = nodes[i, HALF_WIDTH]
        x0, x1, y0, y1 = min(x0, x - w), max(x1, x + w), min(y0, y - w), max(y1, y + w)
    return x0, x1, y0, y1


# If no body bends and the backend knows it, the table of bodies has None for everything that only bending bodies need:
# numba prunes branches on an argument that is None, and the rest of these functions is not compiled.


@device_function
def bends(midlines: Any, bodies: Any, k: int) -> bool:
    """Return whether body k has a midline."""
    if midlines is None:
        return False
    return bodies.kinds[k, SHAPE] == MIDLINE


@device_function
def bent_distance(midlines: Any, bodies: Any, n: int, k: int, x: float, y: float) -> float:
    """Return the signed distance of a point of the body's frame from body k of simulation n."""
    if midlines is None:
        return 0.0
    half, start, side = bodies.traits[k, AXIS_B], bodies.kinds[k, START], bodies.kinds[k, SIDE]
    nodes, waves, line = bodies.nodes[k], bodies.waves[k], midlines[n, k]
    return midline_distance(nodes, waves, line, half, bodies.distances, start, side, x, y)


@device_function
def note_box(nodes: Array, line: Array, box: Array) -> None:
    """Store :func:`midline_extent` in the frame of the body."""
    box[0], box[1], box[2], box[3] = midline_extent(nodes, line, 1.0, 0.0)


@device_function
def out_of_reach(
    midlines: Any, bodies: Any, n: int, k: int, rx: float, ry: float, angle: float, margin: float
) -> bool:
    """Return whether a point, relative to body k, is certainly further away than a margin; False for rigid bodies."""
    if midlines is None:
        return False
    if bodies.kinds[k, SHAPE] != MIDLINE:
        return False
    reach = bodies.traits[k, AXIS_A] + margin
    if rx * rx + ry * ry > reach * reach:
        return True
    cos, sin = math.cos(angle), math.sin(angle)
    x, y, box = cos * rx + sin * ry, cos * ry - sin * rx, bodies.boxes[n, k]
    if x < box[0] - margin or x > box[1] + margin:
        return True
    return y < box[2] - margin or y > box[3] + margin


@device_function
def bent_extent(
    midlines: Any, bodies: Any, n: int, k: int, cos: float, sin: float
) -> tuple[float, float, float, float]:
    """Return :func:`midline_extent` of body k of simulation n."""
    if midlines is None:
        return 0.0, 0.0, 0.0, 0.0
    return midline_extent(bodies.nodes[k], midlines[n, k], cos, sin)
