"""Columns become codes, names and gaps. All validation of data lives here, once."""
