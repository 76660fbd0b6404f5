"""Which labels to ask for next: those that make workers comparable, then the most informative."""

from __future__ import annotations

from latentfit.labels.select.planner import Plan, plan_crowd, plan_labels
from latentfit.labels.select.replay import simulate_plan

__all__ = ["Plan", "plan_crowd", "plan_labels", "simulate_plan"]
