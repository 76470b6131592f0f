from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, bool]:
    return {"parallel_read_safe": True}
