"""The command line: `main` is the table of contents, every command has a file of its own."""
