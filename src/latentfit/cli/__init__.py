"""The command line, thin: options in, files out, messages on stderr, exit codes."""
