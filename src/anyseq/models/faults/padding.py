"""Padding on either side changes nothing for the other tokens: neither what stands there nor how
much of it there is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from anyseq.models.faults.fault import Fault
from anyseq.models.faults.influence import influence, worst
from anyseq.models.faults.rule import Asked, NotChecked, Note
from anyseq.models.faults.snippets import call, sequence, two_calls
from anyseq.models.faults.subject import Subject

_LARGE = 1e4
_SIDES = ("right", "left")


def padding(asked: Asked) -> Iterator[Fault | Note]:
    """Real tokens beside padding, in a batch with a row that has none."""
    subject = asked.subject
    if subject.name_of("real") is None:
        raise NotChecked("its forward takes no mask that says which tokens are real")
    for side in _SIDES:
        one = _Padded(subject, side)
        found = one.content() or one.amount(asked) or one.large()
        if found is not None:
            yield found


class _Padded:
    """A sequence of real tokens beside padding on one side."""

    def __init__(self, subject: Subject, side: str) -> None:
        self.subject, self.side = subject, side
        tokens = subject.tokens
        count = max(1, tokens // 4)
        place = torch.arange(tokens)
        real = place < tokens - count if side == "right" else place >= count
        self.real = torch.stack([real, torch.ones_like(real)])
        self.positions = (self.real.long().cumsum(1) - 1).clamp(min=0)
        self.x = subject.draw(2, seed=3)

    def run(self, x: torch.Tensor, positions: bool = True) -> torch.Tensor:
        """The outputs of the padded row for its real tokens; others are 0."""
        told: dict[str, Any] = (
            {"positions": self.positions} if positions and self.takes_positions else {}
        )
        rows = [
            self.subject.run(torch.stack([row, self.x[1]]), real=self.real, **told)[:1] for row in x
        ]
        out = torch.cat(rows)
        return torch.where(self.real[:1, :, None], out, 0.0)

    @property
    def takes_positions(self) -> bool:
        return self.subject.name_of("positions") is not None

    def content(self) -> Fault | None:
        """A fault where a real token's output changes with what stands in a padded place."""
        plain = self.run(self.x[:1])
        if not plain.isfinite().all():
            token = int((~plain.isfinite()).any(2)[0].int().argmax())
            return self._fault(
                f"beside padding on the {self.side} output {token}, of a real token, is not finite",
                (token, int((~self.real[0]).int().argmax())), float("inf"),
                "NaN if padding spreads", "a row that may attend to nothing has to give 0, not NaN",
            )  # fmt: skip
        effect = influence(self.subject, self.x[:1], self.run)
        effect = effect * (self.real[0][:, None] & ~self.real[0])
        if not (effect > 0).any():
            return None
        (i, j), size = worst(effect)
        return self._fault(
            f"output {i}, of a real token, changes with what stands at token {j}, which is padding "
            f"on the {self.side}", (i, j), size, f"0 if output {i} does not see the padding",
            "hand the caller's padding mask to the attention of every layer",
        )  # fmt: skip

    def amount(self, asked: Asked) -> Fault | Note | None:
        """A fault, or advice, where real tokens give something else without padding."""
        count = int(self.real[0].sum())
        alone = self.subject.run(self.x[:1][:, self.real[0]])
        for told in (True, False):
            out = self.run(self.x[:1], told)[:, self.real[0]]
            effect = self.subject.differ(alone, out)[0]
            if not (effect > 0).any():
                continue
            token = int(effect.argmax())
            place = int(self.real[0].nonzero()[token])
            if not (told and self.takes_positions) and self._shifts(asked):
                how = " unless position_ids say where its tokens are" * self.takes_positions
                return Note(
                    f"padding on the left moves the positions of the model{how}; "
                    + ("pass position_ids, or pad" if self.takes_positions else "pad")
                    + " on the right"
                )
            return self._fault(
                f"output {place} differs from that of the same {count} real tokens without padding "
                f"on the {self.side}", (place, int((~self.real[0]).int().argmax())),
                float(effect.max()), "0 if padding changes nothing",
                "count positions from the first real token, and hand on the padding mask",
                alone=True, told=told,
            )  # fmt: skip
            return None
        return None

    def _shifts(self, asked: Asked) -> bool:
        """Whether it is the way of the family that positions count padding too."""
        if self.side == "right":
            return False
        if asked.healthy is None:
            return asked.claims.shifts is not False
        other = _Padded(asked.healthy, self.side)
        alone = asked.healthy.run(other.x[:1][:, other.real[0]])
        out = other.run(other.x[:1], False)[:, other.real[0]]
        return bool((asked.healthy.differ(alone, out) > 0).any())

    def large(self) -> Fault | Note | None:
        """Vectors in padded places may be large; NaN spreads through any weight of 0, which is
        worth knowing."""
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
                float(effect.max()), "0 if output does not see the padding",
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
            f"real = torch.tensor({self.real.tolist()})",
            "changed = x.clone()",
            "changed[~real] = x.flip(0)[~real]",
        ]
        options: dict[str, Any] = {"real": "real" if not subject.hugging_face else "real.long()"}
        name = subject.name_of("real") or ""
        if name.endswith("key_padding_mask"):
            options["real"] = "~real"
        if told and self.takes_positions:
            lines.append("positions = (real.long().cumsum(1) - 1).clamp(min=0)")
            options["positions"] = "positions"
        one = call(subject, **options) + "[0][real[0]]"
        other = call(subject, "changed", **options) + "[0][real[0]]"
        if alone:
            other = call(subject, "x[:1, real[0]]") + "[0]"
        return Fault("padding", says, (), "", pair, size,
                     two_calls("\n".join(lines), one, other, "", shows), repair)  # fmt: skip
