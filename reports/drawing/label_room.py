"""Finds places for small labels inside the axes of a panel: never over a marker or another label, over lines only if necessary,
and nearer to the point they belong to than to any other. A label without such a place is left out.

Distances are points, from the lower left corner of the figure.
"""

import dataclasses
import math

import matplotlib.patheffects
import numpy

from reports.drawing import plot_style
from reports.drawing.plot_style import DARK_GREY, LIGHT_GREY

HALO = [matplotlib.patheffects.withStroke(linewidth=1.6, foreground="white")]
DISTANCES = (4 * 2**0.5, 9, 13, 18, 23, 29, 36)  # between a text and the middle of the marker that it belongs to
LED = 10  # over larger distances a thin line leads from the text to the marker
AHEAD = 1.5  # a text without such a line is nearer to its own marker than to another by this factor
CLEAR = 1  # between a text and a marker of something else
APART = 2.5  # between two texts
STEPS = (0, 0.5, -0.5, 1, -1)
CORNERS = ((1, -1), (-1, 1), (1, 1), (-1, -1))
DIRECTIONS = (*CORNERS, *((a, b) for a in STEPS for b in STEPS if max(abs(a), abs(b)) == 1 and (a, b) not in CORNERS))


class Box:
    def __init__(self, x, y, width, height):
        self.x, self.y, self.width, self.height = x, y, width, height

    def to(self, x, y):
        """Distance to a place, 0 within."""
        return math.hypot(max(abs(x - self.x) - self.width / 2, 0), max(abs(y - self.y) - self.height / 2, 0))

    def nearest(self, x, y):
        """The place in it that is nearest to another."""
        across, up = self.width / 2, self.height / 2
        return self.x + min(max(x - self.x, -across), across), self.y + min(max(y - self.y, -up), up)

    def touches(self, other):
        return (
            abs(self.x - other.x) < (self.width + other.width) / 2 + APART
            and abs(self.y - other.y) < (self.height + other.height) / 2 + APART
        )


@dataclasses.dataclass
class Label:
    text: str
    box: Box
    leader: tuple | None  # the ends of a line to its marker


class Room:
    """The free room in axes in which everything else is drawn."""

    def __init__(self, axes):
        self.axes = axes
        self.points_per_pixel = 72 / axes.figure.dpi
        corners = axes.transAxes.transform([(0, 0), (1, 1)]) * self.points_per_pixel
        (self.left, self.bottom), (self.right, self.top) = corners
        self.boxes, self.markers, lines = [], [], []  # a marker is x, y and radius
        for line in axes.lines:
            places = line.get_transform().transform(line.get_xydata()) * self.points_per_pixel
            if line.get_marker() not in (None, "None", "", " ", "none"):
                radius = line.get_markersize() / 2 + line.get_markeredgewidth() / 2
                self.markers += [(x, y, radius) for x, y in places]
            if line.get_linestyle() not in ("None", "none", " ", ""):
                path = line.get_transform().transform(line.get_path().vertices) * self.points_per_pixel
                thin = line.get_color() == LIGHT_GREY and line.get_linewidth() < 1  # growth by theory
                lines += [(*entry, *other, 0.3 if thin else 1.0) for entry, other in zip(path, path[1:])]
        self.lines = numpy.array([line for line in lines if all(map(math.isfinite, line))]).reshape(-1, 5)

    def place(self, x, y):
        """Returns the position of a data point."""
        return tuple(self.axes.transData.transform((x, y)) * self.points_per_pixel)

    def find(self, text, own, others):
        """Returns a Label beside one of its own points, preferring the first, or None. others: points to which it does not belong.
        The place is then reserved."""
        width, height = plot_style.text_width(text) * 72, plot_style.look().text_size * 1.1
        results = []
        for rank, anchor in enumerate(own):
            radius = max((size for x, y, size in self.markers if math.dist((x, y), anchor) < 0.5), default=0)
            for distance in DISTANCES:
                for turn, direction in enumerate(DIRECTIONS):
                    box = _beside(anchor, direction, distance, width, height)
                    leader = self._leader(box, anchor, radius) if distance > LED else None
                    if leader and abs(direction[1]) < 1:
                        continue  # a line beside a number would be read as a minus
                    near = min(box.to(*place) for place in own)
                    far = min((box.to(*place) for place in others), default=math.inf)
                    if far >= (near + CLEAR if leader else AHEAD * near) and self._is_free(box, leader, anchor):
                        cost = (
                            self._covered(box, leader)
                            + 0.4 * distance
                            + 10 * max(near / far - 0.25, 0)
                            + 0.5 * rank
                            + 0.02 * turn
                        )
                        results.append((cost, len(results), box, leader))
        if not results:
            return None
        *_, box, leader = min(results)
        self.boxes.append(box)
        return Label(text, box, leader)

    def write(self, label):
        if label.leader:
            corners = self.axes.transData.inverted().transform(numpy.array(label.leader) / self.points_per_pixel)
            self.axes.plot(*zip(*corners), color=DARK_GREY, linewidth=0.4, zorder=3)
        self.axes.annotate(
            label.text, (label.box.x, label.box.y), xycoords="figure points", color=DARK_GREY, ha="center", va="center",
            path_effects=HALO, zorder=4,
        )  # fmt: skip

    def _leader(self, box, anchor, radius):
        """Returns the line from the label to the edge of its marker."""
        start = box.nearest(*anchor)
        share = radius / math.dist(start, anchor)
        return start, tuple(there + (here - there) * share for here, there in zip(start, anchor))

    def _is_free(self, box, leader, anchor):
        across, up = box.width / 2 + CLEAR, box.height / 2 + CLEAR
        if not (self.left + across <= box.x <= self.right - across and self.bottom + up <= box.y <= self.top - up):
            return False
        if any(box.touches(other) for other in self.boxes):
            return False
        if any(box.to(x, y) < radius + CLEAR for x, y, radius in self.markers):
            return False
        if leader is None:
            return True
        hidden = any(
            _to_line((x, y), *leader) < radius for x, y, radius in self.markers if math.dist((x, y), anchor) > radius
        )
        return not hidden and not any(
            box.touches(Box(*((a + b) / 2 for a, b in zip(*leader)), *(abs(a - b) for a, b in zip(*leader))))
            for box in self.boxes
        )

    def _covered(self, box, leader):
        """Returns the length of the lines under a label plus 2 for each that its leader crosses; lines of theory count less."""
        if not len(self.lines):
            return 0.0
        x1, y1, x2, y2, weight = self.lines.T
        first, last = numpy.zeros(len(x1)), numpy.ones(len(x1))
        for start, step, low, high in (
            (x1, x2 - x1, box.x - box.width / 2, box.x + box.width / 2),
            (y1, y2 - y1, box.y - box.height / 2, box.y + box.height / 2),
        ):
            step = numpy.where(step == 0, 1e-12, step)
            enters, leaves = (low - start) / step, (high - start) / step
            first = numpy.maximum(first, numpy.minimum(enters, leaves))
            last = numpy.minimum(last, numpy.maximum(enters, leaves))
        under = float(numpy.sum(weight * numpy.hypot(x2 - x1, y2 - y1) * numpy.maximum(last - first, 0)))
        if leader is None:
            return under
        (ax, ay), (bx, by) = leader
        from_leader = [(bx - ax) * (y - ay) - (by - ay) * (x - ax) for x, y in ((x1, y1), (x2, y2))]
        from_line = [(x2 - x1) * (y - y1) - (y2 - y1) * (x - x1) for x, y in leader]
        crossing = (from_leader[0] * from_leader[1] < 0) & (from_line[0] * from_line[1] < 0)
        return under + 2 * float(numpy.sum(weight[crossing]))


def _beside(anchor, direction, distance, width, height):
    """The Box at a distance from a place: over, under or beside it, or with a corner towards it."""
    across, up = direction
    step = distance / 2**0.5 if direction in CORNERS else distance
    sideways, upwards = (across * step if abs(across) == 1 else 0), (up * step if abs(up) == 1 else 0)
    return Box(anchor[0] + across * width / 2 + sideways, anchor[1] + up * height / 2 + upwards, width, height)


def _to_line(place, start, end):
    """Distance of a place to a piece of line."""
    (x, y), (ax, ay), (bx, by) = place, start, end
    length = math.dist(start, end) ** 2
    share = min(max(((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / length, 0), 1) if length else 0
    return math.dist(place, (ax + share * (bx - ax), ay + share * (by - ay)))
