"""The command line: one file a command, each a thin wrapper around one call of the lab."""
