"""Hidden Markov models of symbol sequences."""
