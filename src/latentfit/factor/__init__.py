"""One module per published algorithm: moments in, first parameters out."""
