"""One reader per outside format: a file becomes named columns; one writer; the model file."""
