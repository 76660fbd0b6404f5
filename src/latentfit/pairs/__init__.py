"""Low-rank probability matrices behind sparse pair counts."""
