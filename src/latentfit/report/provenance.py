"""Where a result comes from: version, command, seed, input files by their SHA-256, seconds per stage."""

from __future__ import annotations

from latentfit import __version__
from latentfit.report.page import Context


def provenance_of(context: Context) -> list[tuple[str, str]]:
    """The last part of every page, line by line."""
    lines = [("Latentfit", str(context.summary.get("version", __version__)))]
    if context.command:
        lines.append(("Command", context.command))
    if context.seed is not None:
        lines.append(("Seed", str(context.seed)))
    lines += [(f"SHA-256 of {name}", digest) for name, digest in context.files.items()]
    if context.seconds:
        told = ", ".join(f"{stage} {value:.2f}" for stage, value in context.seconds.items())
        lines.append(("Seconds", f"{sum(context.seconds.values()):.2f} in all: {told}"))
    return lines
