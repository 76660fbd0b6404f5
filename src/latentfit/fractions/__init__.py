"""Fractions of the parts that samples are mixed of, with known or unknown profiles."""
