"""The playground: one static page, which works from a file, and the local server behind it.

`page` holds the page: plain HTML, CSS and JavaScript that need no server, no build and no network.
"""

from anyseq.play.formula import Formula, parse
from anyseq.play.server import PlayServer

__all__ = ["Formula", "PlayServer", "parse"]
