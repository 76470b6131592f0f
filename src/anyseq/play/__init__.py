"""The playground: one static page, which works from a file, and the local server behind it.

`page` holds the page: plain HTML, CSS and JavaScript that need no server, no build and no network.
"""
