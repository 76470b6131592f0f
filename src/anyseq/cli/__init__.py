"""The command line; no logic of its own."""

from anyseq.cli.main import main

__all__ = ["main"]
