"""The look of figures: colours, line styles, fonts, tick labels, and reproducible files.

Only the look is defined here, not the contents.
"""

import contextlib
import dataclasses
import functools
import hashlib
import io
import json
import math
import pathlib
import typing

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

POINT = 1 / 72  # inches
DARK_GREY, MID_GREY, LIGHT_GREY = "#404040", "#767676", "#b4b4b4"

# Okabe & Ito's palette for colour-blind readers, without its yellow, which is too pale for lines on white.
BLACK, ORANGE, SKY, GREEN = "#000000", "#e69f00", "#56b4e9", "#009e73"
BLUE, VERMILLION, PURPLE = "#0072b2", "#d55e00", "#cc79a7"
PALETTE = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY)  # for names without a style of their own

SOLID = (0, ())
LONG, DASHED, SHORT, DOTTED = (0, (7, 2)), (0, (4, 1.6)), (0, (2, 1.2)), (0, (1, 1.2))
DASH_DOT, DASH_DOT_DOT = (0, (5, 1.4, 1, 1.4)), (0, (5, 1.4, 1, 1.4, 1, 1.4))
DASHES = (SOLID, LONG, DASHED, SHORT, DOTTED, DASH_DOT, DASH_DOT_DOT)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "h", "p", "d")


class Style(typing.NamedTuple):
    color: str
    dashes: tuple
    marker: str
    hollow: bool = False


# One implementation looks the same in every figure. Those that meet in one operator differ in all three.
STYLES = {
    "reference": Style("#8c8c8c", DOTTED, "p"),
    "dense": Style(BLACK, DASHED, "s"),
    "tiled": Style(VERMILLION, LONG, "D"),
    "tensor_cores": Style(ORANGE, DASH_DOT, "^"),
    "fft": Style(BLUE, SOLID, "o"),
    "fft_columns": Style(ORANGE, DASH_DOT, "^"),
    "fft_streamed": Style(GREEN, SHORT, "v"),
    "fft_streamed64": Style(PURPLE, DASH_DOT_DOT, "X"),
    "fft2": Style(SKY, LONG, "h"),
    "fft_sequence": Style(VERMILLION, DOTTED, "v"),
    "xy": Style(GREEN, SHORT, "P"),
    "backward": Style(PURPLE, DASH_DOT_DOT, "X"),
    "associative": Style(BLUE, SOLID, "o"),
    "prefix_sum": Style(PURPLE, DASH_DOT_DOT, "X"),
    "recurrent": Style(ORANGE, DASH_DOT, "^"),
    "chunked": Style(SKY, SHORT, "v"),
    "windowed": Style(BLUE, SOLID, "d"),
    "linear": Style(BLUE, SOLID, ">"),
    "auto": Style(ORANGE, DASH_DOT, "<"),
    "shift": Style(BLUE, SOLID, "h"),
    "gathered": Style(BLUE, SOLID, "P"),
    "blocked": Style(GREEN, SHORT, "d"),
    "sine_spe": Style(BLUE, SOLID, "o"),
    "conv_spe": Style(VERMILLION, LONG, "s"),
    "none": Style("#8c8c8c", DOTTED, "p"),
    "compressed": Style(ORANGE, DASH_DOT, "^"),
    "projected": Style(BLUE, SOLID, "o"),
    "sorted": Style(BLUE, SOLID, "o"),
    # Names that recipes give to series that would look alike otherwise.
    "dense_float64": Style("#8c8c8c", DASHED, "s"),
    "fft_float64": Style(SKY, SHORT, "o"),
    "fft_columns_float64": Style(VERMILLION, DOTTED, "^"),
    "dense_rpe": Style("#8c8c8c", LONG, "D"),
    "associative_alone": Style(BLACK, DASHED, "<"),
    "windowed_alone": Style(PURPLE, DASH_DOT_DOT, "d"),
    "fastrpb_softmax": Style(PURPLE, DASH_DOT_DOT, "X"),
    "fastrpb_linear": Style(GREEN, SHORT, "v"),
    "pattern_local": Style(BLUE, SOLID, "o"),
    "pattern_sliding": Style(GREEN, SHORT, "v"),
    "pattern_strided": Style(SKY, DASHED, "s"),
    "pattern_longformer": Style(ORANGE, DASH_DOT, "^"),
    "pattern_bigbird": Style(PURPLE, DASH_DOT_DOT, "X"),
    "scheme_absolute": Style(BLACK, SOLID, "s"),
    "scheme_absolute_scores": Style("#8c8c8c", DASHED, "p"),
    "scheme_untied": Style(BLUE, LONG, "o"),
    "scheme_shaw": Style(GREEN, SHORT, "v"),
    "scheme_bias": Style(ORANGE, DASH_DOT, "^"),
    "scheme_multiplicative": Style(SKY, DOTTED, "P"),
    "scheme_deberta": Style(VERMILLION, DASH_DOT_DOT, "D"),
}

# Lines for values of a number (R, m, n), in the order of the values, and a second such set.
SERIES = tuple(
    Style(*style)
    for style in zip((BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK), DASHES, MARKERS[: len(DASHES)])
)
GREYS = tuple(
    Style(color, dashes, marker)
    for color, dashes, marker in zip((BLACK, DARK_GREY, MID_GREY, "#8c8c8c"), DASHES, ("o", "s", "^", "D"))
)
# One feature map looks the same in every figure.
FEATURE_MAPS = {"prf": SERIES[0], "orf": SERIES[2], "sphere": SERIES[3], "prf_hyperbolic": SERIES[4], "trf": SERIES[1], "trf_clipped": SERIES[5],
                "elu1": Style(BLACK, DASH_DOT_DOT, None)}  # fmt: skip


def shade(style, index, count):
    """The index-th of `count` variants of a style: one hue from light to dark, with dashes and a marker of its own."""
    if count == 1:
        return style
    share = index / (count - 1)  # 0: the lightest
    channels = [int(style.color[place : place + 2], 16) for place in (1, 3, 5)]
    mixed = [
        round(channel + (255 - channel) * (0.5 - share)) if share < 0.5 else round(channel * (1.5 - share))
        for channel in channels
    ]
    return Style("#" + "".join(f"{channel:02x}" for channel in mixed), DASHES[index % len(DASHES)],
                 MARKERS[(MARKERS.index(style.marker) + index) % len(MARKERS)])  # fmt: skip


def apart(style, others):
    """The style; where one of `others` has its colour and dashes, the same colour with the next dashes and marker that are free."""
    looks = {(other.color, other.dashes) for other in others}
    dashes, marker = DASHES.index(style.dashes), MARKERS.index(style.marker)
    variants = (
        Style(style.color, DASHES[(dashes + step) % len(DASHES)], MARKERS[(marker + step) % len(MARKERS)])
        for step in range(len(DASHES))
    )
    return next((variant for variant in variants if (variant.color, variant.dashes) not in looks), style)


def style_of(implementation):
    """The fixed style of a name; a name that is not in the table gets one from its hash, the same everywhere."""
    if implementation in STYLES:
        return STYLES[implementation]
    digest = hashlib.sha256(implementation.encode()).digest()
    return Style(PALETTE[digest[0] % len(PALETTE)], DASHES[digest[1] % len(DASHES)], MARKERS[digest[2] % len(MARKERS)])


# Fonts, sizes and widths, which a paper's style determines


@dataclasses.dataclass(frozen=True)
class Look:
    """Sizes are points and inches. `width` is that of every figure (a number, `column` or `text`), None: as its recipe says;
    `panels`: how many stand side by side, None: as many as are legible."""

    font: str
    text_size: float
    title_size: float
    line_width: float
    marker_size: float
    column: float
    text: float
    width: float | str | None = None
    bare: bool = False  # without the heading
    panels: int | None = None


STYLE_PATH = pathlib.Path(__file__).with_name("styles.json")
SMALLEST_TEXT = 6  # points: smaller is not read in print
EVERY_LETTER = "DejaVu Sans"  # has what other fonts lack: superscripts, subscripts, accents


class StyleError(Exception):
    """A style file that cannot be used; the text is one line."""


def named_styles(path=STYLE_PATH):
    return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))


def load_look(name="default", width=None, bare=False, panels=None):
    """The Look of a name in styles.json, or of a file that has the keys of one of its entries."""
    known = named_styles()
    if name in known:
        chosen = known[name]
    elif pathlib.Path(name).suffix == ".json":
        try:
            chosen = json.loads(pathlib.Path(name).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise StyleError(f"style {name}: cannot be read: {' '.join(str(error).split())}") from None
    else:
        raise StyleError(f"style: expected {', '.join(known)} or a .json file, found '{name}'")
    fields = {**known["default"], **chosen} if isinstance(chosen, dict) else {}
    wrong = [key for key, value in known["default"].items()
             if not isinstance(fields.get(key), str if isinstance(value, str) else (int, float))]  # fmt: skip
    unknown = [key for key in fields if key not in known["default"]]
    if wrong or unknown:
        raise StyleError(f"style {name}: expected {', '.join(known['default'])}, "
                         + (f"found '{unknown[0]}'" if unknown else f"found no usable {wrong[0]}"))  # fmt: skip
    if fields["text_size"] < SMALLEST_TEXT:
        raise StyleError(f"style {name}: text_size: expected at least {SMALLEST_TEXT}, found {fields['text_size']}")
    fields.pop("about", None)
    return Look(**fields, width=width, bare=bare, panels=panels)


_look = [load_look()]


def look():
    return _look[0]


def scale():
    """Room for text relative to the default style."""
    return look().text_size / 7


def line_height():
    return 1.36 * look().text_size * POINT


def width_for(wanted):
    """The width of a figure: the one asked for, or else its own."""
    asked = look().width
    if asked is None:
        return wanted
    return {"column": look().column, "text": look().text}.get(asked, asked)


def font_family():
    """The font of the style, and one for the letters that it lacks. Both ship with matplotlib: the same on every machine."""
    return tuple(dict.fromkeys([look().font, EVERY_LETTER]))


def width_named(name):
    """Inches of `column` or `text`."""
    return {"column": look().column, "text": look().text}[name]


def use_style(chosen=None):
    """Starts from matplotlib's defaults, so that no user's configuration changes a figure."""
    _look[0] = chosen or load_look()
    size = look().text_size
    matplotlib.rcdefaults()
    matplotlib.rcParams.update(
        {
            "font.family": list(font_family()),
            "font.size": size,
            "text.hinting": "none",
            "text.parse_math": False,
            "axes.linewidth": 0.6,
            "axes.edgecolor": DARK_GREY,
            "axes.labelsize": size,
            "axes.labelpad": 2.5,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "xtick.labelsize": size,
            "ytick.labelsize": size,
            "xtick.color": DARK_GREY,
            "ytick.color": DARK_GREY,
            "xtick.major.width": 0.6,
            "ytick.major.width": 0.6,
            "xtick.major.size": 2.5,
            "ytick.major.size": 2.5,
            "lines.linewidth": look().line_width,
            "lines.markersize": 3.2,
            "lines.scale_dashes": True,
            "pdf.fonttype": 42,  # text stays text, to be searched and edited
            "svg.fonttype": "none",
            "svg.hashsalt": "subquad",
        }
    )


def new_figure(width, height):
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


_sheets = []  # pages of a report that figures are drawn on, the innermost last


@contextlib.contextmanager
def on_sheet(figure, x, y):
    """Figures are drawn on this one, with their upper left corner x, y inches from its own."""
    _sheets.append((figure, (x, y)))
    try:
        yield
    finally:
        _sheets.pop()


def open_figure(width, height):
    """(figure, corner of what is drawn in inches, size of the whole)"""
    if _sheets:
        figure, corner = _sheets[-1]
        return figure, corner, tuple(figure.get_size_inches())
    return new_figure(width, height), (0.0, 0.0), (width, height)


@functools.lru_cache(maxsize=None)
def _width_of(text, fonts, size, weight):
    figure = new_figure(1, 1)
    extent = figure.text(
        0, 0, text, fontfamily=list(fonts), fontsize=size, fontweight=weight, parse_math=False
    ).get_window_extent(figure.canvas.get_renderer())
    return extent.width / figure.dpi


def text_width(text, size=None, weight="normal"):
    """Printed width of one line, in inches."""
    return _width_of(text, font_family(), size or look().text_size, weight)


def wrap(text, width, size=None, weight="normal"):
    """Splits text into lines no wider than `width` inches. `a = b` stays together."""
    lines = [""]
    for word in text.replace(" = ", "\u00a0=\u00a0").split(" "):
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and text_width(longer, size, weight) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


METADATA = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {"Software": None}}
FORMATS = (*METADATA, "tex")  # tex: pgfplots


def render(figure, file_format):
    """The bytes of the figure. They hold no date, so the same figure is the same bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=file_format, dpi=300, metadata=METADATA[file_format])
    return buffer.getvalue()


# Tick labels


def _scaled(value, steps, unit):
    """Writes value with the largest of `steps` (factor, prefix) that it reaches."""
    factor, prefix = steps[-1]
    for candidate, name in steps:
        if value >= candidate * (1 - 5e-4):  # 999.6 ms is 1 s
            factor, prefix = candidate, name
            break
    number = value / factor
    return f"{number:.0f} {prefix}{unit}" if number >= 999.5 else f"{number:.3g} {prefix}{unit}"


BINARY_STEPS = ((2.0**40, "Ti"), (2.0**30, "Gi"), (2.0**20, "Mi"), (2.0**10, "Ki"), (1.0, ""))
DECIMAL_STEPS = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))


def format_bytes(value):
    return _scaled(value, BINARY_STEPS, "B")


def format_seconds(value):
    return _scaled(value, DECIMAL_STEPS, "s")


def format_count(value):
    """1024 -> 1Ki, 2000 -> 2k, 1001 -> 1001: exact, and short for the numbers that sweeps use."""
    for factor, prefix in BINARY_STEPS[:-1]:
        if value >= factor and value % factor == 0:
            return f"{value / factor:.0f}{prefix}"
    for factor, prefix in ((1e6, "M"), (1e3, "k")):
        if value >= factor and value % (factor / 10) == 0:
            return f"{value / factor:g}{prefix}"
    return f"{value:.0f}"


def format_decimal_count(value):
    """2000 -> 2k, 2048 -> 2048, 16384 -> 16.4k"""
    for factor, prefix in ((1e6, "M"), (1e3, "k")):
        if value >= factor and (value % (factor / 10) == 0 or value >= 10_000):
            return f"{three_digits(value / factor)}{prefix}"
    return f"{value:.0f}"


def counts_format(values):
    """Returns the format for the counts of one axis or list: by 1024 if all large ones are multiples of it, else by 1000."""
    return format_count if all(value % 1024 == 0 for value in values if value >= 1000) else format_decimal_count


def list_words(words, separator=", "):
    """Joins words, the last by `and`. Labels that contain commas need another separator."""
    return " and ".join(filter(None, [separator.join(words[:-1]), *words[-1:]]))


def three_digits(value):
    """Three significant digits, as harness/base/digits.h writes them: 0.0425, 23.5, 1620 rather than 1.62e+03."""
    size = abs(value)
    if not 999.5 <= size < 1e7:
        return f"{value:.3g}"
    unit = 10 ** (math.floor(math.log10(size)) - 2)
    return f"{math.copysign(math.floor(size / unit + 0.5) * unit, value):.0f}"


def with_interval(value, low, high):
    """`23.5 [22.6, 24]`; without the brackets where neither end is known."""
    if low is None and high is None:
        return three_digits(value)
    ends = ("unknown" if end is None else three_digits(end) for end in (low, high))
    return f"{three_digits(value)} [{', '.join(ends)}]"


def format_error(value):
    return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e+")


def format_times(value):
    return f"{value:g}×"


def format_plain(value):
    return f"{value:.3g}"


def most_ticks(height, most):
    """Ticks that an axis of this height has room for."""
    return max(2, min(most, int(height / (1.2 * line_height()))))


def small_ticks(low, high, most):
    """Returns ticks for shares and ratios: 1, 2, 5 times each power of ten, or fewer."""
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    for digits in ((1, 1.2, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        ticks = [digit * 10.0**power for power in powers for digit in digits]
        ticks = [tick for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
        if len(ticks) <= most:
            return ticks
    return decimal_ticks(low, high, most)


def binary_ticks(low, high, most):
    """Powers of two in low..high, evenly spaced, no more than `most`."""
    first, last = math.ceil(math.log2(low) - 1e-9), math.floor(math.log2(high) + 1e-9)
    for step in (1, 2, 3, 4, 5, 10, 20, 40):
        ticks = [2.0**power for power in range(first, last + 1) if power % step == 0]
        if len(ticks) <= most:
            return ticks
    return ticks


def decimal_ticks(low, high, most):
    """Powers of ten in low..high, or 1-2-5 multiples where there would be fewer than three."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))

    def inside(ticks):
        return [tick for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]

    powers = inside([10.0**power for power in range(first, last + 1)])
    if len(powers) < 3:
        for digits in ((1, 2, 5), (1, 3), (1,)):
            ticks = inside([digit * 10.0**power for power in range(first, last + 1) for digit in digits])
            if len(ticks) <= most:
                return ticks
    for step in (1, 2, 3, 4, 5, 10, 20):
        ticks = [tick for tick in powers if round(math.log10(tick)) % step == 0]
        if len(ticks) <= most:
            return ticks
    return ticks
