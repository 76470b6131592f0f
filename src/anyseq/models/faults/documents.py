"""Packed documents do not attend to each other, and each gives what it gives by itself."""

from __future__ import annotations

from collections.abc import Iterator

from anyseq.models.faults.claims import Claim
from anyseq.models.faults.entrance import entrance
from anyseq.models.faults.fault import Fault
from anyseq.models.faults.influence import influence, worst
from anyseq.models.faults.packs import Pack, by_positions, packs
from anyseq.models.faults.rule import Asked, NotChecked, Note
from anyseq.models.faults.snippets import call, two_calls

_RESTARTS = (
    "position_ids that restart do not keep packed documents apart in this family: give a mask of "
    "four dimensions as well"
)
_MIXED = (
    "no mask keeps packed documents apart here: beside attention it has layers that carry content "
    "along the whole sequence"
)
_SAYS = {
    "documents": "though their ids say so",
    "cu_seqlens": "though cu_seqlens says where it begins",
    "positions": "though position_ids restart and no mask is given",
    "mask": "though a mask of four dimensions hides it",
}
_REPAIRS = {
    "documents": "hide other documents in every layer",
    "cu_seqlens": "hide other documents in every layer",
    "positions": "build the mask from position_ids where no mask is given (position_ids passed to "
    "create_causal_mask), or give a mask of four dimensions",
    "mask": "pass the caller's mask to the attention of every layer unchanged",
}
Leak = tuple[tuple[int, int], float]


def documents(asked: Asked) -> Iterator[Fault | Note]:
    """Two documents in one sequence, given by their ids, by the places where they begin, by
    positions that restart, and by a mask of four dimensions."""
    looked = False
    for pack in packs(asked):
        try:
            leak = _leak(pack)
        except Exception:  # it takes nothing of the kind
            continue
        looked = True
        if leak is None:
            yield from _unlike_alone(asked, pack)
        elif pack.name == "mask" and any(one.attends is False for one in asked.claims.layers):
            yield Note(_MIXED)
        elif pack.optional and _is_the_familys_way(asked):
            yield Note(_RESTARTS)
        else:
            yield _leaking(pack, leak)
    if not looked:
        raise NotChecked("its forward takes no argument that separates documents")


def _leak(pack: Pack) -> Leak | None:
    """The pair of tokens of two documents with the largest effect, and its size."""
    effect = influence(pack.subject, pack.x, pack.run)
    ids = pack.ids[0]
    effect = effect * (ids[:, None] != ids)
    return worst(effect) if (effect > 0).any() else None


def _is_the_familys_way(asked: Asked) -> bool:
    """Whether transformers' own model of this config ignores positions that restart."""
    if asked.healthy is None:
        return not asked.subject.hugging_face
    try:
        return _leak(by_positions(asked.healthy)) is not None
    except Exception:  # its own model cannot be asked
        return True


def _leaking(pack: Pack, leak: Leak) -> Fault:
    (i, j), size = leak
    subject = pack.subject
    new = int(subject.other(pack.x)[0, j]) if subject.features is None else None
    content = "torch.randn_like(x[0, 0])" if new is None else str(new)
    lines = [*pack.lines(), "changed = x.clone()", f"changed[0, {j}] = {content}"]
    options = pack.options()
    return Fault(
        "documents",
        f"output {i} changes with token {j} of another document, {_SAYS[pack.name]}",
        (), entrance(subject, pack.x, (i, j), **pack.told), (i, j), size,
        two_calls("\n".join(lines), call(subject, **options), call(subject, "changed", **options),
                  f"[0, {i}]", f"0 if output {i} does not depend on the other document"),
        _REPAIRS[pack.name],
    )  # fmt: skip


def _unlike_alone(asked: Asked, pack: Pack) -> Iterator[Fault]:
    """The second document, packed, against the same by itself: except where patterns differ there,
    or where nothing says that positions start again."""
    subject = pack.subject
    placed = "positions" in pack.told or asked.claims.shifts is False
    if not (
        pack.alone and placed and all(_same_anywhere(one, pack) for one in asked.claims.layers)
    ):
        return
    try:
        alone = pack.by_themselves()
    except Exception:  # it takes sequences of one length
        return
    effect = subject.apart(alone, pack.run(pack.x), pack.x)[0, pack.first :]
    if not (effect > 0).any():
        return
    i = int(effect.argmax())
    where = f"[0, {i}]"
    yield Fault(
        "documents",
        f"output {pack.first + i} of a packed document differs from that of the same document by "
        "itself",
        (), "", (pack.first + i, pack.first + i), float(effect[i]),
        two_calls("\n".join(pack.lines()), call(subject, **pack.options()) + f"[:, {pack.first}:]",
                  call(subject, f"x[:, {pack.first}:]"), where,
                  "0 if the document gives what it gives by itself"),
        "let positions, and windows, start again with each document",
    )  # fmt: skip


def _same_anywhere(claim: Claim, pack: Pack) -> bool:
    """Whether a layer's pattern is the same in the second document as in one by itself."""
    pattern, first = claim.pattern, pack.first
    if pattern is None or pattern.natural_length is not None:
        return False
    tokens = pack.subject.tokens
    return pattern.mask(tokens)[first:, first:].equal(pattern.mask(tokens - first))
