#include "reference/contract/table.h"

#include <string>

#include "reference/contract/fastrpb_attention.h"
#include "reference/contract/linear_attention.h"
#include "reference/contract/not_taken.h"
#include "reference/contract/sparse_attention.h"
#include "reference/contract/stochastic_position_attention.h"

namespace subquad {
namespace {

// The properties that all implementations of an algorithm share, whatever the
// backend. Properties that differ, and algorithms that only one backend has,
// are in the tables' own rows.
struct SharedRow {
  std::string_view op, id;
  std::string source;
  Complexity time, memory = {};
  std::string (*why_not)(const Problem&) = nullptr;
  RowBound (*norm_bound)(const Problem&, const Inputs&) = nullptr;
  std::vector<Refusal> refuses = {};
};

const std::vector<SharedRow>& SharedRows() {
  static const std::vector<SharedRow> rows = {
      // clang-format off
      {"toeplitz_1d", "dense", "FastRPB eq. 12",
       {"O(e n^2)", "n^2"}, {"O(n^2)", "n^2"}},
      {"toeplitz_1d", "fft", "FastRPB eq. 13-18, proposition 3.1",
       {"O(e n log n)", "n log n"}, {"O(n) per column in flight", "n"}},

      {"toeplitz_2d", "dense", "NPRF section 4.4",
       {"O(e (HW)^2)", "n^2"}, {"O((HW)^2)", "n^2"}},
      {"toeplitz_2d", "fft2", "NPRF section 4.4",
       {"O(e HW log HW)", "n log n"}, {"O(HW) per column in flight", "n"}},
      {"toeplitz_2d", "fft_sequence", "NPRF section 4.4; Kronecker substitution",
       {"O(e HW log HW)", "n log n"}},

      {"toeplitz_2d_xy", "dense", "FastRPB section 3.2.2",
       {"O(e (HW)^2)", "n^2"}, {"O((HW)^2)", "n^2"}},
      {"toeplitz_2d_xy", "xy", "FastRPB proposition 3.2, appendix B.3",
       {"O(e (HW + H log H + W log W))", "n"}},

      {"softmax_attention", "dense", "FastRPB eq. 1",
       {"O(n^2 (d+e))", "n^2"}, {"O(n^2)", "n^2"}},
      {"softmax_attention", "tiled",
       "Milakov and Gimelshein 2018; Dao et al. 2022", {"O(n^2 (d+e))", "n^2"}},

      {"linear_attention", "dense", "FastRPB eq. 2",
       {"O(n^2 (f + e))", "n^2"}, {"O(n^2 + n f)", "n^2"}},
      {"linear_attention", "associative", "FastRPB eq. 3; Katharopoulos 2020",
       {"O(n f e)", "n"}, {}, NotCausal, SignedFeatureBound,
       SumsOfKeysRefuse(false)},
      {"linear_attention", "chunked", "Transformers II eq. 18-20",
       {"O(n f (e + chunk))", "n"}, {}, OnlyCausal, SignedFeatureBound,
       SumsOfKeysRefuse(true)},

      {"fastrpb_attention", "dense", "FastRPB eq. 10",
       {"O(n^2 (d + e))", "n^2"}, {"O(n^2)", "n^2"}},
      {"fastrpb_attention", "softmax_fft", "FastRPB eq. 10, 3.2.1",
       {"O(n^2 (d + e))", "n^2"}, {"O(n e)", "n"}, WhyNotFastRpb<true, false>},
      {"fastrpb_attention", "softmax_xy", "FastRPB eq. 10, section 3.2.2",
       {"O(n^2 (d + e))", "n^2"}, {"O(n e)", "n"}, WhyNotFastRpb<true, true>},
      {"fastrpb_attention", "linear_fft", "FastRPB eq. 10, 3.2.1",
       {"O(n (f e + e log n))", "n log n"}, {"O(n e)", "n"},
       WhyNotFastRpb<false, false>},
      {"fastrpb_attention", "linear_xy", "FastRPB eq. 10, section 3.2.2",
       {"O(n f e)", "n"}, {"O(n e)", "n"}, WhyNotFastRpb<false, true>},

      {"kernelized_rpe_attention", "dense", "NPRF eq. 10",
       {"O(n^2 (f + e))", "n^2"}, {"O(n^2 + n f)", "n^2"}},
      {"kernelized_rpe_attention", "tiled", "NPRF eq. 10",
       {"O(n^2 (f + e))", "n^2"}},
      {"kernelized_rpe_attention", "fft_streamed", "NPRF algorithm 1",
       {"O(n f e log n)", "n log n"}, {"O(n (f + e))", "n"},
       {}, {}, FeaturesOfKeysRefuse()},

      {"clipped_rpe_product", "dense", "LRPE section III; Shaw 2018",
       {"O(n (r d + n e))", "n^2"}, {"O(n^2)", "n^2"}},
      {"clipped_rpe_product", "windowed", "LRPE section III",
       {"O(n r (d + e))", "n"}},

      {"kernelized_clipped_rpe_attention", "dense", "LRPE section IV",
       {"O(n^2 (d + e))", "n^2"}, {"O(n^2)", "n^2"}},
      {"kernelized_clipped_rpe_attention", "linear", "LRPE sections III and IV",
       {"O(n (d e + r (d + e)))", "n"}},

      {"transformer_xl_attention", "dense",
       "Transformer-XL appendix B, the naive way",
       {"O(L (M+L) d p)", "n^2"}, {"O(L (M+L))", "n^2"}},
      {"transformer_xl_attention", "shift", "Transformer-XL appendix B",
       {"O((M+L) d p + L (M+L) (d+e))", "n^2"}},

      {"position_attention", "dense", "Transformers II eq. 5-13",
       {"O(n^2 d), deberta O(n^2 D d)", "n^2"}, {"O(n^2)", "n^2"}},
      {"position_attention", "shift",
       "Transformers II eq. 5-13; Transformer-XL appendix B", {"O(n^2 d)", "n^2"}},

      {"relative_logits_attention", "tiled",
       "Milakov and Gimelshein 2018; Dao et al. 2022",
       {"O(n^2 (d+e) + n E p)", "n^2"}},

      {"sparse_attention", "dense",
       "Transformers II, \"Making the attention matrix sparse\"",
       {"O(n^2 (d+e))", "n^2"}, {"O(n^2)", "n^2"}},
      {"sparse_attention", "gathered",
       "Transformers II, \"Making the attention matrix sparse\"", {"O(pairs (d+e)), pairs n^2/s if strided", "n"}},
      {"sparse_attention", "blocked",
       "Transformers II, \"Making the attention matrix sparse\"", {"O(pairs (d+e)), pairs n^2/s if strided", "n"},
       {}, WhyNotBlocked},

      {"linformer_attention", "dense", "Transformers II eq. 15",
       {"O(n p (d+e))", "n"}, {"O(n p)", "n"}},
      {"linformer_attention", "projected", "Transformers II eq. 15",
       {"O(n p (d+e))", "n"}, {"O(p (d+e))", "1"}},

      {"memory_compressed_attention", "dense", "Transformers II eq. 14",
       {"O(n^2/s (d+e))", "n^2"}, {"O(n^2/s)", "n^2"}},
      {"memory_compressed_attention", "compressed", "Transformers II eq. 14",
       {"O(n^2/s (d+e))", "n^2"}, {"O(n/s (d+e))", "n"}},

      {"stochastic_position_attention", "dense", "FastRPB eq. 8",
       {"O(n^2 (R + e))", "n^2"}, {"O(n^2)", "n^2"}},
      {"stochastic_position_attention", "tiled", "FastRPB eq. 8",
       {"O(n^2 (R + e))", "n^2"}, {"O(n R)", "n"}, OnlySoftmaxOnNoise},
      {"stochastic_position_attention", "associative", "FastRPB eq. 8",
       {"O(n R (d s + e)), s = 2 C or P", "n"}, {"O(n R)", "n"},
       OnlyLinearOnNoise<false>, SignedFeaturesOnNoise},
      {"stochastic_position_attention", "recurrent", "FastRPB eq. 8",
       {"O(n R (d s + e)), s = 2 C or P", "n"}, {"O(n R)", "n"},
       OnlyLinearOnNoise<true>, SignedFeaturesOnNoise},
      {"stochastic_position_attention", "chunked", "FastRPB eq. 8",
       {"O(n R (d s + e)), s = 2 C or P", "n"}, {"O(n R)", "n"},
       OnlyLinearOnNoise<true>, SignedFeaturesOnNoise},
      // clang-format on
  };
  return rows;
}

// Rejects features that no GPU kernel supports.
std::string NotOnDevice(const Problem& problem) {
  const Params& params = problem.params;
  if (params.Has("eps") && params.Number("eps") > 0)
    return "GPU kernels do not support eps";
  if (params.Has("normalized") && !params.Flag("normalized"))
    return "GPU kernels do not support normalized: false";
  if (params.Has("feature_map") && params.Text("feature_map") == "identity")
    return "GPU kernels do not support the feature map identity";
  return "";
}

}  // namespace

std::vector<Implementation> CompleteTable(std::string_view op, Backend backend,
                                          const std::vector<Scalar>& scalars,
                                          std::vector<Implementation> rows) {
  for (Implementation& row : rows) {
    row.op = op;
    row.backend = backend;
    if (row.scalars.empty()) row.scalars = scalars;
    if (!row.backward && row.why_no_backward.empty())
      row.why_no_backward = backend == Backend::kCuda
                                ? "GPU kernels have only the forward pass"
                                : "not implemented for this algorithm";
    for (const SharedRow& shared : SharedRows()) {
      if (shared.op != op || shared.id != row.id) continue;
      if (row.source.empty()) row.source = shared.source;
      if (row.time.text.empty()) row.time = shared.time;
      if (row.memory.text.empty()) row.memory = shared.memory;
      if (!row.why_not) row.why_not = shared.why_not;
      if (!row.norm_bound) row.norm_bound = shared.norm_bound;
      if (row.refuses.empty()) row.refuses = shared.refuses;
    }
    if (backend == Backend::kCpu && row.refuses.empty()) continue;
    row.why_not = [row = row](const Problem& problem) {
      std::string reason;
      if (row.backend == Backend::kCuda) reason = NotTaken(problem, row);
      if (reason.empty() && row.backend == Backend::kCuda)
        reason = NotOnDevice(problem);
      if (reason.empty() && row.why_not) reason = row.why_not(problem);
      return reason.empty() ? Refused(problem, row) : reason;
    };
  }
  return rows;
}

}  // namespace subquad
