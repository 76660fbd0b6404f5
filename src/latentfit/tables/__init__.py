"""Latent class analysis of categorical tables: classes, joint distribution, classification, imputation."""
