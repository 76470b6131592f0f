"""A network without norms, written into a wider one with norms: beside what a token holds there is
a large constant, so that a norm divides every token by nearly the same number."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch.nn.functional import pad

import anyseq as aq


@dataclass(frozen=True)
class Written:
    """The wider network, on sequences (B, n, dim).

    where: "pre", "post" or "sandwich". kind: "rmsnorm" or "layernorm". constant: its size A.
    """

    plain: aq.nn.Transformer
    where: str
    kind: str
    constant: float
    final_norm: str | None = None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            out: torch.Tensor = self.network()(x @ self.inside.T + self.constant * self.beside)
        return out[..., : self.plain.dim]

    @property
    def inside(self) -> torch.Tensor:
        """(width, dim): features x become (x, 0), or (x, -x, 0, 0), whose mean is 0."""
        one = torch.eye(self.plain.dim, dtype=torch.float64)
        if self.kind == "rmsnorm":
            return pad(one, (0, 0, 0, 1))
        return pad(torch.cat([one, -one]), (0, 0, 0, 2))

    @property
    def beside(self) -> torch.Tensor:
        """(width,): the constant goes into one more feature, or a pair of opposite ones."""
        ends = [1.0] if self.kind == "rmsnorm" else [1.0, -1.0]
        return pad(torch.tensor(ends, dtype=torch.float64), (len(self.inside) - len(ends), 0))

    @property
    def undone(self) -> float:
        """What a norm divides by, if the constant is all there is."""
        return float(self.constant * self.beside.norm() / len(self.beside) ** 0.5)

    def network(self) -> aq.nn.Transformer:
        """The weights, and one more head that writes the constant where a norm follows a half."""
        plain, width = self.plain, len(self.beside)
        spare = int(self.where == "sandwich")
        heads: int = plain.settings["heads"]
        design = replace(plain.design, block_norm=self.where, head=True, final_norm=self.final_norm)
        wide = aq.nn.Transformer(
            design,
            width,
            len(plain.blocks),
            heads + spare,
            norms=self.kind,
            hidden=plain.settings["hidden"],
            head_dim=plain.dim // heads,
            dtype=torch.float64,
        )
        own, new = dict(plain.named_parameters()), dict(wide.named_parameters())
        with torch.no_grad():
            for name, weight in new.items():
                weight.zero_()
                if name in own:
                    there = self._widened(name, own[name])
                    weight[tuple(map(slice, there.shape))] = there
                elif name.endswith("norm.weight"):
                    weight.copy_(self._scale("out_norm" in name))
                elif name == "head.weight":
                    read = self.undone if self.final_norm else 1.0
                    weight[: plain.dim, : plain.dim] = read * torch.eye(plain.dim)
            for block in (f"blocks.{i}." for i in range(len(plain.blocks) * spare)):
                self._steady(block + "mixer.", new)
                new[block + "feedforward.down_proj.bias"].add_(self.constant * self.beside)
        return wide.eval()

    def _steady(self, mixer: str, weights: dict[str, torch.nn.Parameter]) -> None:
        """The last feature of a mixer is the constant: a head that attends to all alike, a state
        that forgets at once, a window that looks at the token itself."""
        weights[mixer + "o_proj.weight"][:, -1] = self.beside
        if mixer + "v_proj.weight" in weights:
            weights[mixer + "v_proj.weight"][-1, -1] = self.beside[-1]
        else:
            tap = weights[mixer + "token_weight"]
            tap[-1, tap.shape[1] // 2] = self.beside[-1]
        if mixer + "gate_proj.bias" in weights:
            weights[mixer + "gate_proj.bias"][-1] = -40.0

    def _widened(self, name: str, weight: torch.Tensor) -> torch.Tensor:
        """A weight that reads or writes features, for as many as there are now."""
        if name == "bos":
            return self.inside @ weight + self.constant * self.beside
        if name.endswith(("o_proj.weight", "down_proj.weight", "down_proj.bias")):
            return self.inside @ weight
        if name.endswith(tuple(f"{one}_proj.weight" for one in ("q", "k", "v", "gate", "up"))):
            return weight @ pad(torch.eye(self.plain.dim, dtype=torch.float64),
                                (0, len(self.beside) - self.plain.dim))  # fmt: skip
        return weight  # biases of queries and hidden units, tables of positions

    def _scale(self, after_a_half: bool) -> torch.Tensor:
        """(width,) the scale of a norm; after a half the constant has done its duty there."""
        if after_a_half:
            return self.undone * (self.beside == 0)
        return torch.full_like(self.beside, self.undone)
