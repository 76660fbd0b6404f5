"""Stochastic block models of graphs."""
