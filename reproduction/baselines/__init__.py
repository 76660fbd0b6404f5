"""Rows that only a paper's table needs."""
