"""torch's MultiheadAttention, with patterns."""

from __future__ import annotations

from typing import Self

import torch
from torch import nn
from torch.nn.functional import linear

from anyseq.errors import InvalidArgument
from anyseq.ops import Call, attend, checked, prepare, weights_and_lse
from anyseq.patterns import PatternLike


class MultiheadAttention(nn.MultiheadAttention):
    """`torch.nn.MultiheadAttention` whose tokens attend along a pattern as well.

    The arguments, the parameters and their names are torch's, and so is the meaning of masks: True
    *hides* a key from `key_padding_mask`, or a pair from `attn_mask`. pattern: as in
    `anyseq.attention`; masks hide more. `like(module)` takes over the weights of torch's.

    In `nn.TransformerEncoderLayer` (`layer.self_attn = MultiheadAttention.like(layer.self_attn,
    pattern)`) it is called in evaluation, too: torch's fast path, which reads the weights and does
    the attention itself, is turned off for that layer.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        pattern: PatternLike = None,
    ) -> None:
        for name, asked in (("add_bias_kv", add_bias_kv), ("add_zero_attn", add_zero_attn)):
            if asked:
                raise InvalidArgument(
                    f"{name}=True: a key beside the sequence, which no pattern covers; use "
                    "torch.nn.MultiheadAttention, or anyseq.nn.Attention(sinks=True)"
                )
        super().__init__(
            embed_dim, num_heads, dropout, bias, False, False, kdim, vdim, batch_first, device,
            dtype,
        )  # fmt: skip
        # torch's encoder layer asks for this before it takes its quick path; nothing else does once
        # the parameters are there
        self._qkv_same_embed_dim = False
        prepare(pattern, "auto")
        self.pattern = pattern

    @classmethod
    def like(cls, module: nn.MultiheadAttention, pattern: PatternLike = None) -> Self:
        """One with the same sizes, weights, device, dtype and mode; weights are copied."""
        if not isinstance(module, nn.MultiheadAttention):
            raise InvalidArgument(
                f"module: {type(module).__name__}, expected a torch.nn.MultiheadAttention"
            )
        own = module.out_proj.weight
        made = cls(
            module.embed_dim, module.num_heads, module.dropout, module.in_proj_bias is not None,
            module.bias_k is not None, module.add_zero_attn, module.kdim, module.vdim,
            module.batch_first, own.device, own.dtype, pattern=pattern,
        )  # fmt: skip
        made.load_state_dict(module.state_dict())
        for name, parameter in module.named_parameters():
            made.get_parameter(name).requires_grad_(parameter.requires_grad)
        return made.train(module.training)

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        key_padding_mask: torch.Tensor | None = None,
        need_weights: bool = True,
        attn_mask: torch.Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """query (N, E), key (M, kdim), value (M, vdim), with a batch axis second, or first if
        `batch_first`, or without one -> out like query, and the weights (batch, N, M), or (batch,
        heads, N, M) if they are not averaged.

        need_weights: keeps all N x M weights, by the formula. False is the quick way, and costs
            what the pattern costs.
        key_padding_mask: (batch, M); attn_mask: (N, M) or (batch·heads, N, M). Bool, True = hidden,
            or numbers added to the scores.
        is_causal: key j <= query i. An attn_mask beside it is assumed to be this mask, as in
            torch, and is not read.
        """
        if any(side.is_nested for side in (query, key, value)):
            raise InvalidArgument(
                "query: a nested tensor, expected a padded one; set use_nested_tensor = False on "
                "the nn.TransformerEncoder around this layer"
            )
        batched = query.ndim == 3
        together = query is key and key is value
        if not batched:
            query, key, value = (side[None] for side in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask[None]
        elif not self.batch_first:
            query, key, value = (side.transpose(0, 1) for side in (query, key, value))
        q, k, v = (self._heads(side) for side in self._projected(query, key, value, together))
        call = self._call(q, k, v, key_padding_mask, None if is_causal else attn_mask, is_causal)
        weights = None
        if need_weights:
            weights, _ = weights_and_lse(call)
            mixed = weights @ v
            weights = weights.mean(1) if average_attn_weights else weights
        else:
            mixed, _ = attend(call)
        out: torch.Tensor = self.out_proj(mixed.transpose(1, 2).flatten(2))
        if not batched:
            return out[0], None if weights is None else weights[0]
        return out if self.batch_first else out.transpose(0, 1), weights

    def _projected(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, together: bool
    ) -> tuple[torch.Tensor, ...]:
        """q, k, v, (batch, tokens, heads·size) each; one product if they come from one tensor."""
        packed, bias = self.in_proj_weight, self.in_proj_bias
        if together and packed is not None:
            return linear(query, packed, bias).chunk(3, -1)
        each = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        weights = each if packed is None else packed.chunk(3)
        biases = (None, None, None) if bias is None else bias.chunk(3)
        sides = zip((query, key, value), weights, biases, strict=True)
        return tuple(linear(side, weight, own) for side, weight, own in sides)

    def _heads(self, side: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, heads·size) -> (batch, heads, tokens, size)."""
        return side.view(*side.shape[:-1], self.num_heads, self.head_dim).transpose(1, 2)

    def _call(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        padding: torch.Tensor | None,
        attn_mask: torch.Tensor | None,
        is_causal: bool,
    ) -> Call:
        """The call of the operator, in its convention: True = may attend."""
        full = (*q.shape[:3], k.shape[2])
        key_mask = mask = bias = None
        for name, given in (("attn_mask", attn_mask), ("key_padding_mask", padding)):
            if given is not None and given.dtype != torch.bool and not given.is_floating_point():
                raise InvalidArgument(
                    f"{name}: {given.dtype}, expected bool (True = hidden) or float"
                )
        if attn_mask is not None:
            attn_mask = self._by_head(attn_mask, full)
            mask, bias = (~attn_mask, None) if attn_mask.dtype == torch.bool else (None, attn_mask)
        if padding is not None:
            if padding.shape != (full[0], full[3]):
                raise InvalidArgument(
                    f"key_padding_mask of shape {tuple(padding.shape)}: expected (batch, M) = "
                    f"{(full[0], full[3])}, True = padding"
                )
            if padding.dtype == torch.bool:
                key_mask = ~padding
            else:
                bias = padding[:, None, None] if bias is None else bias + padding[:, None, None]
        call = checked(
            q, k, v,
            pattern=self.pattern,
            key_mask=key_mask,
            bias=bias,
            is_causal=is_causal,
            dropout_p=self.dropout if self.training else 0.0,
        )  # fmt: skip
        return call if mask is None else call.also(mask)

    def _by_head(self, mask: torch.Tensor, full: tuple[int, int, int, int]) -> torch.Tensor:
        """attn_mask with four axes."""
        batch, heads, queries, keys = full
        if mask.shape == (queries, keys):
            return mask[None, None]
        if mask.shape == (batch * heads, queries, keys):
            return mask.view(full)
        raise InvalidArgument(
            f"attn_mask of shape {tuple(mask.shape)}: expected (N, M) = {(queries, keys)} or "
            f"(batch·heads, N, M) = {(batch * heads, queries, keys)}, True = hidden"
        )
