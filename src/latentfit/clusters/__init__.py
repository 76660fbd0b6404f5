"""Clusters of binary rows: Bernoulli mixtures whose number of components is chosen."""
