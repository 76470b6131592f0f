"""A trainable Transformer of a design: encoder or causal decoder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self, cast

import torch
from torch import nn
from torch.nn.functional import embedding, layer_norm, rms_norm
from torch.utils.checkpoint import checkpoint

from anyseq.base import at_least_one, finite, one_of
from anyseq.design import Design
from anyseq.errors import InvalidArgument
from anyseq.nn.attention import Attention
from anyseq.nn.attention_position import Gain
from anyseq.nn.block import NORMS, Block, BlockNorm
from anyseq.nn.cache import Cache
from anyseq.nn.documents import restarted
from anyseq.nn.feedforward import FeedForward
from anyseq.nn.generate import generate, stream
from anyseq.nn.head import LanguageHead
from anyseq.nn.input_position import INIT_STD, input_position
from anyseq.nn.mixers import Mixer
from anyseq.nn.norms import Norms
from anyseq.nn.of_layer import MixerMaker
from anyseq.nn.old_mixers import OldMixers, from_old_mixers
from anyseq.nn.sampling import Sampling
from anyseq.nn.saved import load_transformer, redesigned, save_transformer, settings_of
from anyseq.nn.shared import SharedBias, insides
from anyseq.nn.told import check_told
from anyseq.ops import documents_of


class Transformer(nn.Module):
    """`depth` blocks of a design, for sequences of up to `design.tokens` tokens.

    Without `vocab` it maps (batch, tokens, dim) to (batch, tokens, dim); the head of a design that
    has one is a learned (dim, dim) map. With `vocab` it maps ids (batch, tokens) to logits (batch,
    tokens, vocab), or with head="none" to features. All outputs are given, whichever of them
    `design.readout` says count.

    Block i is made of layer i mod p of the design's p layers: its pattern, what its position does
    inside attention, its map, sinks, mixer and feed-forward half. There is no norm after the last
    block but `design.final_norm`.

    norm: where the norms of blocks are, "pre", "post", "sandwich" or "none", the papers' block (see
        `Block`); the design's `block_norm` unless given, or "pre" if that says nothing.
    norms: their kind, "layernorm" or "rmsnorm", or `Norms` with more about it; also those of a
        learned final norm, but for their kind, and of `qk_norm`.
    activation, feedforward_bias: of the feed-forward halves, see `FeedForward`.
    hidden: the size of the hidden layer, 4 dim unless given.
    heads, head_dim: of attention and of linear attention; kv_heads, biases, qk_norm, softcap, gate,
        scale and backend: of attention, see `Attention`.
    causal: token i depends on tokens 0, ..., i at most, whatever the patterns; a convolution ends
        at the token.
    head: what follows the blocks of a model of ids: "tied", logits by the embedding; "untied", by a
        matrix of its own; "masked-lm" or "masked-lm-untied", as BERT has it, see `LanguageHead`;
        "none", features.
    embedding_scale: the factor of the embeddings of ids.
    input_norm: a norm after embedding and position.
    first_norm: whether the mixer of the first block has its norm before it; ModernBERT has just the
        one at the input.
    shared_bias: all layers that learn biases of offsets share one table of them, as T5's do and
        those of URPE's published experiments, instead of one each; for RelativeBias, T5Bias
        and GridBias, under URPE or not.
    dropout: on attention weights and on what each half of a block adds.
    activation_checkpointing: in training, blocks are computed again in the backward pass, and
        memory holds their inputs only.
    mixers: deprecated; the layers of the design say it.
    """

    def __init__(
        self,
        design: Design,
        dim: int,
        depth: int,
        heads: int = 1,
        *,
        mixers: OldMixers | None = None,
        norm: BlockNorm | None = None,
        norms: str | Norms = "layernorm",
        activation: str = "relu",
        vocab: int | None = None,
        hidden: int | None = None,
        feedforward_bias: bool = True,
        head_dim: int | None = None,
        kv_heads: int | None = None,
        biases: str = "q",
        qk_norm: str | None = None,
        softcap: float | None = None,
        gate: bool = False,
        scale: float | None = None,
        causal: bool = False,
        head: str = "tied",
        embedding_scale: float = 1.0,
        input_norm: bool = False,
        first_norm: bool = True,
        shared_bias: bool = False,
        dropout: float = 0.0,
        activation_checkpointing: bool = False,
        backend: str = "auto",
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        settings = settings_of(type(self), locals())
        at_least_one("dim", dim)
        if at_least_one("depth", depth) != (design.depth or depth):
            raise InvalidArgument(
                f"depth={depth}, but the design has depth={design.depth}; expected equal ones"
            )
        if design.domain == "ids" and vocab is None:
            raise InvalidArgument(
                "vocab=None, but the design has domain='ids'; expected the number of ids"
            )
        norm, norms = _agreed(norm, design), Norms.of(norms)
        given: list[Mixer | None] = [None] * depth
        if mixers is not None:
            design, given = from_old_mixers(design, mixers, depth=depth, dim=dim, causal=causal)
        self.settings = settings | {"design": design}
        self.design, self.dim, self.causal, self.vocab = design, dim, causal, vocab
        self.norm = norm
        self.activation_checkpointing = activation_checkpointing
        self.embedding_scale = finite("embedding_scale", embedding_scale)
        positions = design.size
        hidden = 4 * dim if hidden is None else at_least_one("hidden", hidden)

        def learned(*shape: int) -> nn.Parameter:
            empty = torch.empty(*shape, dtype=dtype, device=device)
            return nn.Parameter(nn.init.normal_(empty, std=INIT_STD))

        self.embedding = None if vocab is None else learned(at_least_one("vocab", vocab), dim)
        self.bos = learned(dim) if design.bos else None
        self.position = input_position(
            design.input_position, positions, dim, dtype=dtype, device=device
        )
        self.input_norm = norms.make(dim, dtype, device) if input_norm else None

        cycle = design.layer_cycle
        layers = [cycle[layer % len(cycle)] for layer in range(depth)]
        self._inside = insides([layer.position for layer in layers], shared_bias)
        gained = any(inside.gain for inside in self._inside)
        self.gain = Gain(heads, positions, dtype=dtype, device=device) if gained else None
        biases_of = next((inside.bias for inside in self._inside if inside.bias is not None), None)
        self.bias = None
        if biases_of is not None:
            self.bias = SharedBias(biases_of, heads, positions, dtype=dtype, device=device)

        of_heads = None if qk_norm is None else norms.as_kind(qk_norm)
        attention = {
            "kv_heads": kv_heads, "biases": biases, "qk_norm": of_heads, "softcap": softcap,
            "gate": gate, "scale": scale, "dropout": dropout, "backend": backend,
        }  # fmt: skip
        mixer_of = MixerMaker(dim, heads, head_dim, positions, causal, attention, dtype, device)
        feedforward = partial(
            FeedForward, dim, hidden, activation=activation, bias=feedforward_bias,
            dtype=dtype, device=device,
        )  # fmt: skip
        self.blocks = nn.ModuleList(
            Block(
                mixer_of(layer, inside.own) if module is None else module,
                feedforward() if layer.feedforward else None,
                norm=norm,
                norms=norms,
                dropout=dropout,
            )
            for layer, inside, module in zip(layers, self._inside, given, strict=True)
        )
        if not first_norm:
            cast(Block, self.blocks[0]).mixer_norm = nn.Identity()
        self.final_norm = _learned_norm(design.final_norm, norms, dim, dtype, device)
        self.head: nn.Module | None = None
        if vocab is not None:
            self.head = LanguageHead.of(
                head, dim, vocab, norms=norms, activation=activation, dtype=dtype, device=device
            )
        elif design.head:
            self.head = nn.Linear(dim, dim, dtype=dtype, device=device)
        self.made = {name: tuple(one.shape) for name, one in self.state_dict().items()}

    def forward(
        self,
        x: torch.Tensor,
        *,
        key_mask: torch.Tensor | None = None,
        document_ids: torch.Tensor | None = None,
        cu_seqlens: torch.Tensor | None = None,
        positions: torch.Tensor | None = None,
        cache: Cache | None = None,
    ) -> torch.Tensor:
        """Ids (batch, tokens) to logits, or features (batch, tokens, dim) to features.

        key_mask: (batch, tokens) bool, False for padding, which no token attends to. Positions
            count from the first column all the same; for padding on the left, give document_ids
            instead.
        document_ids: (batch, tokens) whole numbers, equal for the tokens of one document, which
            stand side by side: no token attends to another document, and positions begin anew in
            each.
        cu_seqlens: the same for all rows, as the places where documents begin, and the number of
            tokens at the end.
        positions: (batch, tokens) of the tokens, where they are not 0, 1, ...; after padding on the
            left, for example.
        cache: what came before x; x is added to it. For generation. The other arguments are about x
            only.
        """
        return self.read_out(
            self.states(
                x,
                key_mask=key_mask,
                document_ids=document_ids,
                cu_seqlens=cu_seqlens,
                positions=positions,
                cache=cache,
            )
        )

    def states(
        self,
        x: torch.Tensor,
        *,
        key_mask: torch.Tensor | None = None,
        document_ids: torch.Tensor | None = None,
        cu_seqlens: torch.Tensor | None = None,
        positions: torch.Tensor | None = None,
        cache: Cache | None = None,
    ) -> torch.Tensor:
        """What the last block gives, (batch, tokens, dim); arguments are those of `forward`."""
        x = self._features(x)
        first = 0 if cache is None else cache.length
        if cu_seqlens is not None:
            document_ids = documents_of(cu_seqlens, *x.shape[:2])
        check_told(self, x, key_mask, document_ids, positions, cache)
        begins = self.bos is not None and first == 0
        if self.bos is not None and begins:
            x = torch.cat([self.bos.expand(len(x), 1, -1), x], dim=1)
            if key_mask is not None:
                key_mask = torch.cat([key_mask.new_ones(len(x), 1), key_mask], dim=1)
        if document_ids is not None and positions is None:
            positions = restarted(document_ids)
        if self.position is not None:
            x = self.position(x, first, positions)
        if self.input_norm is not None:
            x = self.input_norm(x)
        if cache is not None:
            cache.tell(key_mask, positions)
            key_mask, positions = cache.key_mask, cache.positions
        gain = None if self.gain is None else self.gain()
        bias = None if self.bias is None else self.bias(x, first)
        for layer, block in enumerate(self.blocks):
            told: dict[str, Any] = {"key_mask": key_mask}
            inside = self._inside[layer]
            if isinstance(block.mixer, Attention):
                told |= {"document_ids": document_ids, "positions": positions}
                told |= {"gain": gain} if inside.gain else {}
                told |= {"bias": bias} if inside.bias is not None else {}
            told["cache"] = None if cache is None else cache.layers[layer]
            if self.activation_checkpointing and self.training and torch.is_grad_enabled():
                x = cast(torch.Tensor, checkpoint(block, x, use_reentrant=False, **told))
            else:
                x = block(x, **told)
        return x[:, 1:] if begins else x

    def generate(
        self,
        prompt: torch.Tensor,
        tokens: int,
        *,
        key_mask: torch.Tensor | None = None,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        stop_ids: Sequence[int] = (),
        beams: int = 1,
        generator: torch.Generator | None = None,
        cache: bool = True,
    ) -> torch.Tensor:
        """The prompt (batch, n) of ids with up to `tokens` further ids: (batch, n + tokens), or
        less if all rows end sooner.

        key_mask: (batch, n) bool, False for padding, where prompts have different lengths. In the
            result padding is on the left, so that what is new follows the prompt in each row.
        temperature: 0 takes the likeliest id; otherwise ids are drawn from softmax(logits /
            temperature), by `generator` or else by torch's own random numbers.
        top_k, top_p, min_p: draw only among the k likeliest ids; among the likeliest ones that
            together have probability p; among those with at least min_p times the probability of
            the likeliest. With several, among those that all of them leave.
        stop_ids: a row ends with one of these, and is filled up with the same id.
        beams: at temperature 0, keep so many sequences a row, and give the one whose new ids are
            likeliest together.
        cache: compute each token once. The ids are the same without, only slower.
        """
        sampling = Sampling(temperature, top_k, top_p, min_p, generator)
        return generate(self, prompt, tokens, key_mask, sampling, stop_ids, beams, cache)

    def stream(
        self,
        prompt: torch.Tensor,
        tokens: int,
        *,
        key_mask: torch.Tensor | None = None,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        stop_ids: Sequence[int] = (),
        generator: torch.Generator | None = None,
        cache: bool = True,
    ) -> Iterator[torch.Tensor]:
        """The new ids of `generate` as they come, (batch,) each. The model is in evaluation mode
        only while an id is computed."""
        sampling = Sampling(temperature, top_k, top_p, min_p, generator)
        return stream(self, prompt, tokens, key_mask, sampling, stop_ids, cache)

    @property
    def no_decay(self) -> frozenset[str]:
        """Names of parameters that weight decay should leave out: vectors (biases, norms, sinks)
        and tables of positions. A gain starts at 1, and decay would draw it to 0."""
        tables = ("gain.", "bias.", "position.")
        return frozenset(
            name
            for name, parameter in self.named_parameters()
            if parameter.ndim < 2 or name.startswith(tables) or ".mixer.position." in name
        )

    def save(self, folder: str | Path) -> None:
        """Arguments and weights, as model.json and model.safetensors; `Transformer.load` reads
        them."""
        save_transformer(self, folder)

    @classmethod
    def load(cls, folder: str | Path, *, device: torch.device | str | None = None) -> Self:
        """What `save` wrote. Nothing of it is executed."""
        return load_transformer(cls, folder, device)

    def with_design(self, design: Design) -> Self:
        """A Transformer of another design with these weights, copied; what only the other design
        has, such as a gain, starts as in a new one."""
        return redesigned(self, design)

    def read_out(self, x: torch.Tensor) -> torch.Tensor:
        """The outputs, from what the last block gives: final norm and head."""
        if self.design.final_norm == "layernorm":
            x = layer_norm(x, (self.dim,))
        elif self.design.final_norm == "rmsnorm":
            x = rms_norm(x, (self.dim,))
        elif self.final_norm is not None:
            x = self.final_norm(x)
        if isinstance(self.head, LanguageHead):
            logits: torch.Tensor = self.head(x, self.embedding)
            return logits
        return x if self.head is None else self.head(x)

    def _features(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, dim), from ids or checked."""
        if self.embedding is not None:
            if x.ndim != 2 or x.dtype.is_floating_point or x.dtype == torch.bool:
                raise InvalidArgument(
                    f"x of dtype {x.dtype} and shape {tuple(x.shape)}: expected ids, whole numbers "
                    "of shape (batch, tokens)"
                )
            found = embedding(x, self.embedding)
            return found if self.embedding_scale == 1.0 else found * self.embedding_scale
        if x.ndim != 3 or x.shape[2] != self.dim:
            raise InvalidArgument(
                f"x of shape {tuple(x.shape)}: expected (batch, tokens, dim) with dim={self.dim}"
            )
        return x


def _agreed(norm: BlockNorm | None, design: Design) -> BlockNorm:
    """The norms of the blocks, as the design and the argument give it."""
    said = design.block_norm
    if norm is None:
        return "pre" if said is None else cast(BlockNorm, said)
    one_of("norm", norm, NORMS)
    if said not in (None, norm):
        raise InvalidArgument(
            f"norm={norm!r}, but the design has block_norm={said!r}; expected equal ones, or leave "
            "norm out"
        )
    return norm


def _learned_norm(
    name: str | None,
    norms: Norms,
    dim: int,
    dtype: torch.dtype | None,
    device: torch.device | str | None,
) -> nn.Module | None:
    if name is None or not name.startswith("learned-"):
        return None
    return norms.as_kind(name.removeprefix("learned-")).make(dim, dtype, device)
