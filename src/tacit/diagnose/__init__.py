"""Can I trust it? Identifiability, sample size, stability and structure, as a verdict with reasons."""
