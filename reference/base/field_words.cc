#include "reference/base/field_words.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

namespace subquad {
namespace {

struct Advice {
  std::initializer_list<std::string_view> names;
  const char* sentence;
};

const Advice kAdvice[] = {
    {{"attention", "flash_attention", "flash_attn", "flash_attn_func", "sdpa",
      "scaled_dot_product_attention", "flex_attention", "mha", "mqa", "gqa",
      "multihead_attention", "multi_head_attention",
      "memory_efficient_attention"},
     "the operator is softmax_attention, with leading axes for batch and heads "
     "(k and v may have fewer heads)"},
    {{"attn_mask", "attention_mask", "mask", "key_padding_mask", "attn_bias",
      "pair_bias", "score_mod", "mask_mod"},
     "the inputs are mask (1: the query sees the key) and pair_bias, of "
     "softmax_attention, [.., n_q, n_k] or with 1 for n_q or n_k"},
    {{"block_mask"},
     "block_mask is an input of sparse_attention with the pattern blocks: 1 "
     "where the block is seen, [.., ceil(n_q/block), ceil(n_k/block)]"},
    {{"is_causal", "causal_mask"}, "the parameter is causal"},
    {{"softcap", "logits_soft_cap", "attn_logit_softcapping", "logit_cap"},
     "the parameter is softcap, of softmax_attention"},
    {{"sink", "sinks", "s_aux", "attention_sink", "attention_sinks"},
     "the input is sinks, of softmax_attention: one logit for each head"},
    {{"cu_seqlens", "cu_seqlens_q", "cu_seqlens_k", "seqlens", "qo_indptr",
      "max_seqlen", "document_ids"},
     "the parameters are packed_q and packed_k, of softmax_attention: the "
     "lengths of the sequences, which are the differences of cu_seqlens"},
    {{"block_table", "block_tables", "page_table", "paged", "kv_indptr",
      "kv_indices", "cache_seqlens"},
     "paged caches are not covered; gather the pages into k and v first"},
    {{"dropout", "dropout_p"}, "dropout is not covered; set it to 0"},
    {{"alibi_slopes", "slopes"},
     "the input is slopes, of softmax_attention: bias -slope |j - i - "
     "query_offset|"},
    {{"window_size", "sliding_window", "left_window", "window_left",
      "window_right"},
     "the parameters are window_left and window_right, of softmax_attention: a "
     "window of w tokens that counts the query itself has window_left = w - 1"},
    {{"rope", "rotary", "rotary_emb", "cos", "sin", "freqs_cis"},
     "apply the rotation to q and k first"},
    {{"lse", "return_lse", "logsumexp", "softmax_lse"},
     "the output is lse, of softmax_attention: natural logarithms, [.., n_q]"},
    {{"softmax_scale", "sm_scale"}, "the parameter is scale"},
    {{"seq_len", "seqlen", "sequence_length", "tokens"}, "the size is n"},
    {{"head_dim", "head_size", "dim_head"}, "the sizes are d and e"},
    {{"num_heads", "n_heads", "nheads"}, "the number of heads is heads"},
    {{"gate", "decay", "beta", "initial_state", "final_state", "state",
      "retention", "gla", "mamba", "delta_rule", "gated_delta_rule"},
     "states, gates and decays are not covered"},
};

}  // namespace

std::string FieldAdvice(const std::string& name) {
  for (const Advice& advice : kAdvice)
    if (std::ranges::find(advice.names, name) != advice.names.end())
      return advice.sentence;
  return "";
}

}  // namespace subquad
