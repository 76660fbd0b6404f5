"""Ancestry proportions and allele frequencies from genotypes."""
