// What NPRF claims, in the order of the text.
#include "harness/papers/claims/claim_list.h"
#include "harness/papers/claims/rules.h"

namespace subquad {

std::vector<Claim> NprfClaims() {
  using enum ClaimKind;
  using namespace untested;
  return {
      {"nprf-kernel-form", "kernelized attention is linear by reusing two sums",
       "NPRF eq. 1-3", kProperty, "", KernelForm},
      {"nprf-unbiased",
       "trigonometric and positive random features are unbiased",
       "NPRF section 2.1, eq. 4 and 5", kProperty, "", MapsUnbiased},
      OfStudy("nprf-prop1",
              "attention with relative positions is beyond "
              "dot-then-exponentiate for "
              "n > d + 1",
              "NPRF prop. 1", "rpe_rank"),
      {"nprf-eq10", "a relative bias makes two products with a Toeplitz matrix",
       "NPRF eq. 10-12, algorithm 1", kProperty, "", NprfEq10},
      {"nprf-eq13",
       "the first row of D_2 has a factor (x_2 W^V), and a causal bias is "
       "b_{i-j}",
       "NPRF eq. 13, footnote 3", kErratum, "", NprfEq13},
      {"nprf-time",
       "kernelized attention with relative positions takes O(n log n) time",
       "NPRF section 3.2",
       kSweep,
       "",
       NprfTime,
       {"nprf-memory", "nprf-fig1a"}},
      {"nprf-operations",
       "products with the matrix of positions take O(n log n) operations, not "
       "O(n^2)",
       "NPRF section 3.2, eq. 12 and 13", kProperty, "", NprfOperations},
      {"nprf-memory",
       "(not stated) algorithm 1 keeps n m d numbers",
       "NPRF algorithm 1",
       kSweep,
       "",
       NprfMemory,
       {"nprf-memory"}},
      {"nprf-fig1a",
       "it overtakes softmax attention on long sequences, for m = 16 to 128",
       "NPRF fig. 1a",
       kSweep,
       "",
       NprfFig1a,
       {"nprf-fig1a"}},
      {"nprf-footnote3", "the FFT cannot speed up generation",
       "NPRF footnote 3", kProperty, "", NprfFootnote3},
      Untested("nprf-fig1a-gpu", "the same on a V100", "NPRF fig. 1a", kGpu),
      OfStudy("nprf-lemma2", "the variance of the estimate by random features",
              "NPRF lemma 2", "prf_variance"),
      OfStudy("nprf-lemma2-trf",
              "similar results hold for trigonometric features: their variance "
              "grows with the lengths as well",
              "NPRF section 3.3", "prf_variance"),
      OfStudy("nprf-thm3",
              "how many features suffice for an error and a probability",
              "NPRF theorem 3", "sample_complexity"),
      OfStudy("nprf-thm3-n", "the number of features needed grows like n",
              "NPRF theorem 3", "sample_complexity"),
      OfStudy("nprf-thm3-r",
              "the number of features needed grows like exp(4 R^2)",
              "NPRF theorem 3", "sample_complexity"),
      OfStudy("nprf-thm3-epsilon",
              "the number of features needed grows like 1 / epsilon^2",
              "NPRF theorem 3", "sample_complexity"),
      OfStudy("nprf-thm3-step",
              "the last step of the proof, 2e/(1-e) < 4e for any e > 0",
              "NPRF appendix B.2", "sample_complexity"),
      OfStudy("nprf-fig1b",
              "for large R the error is huge and only slightly improved by "
              "more features; for R = 1 it is small and drops significantly",
              "NPRF fig. 1b", "approximation_error"),
      {"nprf-sharp",
       "normalised rows cannot make sharp attention, with a relative bias they "
       "can",
       "NPRF section 3.3, footnote 6", kProperty, "", NprfSharp},
      Untested("nprf-stable",
               "large norms at the start make gradients vary and training "
               "unstable; normalised rows train from scratch",
               "NPRF sections 1 and 3.3", kTraining),
      Untested("nprf-footnote5",
               "a learned scale as in RFA does not control the norms",
               "NPRF footnote 5", kTraining),
      Untested("nprf-footnote6",
               "sharp patterns that depend on the context are out of reach, "
               "without harm",
               "NPRF footnote 6", kTraining),
      Untested("nprf-table1",
               "GLUE scores, best average among efficient models",
               "NPRF table 1", kTraining),
      Untested("nprf-complexities",
               "complexities of Nystroemformer, SMYRF and clustered attention",
               "NPRF table 1", kNoOperator),
      {"nprf-glue-nine", "nine GLUE tasks", "NPRF appendix A.1", kErratum, "",
       NprfGlueNine},
      Untested("nprf-table2", "perplexity on WikiText-103", "NPRF table 2",
               kTraining),
      Untested("nprf-trf-gate", "a gate improves TRF attention", "NPRF table 2",
               kTraining),
      Untested("nprf-table3",
               "BLEU on IWSLT14, the average of standard attention",
               "NPRF table 3", kTraining),
      Untested("nprf-table4", "accuracy on ImageNet",
               "NPRF table 4, section 4.4", kTraining),
      Untested("nprf-table5", "hyperparameters of pre-training", "NPRF table 5",
               kSetting),
      Untested("nprf-table6", "bits per dimension on ImageNet32",
               "NPRF table 6", kTraining),
      {"nprf-averages", "averages and differences of tables 1 to 3 and 6",
       "NPRF sections 4.1-4.3, appendix A.5", kProperty, "", NprfAverages},
      BesideStudy(
          "nprf-convert",
          "a translation model with normalised attention keeps its quality "
          "when "
          "it is converted, one with standard attention does not; relative "
          "positions help both",
          "NPRF fig. 2", "conversion", kTraining),
      OfStudy("nprf-convert-weights",
              "of attention weights: normalised attention converts, standard "
              "attention does not, RPE helps both",
              "NPRF fig. 2", "conversion"),
      Untested("nprf-convert-drop",
               "converted with 32 features, the model with RPE loses 0.5 BLEU",
               "NPRF section 4.5", kTraining),
      Untested("nprf-fig3a",
               "the number of features hardly matters to a trained model",
               "NPRF fig. 3a", kTraining),
      OfStudy(
          "nprf-maps",
          "trigonometric, spherical and orthogonal features perform alike once "
          "normalised",
          "NPRF fig. 3b", "feature_maps"),
  };
}

}  // namespace subquad
