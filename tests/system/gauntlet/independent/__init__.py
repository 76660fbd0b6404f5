"""Scenarios by authors who had not seen the checks."""
