"""The playground, a page by itself, is copied beside the site's pages, in play/."""

import shutil
from pathlib import Path

from sphinx.application import Sphinx

PAGE = Path(__file__).parents[2] / "src" / "anyseq" / "play" / "page"


def _copy(app: Sphinx, problem: Exception | None) -> None:
    if problem is None:
        shutil.copytree(PAGE, app.outdir / "play", dirs_exist_ok=True)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", _copy)
    return {"parallel_read_safe": True}
