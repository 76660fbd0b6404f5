"""What to ask next: the labels that make a crowd comparable, then those expected to tell most."""

from __future__ import annotations

from latentfit.labels.select.planner import Plan, plan_crowd, plan_labels
from latentfit.labels.select.replay import simulate_plan

__all__ = ["Plan", "plan_crowd", "plan_labels", "simulate_plan"]
