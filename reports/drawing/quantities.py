"""What can be drawn: each quantity of a record as a Panel with its label, unit, band and thin line."""

from reports.drawing import plot_style
from reports.drawing.panels import Panel

QUANTITIES = {
    "seconds": Panel(
        y="seconds",
        label="time per run",
        low="seconds_low",
        high="seconds_high",
        tick_format=plot_style.format_seconds,
        quantity="seconds",
        theory="time",
    ),
    "speedup": Panel(
        y="speedup",
        label="speed-up",
        low="speedup_low",
        high="speedup_high",
        tick_format=plot_style.format_times,
        ticks=plot_style.small_ticks,
        level=1.0,
        least_factor=4,
    ),
    "setup_seconds": Panel(y="setup_seconds", label="set-up time", tick_format=plot_style.format_seconds),
    "first_seconds": Panel(y="first_seconds", label="time of the first run", tick_format=plot_style.format_seconds),
    "workspace_bytes": Panel(
        y="workspace_bytes",
        label="workspace",
        thin="workspace_formula_bytes",
        thin_meaning="thin line: the implementation's own formula",
        tick_format=plot_style.format_bytes,
        ticks=plot_style.binary_ticks,
        quantity="workspace_bytes",
        theory="memory",
    ),
    "total_bytes": Panel(
        y="total_bytes",
        label="inputs, output, workspace",
        tick_format=plot_style.format_bytes,
        ticks=plot_style.binary_ticks,
    ),
    "resident_bytes": Panel(
        y="resident_bytes",
        label="peak resident set",
        tick_format=plot_style.format_bytes,
        ticks=plot_style.binary_ticks,
    ),
    "max_error": Panel(
        y="max_error",
        label="largest absolute error",
        thin="bound",
        thin_name="bound from theory",
        thin_meaning="thin line: bound from theory",
        thin_in_limits=True,
        tick_format=plot_style.format_error,
    ),
    "error": Panel(y="error", label="largest error / bound", tick_format=plot_style.format_error, level=1.0),
    "error_ratio": Panel(
        y="error_ratio",
        label="error / plain dense error",
        shared=True,
        tick_format=plot_style.format_plain,
        ticks=plot_style.small_ticks,
        level=1.0,
    ),
    "floor_share": Panel(
        y="floor_share",
        label="fraction of roofline",
        shared=True,
        tick_format=plot_style.format_plain,
        ticks=plot_style.small_ticks,
        level=1.0,
    ),
    "error_against_time": Panel(
        x="seconds",
        x_label="time per run",
        x_format=plot_style.format_seconds,
        y="max_error",
        label="largest absolute error",
        tick_format=plot_style.format_error,
        frontier=True,
    ),
    "memory_against_time": Panel(
        x="seconds",
        x_label="time per run",
        x_format=plot_style.format_seconds,
        y="workspace_bytes",
        label="workspace",
        tick_format=plot_style.format_bytes,
        ticks=plot_style.binary_ticks,
        frontier=True,
    ),
}

# The three figures that every operator gets.
GENERAL = {
    "time-memory": ("text", (QUANTITIES["seconds"], QUANTITIES["workspace_bytes"])),
    "error": ("column", (QUANTITIES["max_error"],)),
    "error-time": ("column", (QUANTITIES["error_against_time"],)),
}
