"""Can I trust it? Identifiability, sample size, stability and structure, as a verdict with reasons."""

from __future__ import annotations

from latentfit.diagnose.report import FitReport

__all__ = ["FitReport"]
