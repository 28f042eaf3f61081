"""A figure as pgfplots code: NAME.tex, which reads its curves from NAME-plot.csv (and pictures of matrices from NAME-plotK.png).

The panels are where the drawing has them, in inches. Curves are columns of the CSV file, x and y of each beside one another;
a column that is shorter than others ends with nan, which pgfplots leaves out. The code needs \\usepackage{pgfplots}.
"""

import csv
import io
import math

import matplotlib.collections
import matplotlib.colors
import matplotlib.image
import numpy

from reports.drawing import latex
from reports.drawing import plot_style

MARKS = {"o": "*", "s": "square*", "^": "triangle*", "v": "triangle*, mark options={rotate=180}", "D": "diamond*",
         "d": "diamond*", "P": "+", "X": "x", "x": "x", "+": "+", "p": "pentagon*", "h": "otimes*", ".": "*",
         "<": "triangle*, mark options={rotate=90}", ">": "triangle*, mark options={rotate=270}"}  # fmt: skip
CORNERS = 5  # a polygon with no more is geometry and stays in the code


def files(name, page):
    """{file name: bytes} of a layout.Page that was drawn."""
    writer = _Writer(name)
    page.figure.canvas.draw()
    lines = [f"% Data: {name}-plot.csv. Needs \\usepackage{{pgfplots}}.",
             f"\\begin{{tikzpicture}}[x=1in, y=1in, font=\\fontsize{{{_n(plot_style.look().text_size)}}}"
             f"{{{_n(1.2 * plot_style.look().text_size)}}}\\selectfont]",
             f"\\useasboundingbox (0, 0) rectangle ({_n(page.width)}, {_n(page.height)});"]  # fmt: skip
    for axes in page.figure.axes:
        lines += writer.axes(axes, page)
    for artist in [*page.figure.texts, *page.figure.artists, *page.figure.lines]:
        lines += writer.on_page(artist, page)
    lines.append("\\end{tikzpicture}%")
    return {
        f"{name}.tex": ("\n".join(lines) + "\n").encode(),
        f"{name}-plot.csv": writer.csv().encode(),
        **writer.pictures,
    }


def _n(value):
    """A number that TeX reads: no exponent where it is short without."""
    text = f"{float(value):.6g}"
    return "0" if text == "-0" else text


def _color(value):
    red, green, blue = (round(255 * part) for part in matplotlib.colors.to_rgb(value))
    return f"{{rgb,255:red,{red};green,{green};blue,{blue}}}"


def _dashes(line):
    offset, pattern = line._unscaled_dash_pattern  # matplotlib has no public word for it
    if not pattern:
        return "solid"
    lengths = [length * line.get_linewidth() for length in pattern]
    on_off = zip(lengths[::2], lengths[1::2])
    return "dash pattern=" + " ".join(f"on {_n(on)}pt off {_n(off)}pt" for on, off in on_off)


def _mark(line):
    name = line.get_marker()
    if name in (None, "None", "", " ", "none"):
        return "mark=none"
    size = _n(line.get_markersize() / 2)
    kind, _, options = MARKS.get(name, "*").partition(", mark options=")
    face, edge = line.get_markerfacecolor(), line.get_markeredgecolor()
    hollow = isinstance(face, str) and face in ("none", "white")
    fill = "white" if hollow and face == "white" else _color(line.get_color() if hollow else face)
    drawn = _color(edge if hollow or name in ("+", "x") else face)  # P and X are filled, and strokes in TeX
    style = f"solid, draw={drawn}" + ("" if kind in "+x" or face == "none" else f", fill={fill}")
    kind = "o" if face == "none" and kind == "*" else kind
    return f"mark={kind}, mark size={size}pt, mark options={{{style}{', ' + options.strip('{}') if options else ''}}}"


def _has_line(line):
    return line.get_linestyle() not in ("None", "none", " ", "")


class _Writer:
    def __init__(self, name):
        self.name, self.columns, self.pictures = name, [], {}

    def csv(self):
        length = max((len(values) for _, values in self.columns), default=0)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([head for head, _ in self.columns])
        for row in range(length):
            writer.writerow([values[row] if row < len(values) else "nan" for _, values in self.columns])
        return text.getvalue()

    def _column(self, xs, ys):
        """Keeps a curve; returns the options of the table that reads it."""
        number = len(self.columns) // 2 + 1
        self.columns += [(f"x{number}", [f"{x:.7g}" for x in xs]), (f"y{number}", [f"{y:.7g}" for y in ys])]
        return f"table[col sep=comma, x=x{number}, y=y{number}] {{{self.name}-plot.csv}}"

    def axes(self, axes, page):
        box = axes.get_position()
        left, bottom = box.x0 * page.sheet[0], box.y0 * page.sheet[1]
        width, height = box.width * page.sheet[0], box.height * page.sheet[1]
        (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
        options = [f"at={{({_n(left)}in, {_n(bottom)}in)}}", "anchor=south west", "scale only axis", "clip marker paths=false",
                   f"width={_n(width)}in", f"height={_n(height)}in", f"xmin={_n(min(x0, x1))}", f"xmax={_n(max(x0, x1))}",
                   f"ymin={_n(min(y0, y1))}", f"ymax={_n(max(y0, y1))}", "tick align=outside", "tick pos=lower",
                   "axis line style={line width=0.6pt, draw=black!75}", "major tick length=2pt", "minor tick num=0",
                   "tick label style={inner sep=1.5pt}", "label style={inner sep=1pt}", "scaled ticks=false"]  # fmt: skip
        boxed = axes.spines["top"].get_visible()
        options += [] if boxed else ["axis x line*=bottom", "axis y line*=left"]
        options += ["x dir=reverse"] if x0 > x1 else []
        options += ["y dir=reverse"] if y0 > y1 else []
        if axes.xaxis.get_gridlines() and axes.xaxis.get_gridlines()[0].get_visible():
            options.append("grid=major, grid style={line width=0.4pt, draw=black!8}")
        for name, axis, limits in (("x", axes.xaxis, (x0, x1)), ("y", axes.yaxis, (y0, y1))):
            options += self._axis(name, axis, limits)
        if axes.get_title(loc="left"):
            title = axes._left_title
            size = title.get_fontsize()
            weight = r"\bfseries" if title.get_fontweight() == "bold" else ""
            options += [f"title={{{latex.escape(title.get_text())}}}",
                        f"title style={{at={{(0,1)}}, anchor=south west, inner xsep=0pt, inner ysep=2pt, "
                        f"font=\\fontsize{{{_n(size)}}}{{{_n(1.2 * size)}}}\\selectfont{weight}}}"]  # fmt: skip
        lines = ["\\begin{axis}[" + ",\n  ".join(options) + "]"]
        drawn = [*axes.images, *axes.patches, *axes.collections, *axes.lines]
        for artist in sorted(drawn, key=lambda artist: (artist not in axes.images, artist.get_zorder())):
            if artist.get_visible():
                lines += self._artist(axes, artist)
        for text in axes.texts:
            if text.get_visible() and text.get_text():
                lines.append(self._text(axes, text))
        return [*lines, "\\end{axis}"]

    @staticmethod
    def _axis(name, axis, limits):
        low, high = min(limits), max(limits)
        options = [f"{name}mode={'log' if axis.get_scale() == 'log' else 'normal'}"]
        if name == "y" and axis.get_ticks_position() == "right":  # the scale of a colour bar
            options += ["ytick pos=right", "yticklabel pos=right"]
        places = [place for place in axis.get_majorticklocs() if low <= place <= high]
        formatter = axis.get_major_formatter()
        formatter.set_locs(places)
        words = [formatter(place, index) for index, place in enumerate(places)]
        ticks = axis.get_major_ticks()
        shown = any(tick.label1.get_visible() or tick.label2.get_visible() for tick in ticks)
        labels = ", ".join("{" + (latex.escape(word) if shown else "") + "}" for word in words)
        options += ([f"{name}tick={{{', '.join(map(_n, places))}}}", f"{name}ticklabels={{{labels}}}"]
                    if places else [f"{name}tick=\\empty"])  # fmt: skip
        label = axis.get_label_text()
        if label:
            options.append(f"{name}label={{{latex.escape(label)}}}")
        return options

    def _artist(self, axes, artist):
        to_data = axes.transData.inverted()
        if isinstance(artist, matplotlib.collections.QuadMesh):
            colors = (255 * artist.to_rgba(artist.get_array().reshape(-1, 1))).round().astype(numpy.uint8)
            return self._picture(colors[::-1], *axes.get_xlim(), *axes.get_ylim())
        if artist in axes.images:
            return self._image(artist)
        if artist in axes.lines:
            points = to_data.transform(artist.get_transform().transform(artist.get_xydata()))
            return self._line(artist, points)
        polygons, color, alpha = [], None, 1.0
        if artist in axes.patches:
            polygons = [to_data.transform(artist.get_transform().transform_path(artist.get_path()).vertices)]
            color, alpha = artist.get_facecolor(), artist.get_alpha() or 1.0
        else:
            transform = artist.get_transform()
            faces = artist.get_facecolor()
            if len(faces):
                polygons = [to_data.transform(transform.transform_path(path).vertices) for path in artist.get_paths()]
                color, alpha = faces[0], artist.get_alpha() or 1.0
            else:  # bars of intervals
                edges, widths = artist.get_edgecolor(), artist.get_linewidth()
                return [self._segments([to_data.transform(transform.transform_path(path).vertices) for path in artist.get_paths()],
                                       edges[0], widths[0])]  # fmt: skip
        lines = []
        for points in polygons:
            points = [point for point in points if all(map(math.isfinite, point))]
            if len(points) < 3:
                continue
            style = f"fill={_color(color)}, fill opacity={_n(alpha)}, draw=none, mark=none"
            if len(points) <= CORNERS:
                places = " ".join(f"({_n(x)}, {_n(y)})" for x, y in points)
                lines.append(f"\\addplot[{style}] coordinates {{{places}}} \\closedcycle;")
            else:
                lines.append(f"\\addplot[{style}] {self._column(*zip(*points))} \\closedcycle;")
        # \closedcycle goes down to the axis in a plot of a function; a path of its own closes on itself.
        return [line.replace(" \\closedcycle", " -- cycle") for line in lines]

    def _segments(self, segments, color, width):
        style = f"draw={_color(color)}, line width={_n(width)}pt"
        paths = " ".join(
            " -- ".join(f"(axis cs:{_n(x)},{_n(y)})" for x, y in segment) for segment in segments if len(segment)
        )
        return f"\\draw[{style}] {paths};"

    def _line(self, line, points):
        style = [f"draw={_color(line.get_color())}"]
        style.append(f"line width={_n(line.get_linewidth())}pt, {_dashes(line)}" if _has_line(line) else "only marks")
        style.append(_mark(line))
        if line.get_alpha():
            style.append(f"opacity={_n(line.get_alpha())}")
        if line.get_drawstyle() == "steps-post":
            style.append("const plot")
        return [f"\\addplot[{', '.join(style)}] {self._column(*zip(*run))};" for run in _runs(points)]

    def _image(self, image):
        values = image.get_array()
        colors = image.to_rgba(values, bytes=True) if values.ndim == 2 else numpy.round(255 * values)
        left, right, bottom, top = image.get_extent()
        if (bottom > top) != (image.axes.get_ylim()[0] > image.axes.get_ylim()[1]):
            colors = colors[::-1]
        return self._picture(numpy.asarray(colors, dtype=numpy.uint8), left, right, bottom, top)

    def _picture(self, colors, left, right, bottom, top):
        name = f"{self.name}-plot{len(self.pictures) + 1}.png"
        times = max(1, 256 // max(colors.shape[:2]))  # enlarged, because readers of PDF smooth small pictures
        buffer = io.BytesIO()
        matplotlib.image.imsave(buffer, numpy.ascontiguousarray(colors.repeat(times, axis=0).repeat(times, axis=1)),
                                format="png", metadata={"Software": None})  # fmt: skip
        self.pictures[name] = buffer.getvalue()
        return [f"\\addplot graphics[xmin={_n(min(left, right))}, xmax={_n(max(left, right))}, ymin={_n(min(bottom, top))}, "
                f"ymax={_n(max(bottom, top))}] {{{name}}};"]  # fmt: skip

    @staticmethod
    def _text(axes, text):
        box = text.get_window_extent()
        x, y = axes.transAxes.inverted().transform(((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2))
        rotation = f", rotate={_n(text.get_rotation())}" if text.get_rotation() else ""
        return (f"\\node[inner sep=0pt, text={_color(text.get_color())}{rotation}] at (rel axis cs:{_n(x)},{_n(y)}) "
                f"{{{latex.escape(text.get_text())}}};")  # fmt: skip

    @staticmethod
    def on_page(artist, page):
        """Returns the TeX code of a text or line that is outside the axes, such as one of a legend."""
        if hasattr(artist, "get_text"):
            if artist in page.after.values():
                return []  # the node of the panel's letter, in front of this text, already contains it
            x, y = (share * size for share, size in zip(artist.get_position(), page.sheet))
            words, follower = _words(artist), page.after.get(artist)
            # Puts both texts into one node, so that TeX sets the gap by the font that it uses.
            if follower:
                words = (
                    f"{{{words}}}\\enspace{{{_font(follower)}\\color{_color(follower.get_color())}{_words(follower)}}}"
                )
            return [f"\\node[anchor=base west, inner sep=0pt, yshift=-{_n(0.35 * artist.get_fontsize())}pt, "
                    f"text={_color(artist.get_color())}, font={_font(artist)}] at ({_n(x)}, {_n(y)}) {{{words}}};"]  # fmt: skip
        points = [(x * page.sheet[0], y * page.sheet[1]) for x, y in artist.get_xydata()]
        lines = []
        if _has_line(artist):
            path = " -- ".join(f"({_n(x)}, {_n(y)})" for x, y in points)
            lines.append(f"\\draw[draw={_color(artist.get_color())}, line width={_n(artist.get_linewidth())}pt, "
                         f"{_dashes(artist)}] {path};")  # fmt: skip
        if artist.get_marker() not in (None, "None", "", " "):
            which = artist.get_markevery()
            marked = [points[index] for index in which] if isinstance(which, list) else points
            places = " ".join(f"({_n(x)}, {_n(y)})" for x, y in marked)
            lines.append(f"\\draw plot[only marks, {_tikz_mark(artist)}] coordinates {{{places}}};")
        return lines


def _font(text):
    size = text.get_fontsize()
    return f"\\fontsize{{{_n(size)}}}{{{_n(1.2 * size)}}}\\selectfont"


def _words(text):
    return ("\\bfseries " if text.get_fontweight() == "bold" else "") + latex.escape(text.get_text())


def _tikz_mark(line):
    return _mark(line)


def _runs(points):
    """Points without gaps."""
    runs = [[]]
    for point in points:
        if all(map(math.isfinite, point)):
            runs[-1].append(point)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]
