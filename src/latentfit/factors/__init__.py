"""Binary latent factors behind rows of real numbers."""
