"""Judges the attention of PyTorch, of T5 in transformers, and of performer-pytorch.
Run: python harness/python/examples/models.py"""

import inspect

import torch
from torch.nn.functional import scaled_dot_product_attention

import subquad


def by_offset(bias, n_q, n_k):
    """Expands a bias by offset, [.., n_q + n_k - 1], to one for each pair, [.., n_q, n_k]."""
    return bias[..., torch.arange(n_k) - torch.arange(n_q)[:, None] + n_q - 1]


def attention_of_pytorch(q, k, v, bias=None, scale=None, causal=False):
    n_q, n_k = q.shape[-2], k.shape[-2]
    mask = torch.zeros(n_q, n_k) if bias is None else by_offset(bias, n_q, n_k)
    if causal:
        mask = mask.masked_fill(torch.ones(n_q, n_k, dtype=torch.bool).triu(1), -torch.inf)
    heads = max(x.shape[-3] if x.dim() > 2 else 1 for x in (q, k, v, mask))
    k, v, mask = (x.repeat_interleave(heads // x.shape[-3], -3) if x.dim() > 2 else x for x in (k, v, mask))
    return scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)


def pytorch():
    """PyTorch's scaled_dot_product_attention on all problems of `verify`: sizes, heads, batches, hard inputs, gradients."""
    return subquad.verify(attention_of_pytorch, "softmax_attention", array="torch")


def t5():
    """T5's attention layer: its inputs after the projections, its bias, and its output before the projection."""
    from transformers import T5Config  # pylint: disable=import-outside-toplevel
    from transformers.models.t5.modeling_t5 import T5Attention  # pylint: disable=import-outside-toplevel

    config = T5Config(d_model=64, d_kv=16, num_heads=4, dropout_rate=0.0)
    layer, kept = T5Attention(config, has_relative_attention_bias=True).eval(), {}
    for name in ("q", "k", "v"):
        getattr(layer, name).register_forward_hook(lambda _, __, out, name=name: kept.update({name: out}))
    layer.o.register_forward_pre_hook(lambda _, inputs: kept.update(out=inputs[0]))
    with torch.no_grad():
        table = layer(torch.randn(2, 100, 64))[1][0]  # [heads, n_q, n_k], constant along diagonals
    bias = torch.cat([table[:, :, 0].flip(-1), table[:, 0, 1:]], -1)
    tensors = {name: x.unflatten(-1, (4, 16)).transpose(1, 2) for name, x in kept.items()}
    return subquad.check("softmax_attention", **tensors, bias=bias, scale=1.0)


def performer(eps):
    """FastAttention of performer-pytorch, with positive random features. It adds eps = 1e-4 to each feature after subtracting
    the largest exponent; the definition adds nothing. The first result is for the layer as published, the second for eps = 0.
    """
    from performer_pytorch import performer_pytorch as package  # pylint: disable=import-outside-toplevel

    q, k, v = torch.randn(3, 1, 4, 128, 32)
    layer = package.FastAttention(dim_heads=32, nb_features=64)
    omega = layer.projection_matrix
    features = (package.softmax_kernel(x, projection_matrix=omega, is_query=x is q, eps=eps) for x in (q, k))
    out = package.linear_attention(*features, v)
    if eps == 1e-4:
        assert torch.equal(out, layer(q, k, v))
    return subquad.check("linear_attention", out=out, q=q, k=k, v=v, omega=omega, feature_map="prf", scale=32**-0.5)


def main():
    torch.manual_seed(1)
    print(pytorch.__doc__, pytorch(), "", t5.__doc__, t5(), "", sep="\n")
    print(inspect.cleandoc(performer.__doc__), performer(1e-4), performer(0.0), sep="\n")


if __name__ == "__main__":
    main()
