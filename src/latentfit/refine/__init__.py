"""Likelihood polishes first parameters: the only EM loop, and the pure steps of each family."""
