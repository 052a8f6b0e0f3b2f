"""The command line: one thin module per command. Nothing here imports torch at module level."""
