"""The command line: parse, call, print, exit code. Heavy packages are imported by the command that needs them."""
