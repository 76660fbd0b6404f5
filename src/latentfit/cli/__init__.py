"""The command line, thin: options in, files out, talk on stderr, exit codes."""
