"""Text to train on: WikiText-2 or tiny Shakespeare from the user's disk, or what Python brings."""

from __future__ import annotations

from typing import NamedTuple

from anyseq.errors import FileProblem
from anyseq.experiments.data import Data, check_count, standard_library_text

_WIKITEXT = {  # file -> SHA-256 of the text, words without line ends
    "train.txt.gz": (
        "728c77e87e176af4730f9a80fc6008bcaff421a7202c1c048877c0eec3685f89",
        2_051_910,
    ),
    "valid.txt": ("f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8", 213_886),
    "test.txt": ("d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0", 241_211),
}
_SHAKESPEARE = "input.txt", "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
_SHAKESPEARE_LINES = 40_000
_TRAIN, _VALID = 0.9, 0.95  # where the parts of a text without a split end


class Corpus(NamedTuple):
    """name: for the table; the three parts."""

    name: str
    train: str
    valid: str
    test: str


def corpus(data: Data, characters: int) -> Corpus:
    """The text in the folder of the data, or in its folder "wikitext2", by the files that it has;
    without a folder, so many characters of the standard library's source."""
    data = data.within("wikitext2")
    if data.folder is None:
        return _split("Python's standard library", standard_library_text(characters))
    if (data.folder / "train.txt.gz").exists():
        return Corpus("WikiText-2", *(_wikitext(data, file) for file in _WIKITEXT))
    if (data.folder / _SHAKESPEARE[0]).exists():
        text = data.read(*_SHAKESPEARE).decode()
        check_count("lines", text.count("\n"), _SHAKESPEARE_LINES)
        return _split("tiny Shakespeare", text)
    raise FileProblem(
        f"--data {data.folder}: expected WikiText-2 ({', '.join(_WIKITEXT)}) or tiny Shakespeare "
        f"({_SHAKESPEARE[0]})"
    )


def _wikitext(data: Data, file: str) -> str:
    sha256, words = _WIKITEXT[file]
    text = data.read(file, sha256).decode()
    check_count(f"words in {file}", len(text.split()), words)
    return text


def _split(name: str, text: str) -> Corpus:
    first, second = (int(share * len(text)) for share in (_TRAIN, _VALID))
    return Corpus(name, text[:first], text[first:second], text[second:])
