"""Text to train on: WikiText-2 or tiny Shakespeare from the user's disk, or what Python brings."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from anyseq.errors import FileProblem
from anyseq.experiments.data import (
    Data,
    Sources,
    check_count,
    sha256_of,
    standard_library_text,
)

_WIKITEXT = {  # file -> SHA-256 of the text, words without line ends
    "train.txt.gz": (
        "728c77e87e176af4730f9a80fc6008bcaff421a7202c1c048877c0eec3685f89",
        2_051_910,
    ),
    "test.txt": ("d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0", 241_211),
}
_SHAKESPEARE = "input.txt", "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
_SHAKESPEARE_LINES = 40_000
# where, in a text without a split, training ends and the test begins; nothing is chosen by what is
# between them, so nobody reads it
_TRAIN, _TEST = 0.9, 0.95


class Corpus(NamedTuple):
    """To train on, to be measured on, and what they come from."""

    train: str
    test: str
    sources: Sources


@lru_cache(maxsize=1)
def corpus(data: Data, characters: int) -> Corpus:
    """The text in the folder of the data, or in its folder "wikitext2", by the files that it has;
    without a folder, so many characters of the standard library's source."""
    data = data.within("wikitext2")
    if data.folder is None:
        text = standard_library_text(characters)
        return _split(text, {"Python's standard library": sha256_of(text)})
    if (data.folder / "train.txt.gz").exists():
        train, test = (_wikitext(data, file) for file in _WIKITEXT)
        sources = {f"WikiText-2, {file}": sha256 for file, (sha256, _) in _WIKITEXT.items()}
        return Corpus(train, test, sources)
    if (data.folder / _SHAKESPEARE[0]).exists():
        text = data.read(*_SHAKESPEARE).decode()
        check_count("lines", text.count("\n"), _SHAKESPEARE_LINES)
        return _split(text, {"tiny Shakespeare": _SHAKESPEARE[1]})
    raise FileProblem(
        f"--data {data.folder}: expected WikiText-2 ({', '.join(_WIKITEXT)}) or tiny Shakespeare "
        f"({_SHAKESPEARE[0]})"
    )


def _wikitext(data: Data, file: str) -> str:
    sha256, words = _WIKITEXT[file]
    text = data.read(file, sha256).decode()
    check_count(f"words in {file}", len(text.split()), words)
    return text


def _split(text: str, sources: Sources) -> Corpus:
    return Corpus(text[: int(_TRAIN * len(text))], text[int(_TEST * len(text)) :], sources)
