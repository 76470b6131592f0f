"""Padding on either side does not affect the other tokens: neither its content nor its amount."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from anyseq.models.faults.entrance import entrance
from anyseq.models.faults.fault import Fault
from anyseq.models.faults.influence import influence, worst
from anyseq.models.faults.read_padding import read_padding
from anyseq.models.faults.rule import Asked, NotChecked, Note
from anyseq.models.faults.snippets import call, sequence, two_calls
from anyseq.models.faults.subject import Subject
from anyseq.patterns import Pattern

_LARGE = 1e4
_SIDES = ("right", "left")


def padding(asked: Asked) -> Iterator[Fault | Note]:
    """Real tokens beside padding, in a batch with a row that has none."""
    subject = asked.subject
    if subject.name_of("real") is None:
        raise NotChecked("its forward takes no mask that says which tokens are real")
    for side in _SIDES:
        one = _Padded(subject, side)
        given = subject.as_given()
        if given is not None and not one.finite():
            # the lowest float64 is -inf to a softmax that is taken in float32
            one = _Padded(given, side)
        found = one.content() or one.amount(asked) or one.large()
        if found is not None:
            yield found
    crossed = read_padding(subject)
    if crossed is not None:
        yield crossed


def first_position(subject: Subject, x: torch.Tensor) -> int:
    """The number of the first position unless positions are given: 0, or the one after that of
    padding, as in RoBERTa."""
    ids = (getattr(one, "padding_idx", None) for one in subject.module.modules())
    after = {one + 1 for one in ids if isinstance(one, int)}
    plain, places = subject.run(x), torch.arange(x.shape[1])[None]
    for first in sorted(after - {0}):
        try:
            out = subject.run(x, positions=places + first)
        except Exception:  # beyond its table
            continue
        zero = subject.differ(plain, subject.run(x, positions=places))
        if (zero > 0).any() and not (subject.differ(plain, out) > 0).any():
            return first
    return 0


class _Padded:
    """A sequence of real tokens beside padding on one side."""

    def __init__(self, subject: Subject, side: str) -> None:
        self.subject, self.side = subject, side
        tokens = subject.tokens
        count = max(1, tokens // 4)
        place = torch.arange(tokens)
        real = place < tokens - count if side == "right" else place >= count
        self.real = torch.stack([real, torch.ones_like(real)])
        self.x = subject.draw(2, seed=3)
        self.first = first_position(subject, self.x[:1]) if self.takes_positions else 0
        self.positions = (self.real.long().cumsum(1) - 1).clamp(min=0) + self.first

    def run(self, x: torch.Tensor, positions: bool = True) -> torch.Tensor:
        """The outputs of padded rows for their real tokens, beside one without padding; 0 for what
        is padding."""
        which = torch.tensor([0] * len(x) + [1])
        told: dict[str, Any] = {"real": self.real[which]}
        if positions and self.takes_positions:
            told["positions"] = self.positions[which]
        out = self.subject.run(torch.cat([x, self.x[1:]]), **told)[:-1]
        return torch.where(self.real[:1, :, None], out, 0.0)

    @property
    def _place(self) -> str:
        count = int((~self.real[0]).sum())
        return f":{count}" if self.side == "left" else f"-{count}:"

    @property
    def takes_positions(self) -> bool:
        return self.subject.name_of("positions") is not None

    def finite(self) -> bool:
        """Whether the outputs of real tokens are numbers."""
        return bool(self.run(self.x[:1]).isfinite().all())

    def content(self) -> Fault | None:
        """A fault where a real token's output changes with what stands in a padded place."""
        plain = self.run(self.x[:1])
        if not plain.isfinite().all():
            token = int((~plain.isfinite()).any(2)[0].int().argmax())
            return self._fault(
                f"beside padding on the {self.side} output {token}, of a real token, is not finite",
                (token, int((~self.real[0]).int().argmax())), float("inf"),
                "NaN if padding spreads", "a row with nothing to attend to has to give 0, not NaN",
            )  # fmt: skip
        effect = influence(self.subject, self.x[:1], self.run)
        effect = effect * (self.real[0][:, None] & ~self.real[0])
        if not (effect > 0).any():
            return None
        (i, j), size = worst(effect)
        found = self._fault(
            f"output {i}, of a real token, changes with what stands at token {j}, which is padding "
            f"on the {self.side}", (i, j), size, f"0 if output {i} does not depend on the padding",
            "pass the caller's padding mask to the attention of every layer",
        )  # fmt: skip
        told: dict[str, Any] = {"positions": self.positions} if self.takes_positions else {}
        part = entrance(self.subject, self.x, (i, j), real=self.real, **told)
        return replace(found, module=part)

    def amount(self, asked: Asked) -> Fault | Note | None:
        """A fault, or advice, where real tokens give something else without padding."""
        count = int(self.real[0].sum())
        for told in (True, False):
            effect = self._apart(told)
            if not (effect > 0).any():
                continue
            advice = self._advice(asked, told)
            if advice is not None:
                return advice
            token = int(effect.argmax())
            place = int(self.real[0].nonzero()[token])
            return self._fault(
                f"output {place} differs from that of the same {count} real tokens without padding "
                f"on the {self.side}", (place, int((~self.real[0]).int().argmax())),
                float(effect.max()), "0 if padding changes nothing",
                "count positions from the first real token, and pass on the padding mask",
                alone=True, told=told,
            )  # fmt: skip
        return None

    def _apart(self, told: bool) -> torch.Tensor:
        """(real tokens,) how much their outputs differ from those without padding."""
        alone = self.subject.run(self.x[:1][:, self.real[0]])
        padded = self.run(self.x[:1], told)[:, self.real[0]]
        return self.subject.apart(alone, padded, self.x[:1])[0]

    def _advice(self, asked: Asked, told: bool) -> Note | None:
        """What to do where padding changes outputs in the whole family: because padding counts in
        its positions, or its patterns change with the length."""
        counts = self.side == "left" and not (told and self.takes_positions)
        longer = any(self._is_other(one.pattern) for one in asked.claims.layers)
        healthy = asked.healthy
        if healthy is not None and (counts or longer):
            same = bool((_Padded(healthy, self.side)._apart(told) > 0).any())
            counts, longer = counts and same, longer and same
        elif counts:
            counts = asked.claims.shifts is not False
        if counts:
            how = " unless position_ids say where its tokens are" * self.takes_positions
            return Note(
                f"padding on the left moves the positions of the model{how}; "
                + ("pass position_ids, or pad" if self.takes_positions else "pad")
                + " on the right"
            )
        if longer:
            return Note(
                "which tokens attend to which depends on the length of the sequence, padding "
                "included: outputs change with the amount of padding"
            )
        return None

    def _is_other(self, pattern: Pattern | None) -> bool:
        """Whether a pattern connects real tokens differently with padding than without."""
        if pattern is None or pattern.natural_length is not None:
            return False
        real = self.real[0]
        return not pattern.mask(len(real))[real][:, real].equal(pattern.mask(int(real.sum())))

    def large(self) -> Fault | Note | None:
        """Vectors in padded places may be large; NaN spreads through any weight of 0, which is
        reported as advice."""
        subject = self.subject
        found = self._with(_LARGE)
        if found is None:
            return None
        plain, out = found
        effect = subject.differ(plain, out)[0]
        if (effect > 0).any():
            token = int(effect.argmax())
            return self._fault(
                f"output {token}, of a real token, changes with large numbers in padded places on "
                f"the {self.side}", (token, int((~self.real[0]).int().argmax())),
                float(effect.max()), "0 if output does not depend on the padding",
                "scores of padding have to be -inf, or as low as the type allows",
            )  # fmt: skip
        found = self._with(float("nan"))
        if self.side == "left" and found is not None and not found[1].isfinite().all():
            return Note(
                "NaN in a padded place spreads to real tokens, since 0 x NaN is NaN: fill padded "
                "places with numbers"
            )
        return None

    def _with(self, value: float) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Outputs of real tokens, and the same with such vectors in padded places; None if the
        model reads no vectors."""
        subject = self.subject
        padded = ~self.real[:1, :, None]
        if subject.features is not None:
            x = self.x[:1]
            return self.run(x), self.run(torch.where(padded, value * x, x))
        if "inputs_embeds" not in subject.takes or subject.part == "decoder":
            return None
        embed = getattr(subject.module, "get_input_embeddings", lambda: None)()
        if embed is None:
            return None
        told: dict[str, Any] = {"real": self.real}
        if self.takes_positions:
            told["positions"] = self.positions
        with torch.no_grad():
            vectors = embed(self.x)
            if not isinstance(vectors, torch.Tensor):
                return None
            mask = torch.cat([padded, torch.zeros_like(padded)])
            other = torch.where(mask, value * vectors, vectors)
            try:
                outs = [subject.run(self.x, inputs_embeds=one, **told) for one in (vectors, other)]
            except Exception:  # ids are needed beside vectors
                return None
        plain, out = (torch.where(self.real[:1, :, None], one[:1], 0.0) for one in outs)
        return plain, out

    def _fault(
        self, says: str, pair: tuple[int, int], size: float, shows: str, repair: str,
        alone: bool = False, told: bool = True,
    ) -> Fault:  # fmt: skip
        subject = self.subject
        lines = [
            sequence(subject, self.x),
            "real = torch.ones(x.shape[:2]).bool()",
            f"real[0, {self._place}] = False",
            "changed = x.clone()",
            "changed[~real] = x.flip(0)[~real]",
        ]
        options: dict[str, Any] = {"real": "real" if not subject.hugging_face else "real.long()"}
        name = subject.name_of("real") or ""
        if name.endswith("key_padding_mask"):
            options["real"] = "~real"
        if told and self.takes_positions:
            start = f" + {self.first}" * (self.first > 0)
            lines.append(f"positions = (real.long().cumsum(1) - 1).clamp(min=0){start}")
            options["positions"] = "positions"
        one = call(subject, **options) + "[0][real[0]]"
        other = call(subject, "changed", **options) + "[0][real[0]]"
        if alone:
            other = call(subject, "x[:1, real[0]]") + "[0]"
        return Fault("padding", says, (), "", pair, size,
                     two_calls("\n".join(lines), one, other, "", shows), repair)  # fmt: skip
