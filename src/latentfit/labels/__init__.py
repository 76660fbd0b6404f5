"""Consensus labels from noisy annotators (Dawid–Skene), and the planning of further labels."""
