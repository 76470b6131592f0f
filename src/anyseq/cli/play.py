"""`anyseq play`."""

from __future__ import annotations

import os
import sys
import webbrowser
from threading import Thread

from anyseq.cli.terminal import say
from anyseq.errors import InvalidArgument


def play(*, port: int = 0, browser: bool = True) -> None:
    """Open the playground in your browser: check designs, step through networks, attack them. It
    runs on this machine until Ctrl-C.

    Parameters
    ----------
    port
        The port on 127.0.0.1; a free one, unless given.
    browser
        Open the page in the browser.
    """
    if not 0 <= port <= 65535:
        raise InvalidArgument(f"--port {port}: expected 1 to 65535, or 0 for a free one")
    from anyseq.play import PlayServer  # loads the library

    try:
        server = PlayServer(port)
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise InvalidArgument(
            f"--port {port}: {reason}; give another port, or none for a free one"
        ) from None
    with server:
        say(f"anyseq play: {server.url} (Ctrl-C stops it)")
        sys.stdout.flush()  # who reads it through a pipe must not wait
        if browser:  # a thread, since a browser in the terminal returns when it is closed
            Thread(target=webbrowser.open, args=(server.url,), daemon=True).start()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say("stopped")
            if server.busy:  # to tear down the interpreter under a computing thread would abort it
                sys.stdout.flush()
                os._exit(0)
