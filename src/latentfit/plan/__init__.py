"""What to ask next: the labels that make a crowd comparable, then those expected to tell most."""

from __future__ import annotations

from latentfit.plan.planner import Plan, plan_crowd, plan_labels
from latentfit.plan.replay import simulate_plan

__all__ = ["Plan", "plan_crowd", "plan_labels", "simulate_plan"]
