"""Three lectures of five minutes: `anyseq demo --lecture 1`, and the notebooks in docs/lectures."""

from collections.abc import Callable, Iterator

from anyseq.lectures import equal_tokens, reverse, sparse
from anyseq.lectures.slide import Slide

LECTURES: dict[int, Callable[[], Iterator[Slide]]] = {
    1: reverse.slides,
    2: equal_tokens.slides,
    3: sparse.slides,
}
"""By number. Slides are made while one goes through them."""

__all__ = ["LECTURES", "Slide", "equal_tokens", "reverse", "sparse"]
