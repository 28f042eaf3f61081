// What Transformers II claims, in the order of the text.
#include "harness/papers/claims/claim_list.h"
#include "harness/papers/claims/rules.h"

namespace subquad {

std::vector<Claim> TransformersIiClaims() {
  using enum ClaimKind;
  using namespace untested;
  return {
      {"blog-equivariance",
       "self-attention is permutation equivariant, and position schemes break "
       "that",
       "Transformers II eq. 2", kProperty, "", BlogEquivariance},
      {"blog-rotation", "shifting a sinusoidal position is a rotation",
       "Transformers II eq. 4", kProperty, "", BlogRotation},
      {"blog-unique", "every position has an embedding of its own",
       "Transformers II eq. 3, fig. 1", kProperty, "", BlogUnique},
      {"blog-null-space",
       "positions span a subspace that leaves room for words: fewer dimensions "
       "than D",
       "Transformers II section on position encodings", kProperty, "",
       BlogNullSpace},
      OfStudy(
          "blog-decay",
          "dot products of sinusoidal positions fall over the first 51 offsets",
          "Transformers II fig. 2", "sinusoidal"),
      {"blog-query-shift",
       "a linear map of the queries moves the largest product to offset j",
       "Transformers II eq. 4", kProperty, "", BlogQueryShift},
      Untested("blog-fig3",
               "learned positions of BERT and GPT-2: products, and regression "
               "of positions",
               "Transformers II fig. 3",
               "the position tables of the models are not in the repository"),
      {"blog-eq8", "positions added to content make four terms",
       "Transformers II eq. 5-8", kProperty, "", BlogEq8},
      {"blog-schemes",
       "seven ways to bring positions into the scores, each by its equation",
       "Transformers II eq. 5-13", kProperty, "", BlogSchemes},
      Untested("blog-footnote1",
               "embeddings of positions in the values contribute little",
               "Transformers II footnote 1", kTraining),
      {"blog-offset", "relative embeddings depend on |i-j|",
       "Transformers II eq. 10-12", kErratum, "", BlogOffset},
      Untested("blog-fig4",
               "relative positions do better than absolute ones with BERT",
               "Transformers II fig. 4", kTraining),
      {"blog-quadratic",
       "attention has quadratic complexity",
       "Transformers II section on larger sets of inputs",
       kSweep,
       "",
       FrpbQuadratic,
       {"nprf-fig1a"}},
      {"blog-compressed",
       "memory compressed attention and Linformer see I / s keys",
       "Transformers II eq. 14 and 15, fig. 5", kProperty, "", BlogCompressed},
      OfStudy("blog-low-rank", "attention is often low-rank in practice",
              "Transformers II eq. 15", "spectra"),
      OfStudy("blog-patterns",
              "which keys local, dilated, strided, Longformer and BigBird "
              "attention sees",
              "Transformers II figs. 6-9", "sparse_patterns",
              "sparse-patterns"),
      {"blog-some-queries", "layers in which some inputs see all previous ones",
       "Transformers II fig. 8d", kProperty, "", BlogSomeQueries},
      {"blog-etc",
       "tokens that belong to no input see all others and are seen by all, so "
       "that distant inputs interact",
       "Transformers II fig. 9b", kProperty, "", BlogEtc},
      Untested("blog-etc-positions",
               "positions of their own to, from and between global tokens",
               "Transformers II section on sparse attention", kTraining),
      {"blog-propagation",
       "local windows take many layers to carry information along; global "
       "tokens and random links mix fast",
       "Transformers II section on sparse attention", kProperty, "",
       BlogPropagation},
      Untested("blog-learned-sparse",
               "routing transformer, Reformer and Sinkhorn transformer learn "
               "their patterns",
               "Transformers II section on sparse attention", kNoOperator),
      {"blog-kernel", "attention as a kernel is linear by associativity",
       "Transformers II eq. 16-18", kProperty, "", KernelForm},
      {"blog-infinite", "no map to finitely many features gives exp(q k)",
       "Transformers II section on kernels, eq. 21", kProperty, "",
       BlogInfinite},
      {"blog-rnn", "causal linear attention is a recurrence, as printed",
       "Transformers II eq. 18-20", kErratum, "", BlogRnn},
      Untested(
          "blog-performer",
          "approximating softmax is better than another similarity in practice",
          "Transformers II section on kernels", kTraining),
      Untested("blog-hypernetwork",
               "synthesizer and dynamic convolutions work about as well",
               "Transformers II figs. 11 and 12", kNoOperator),
      Untested(
          "blog-routing",
          "random synthesizer, capsules: routing without or with agreement",
          "Transformers II fig. 13a", kNoOperator),
      Untested("blog-graphs", "graph convolution and graph attention networks",
               "Transformers II fig. 13b, c", kNoOperator),
      {"blog-complete-graph",
       "self-attention is attention on the complete graph",
       "Transformers II section on graphs", kProperty, "", BlogCompleteGraph},
      {"blog-convolution",
       "multi-head attention with relative positions can be a convolution",
       "Transformers II eq. 22 and 23", kProperty, "", BlogConvolution},
      {"blog-glu",
       "a gated linear unit treats tokens alone; a gated MLP mixes them and is "
       "not equivariant",
       "Transformers II eq. 24 and 25, fig. 14", kProperty, "", BlogGlu},
      {"blog-hopfield", "one update of a modern Hopfield network is attention",
       "Transformers II, last section", kProperty, "", BlogHopfield},
  };
}

}  // namespace subquad
