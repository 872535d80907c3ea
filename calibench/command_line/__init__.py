"""The command line: verbs parsed from typed functions, and the terminal."""
