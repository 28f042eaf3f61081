// Heads of softmax attention, from case folders or made up, and how well random
// features and elu1 approximate each. Shared by the studies `conversion` and
// `approximation_error`.
//
// Standard attention has scale 1/sqrt(d) (or the case's own); normalised
// attention has rows of length 1 and scale 1. That is a different, flatter
// attention: its distance from the head's own rows, and the peak of its
// weights, are reported beside the errors.
#pragma once

#include <string>
#include <vector>

#include "harness/cases/case_folder.h"
#include "harness/papers/frame/grid.h"
#include "harness/papers/frame/study.h"

namespace subquad {

struct AttentionHead {
  std::string name;    // of the folder and the head in it: "mpnet-layer0/2"
  std::string model;   // heads of one model are judged together: "mpnet"
  int64_t layer = -1;  // -1: not in the folder's name
  int64_t index = 0;   // in the folder
  bool real = false, causal = false;
  int64_t n = 0, d = 0;
  double scale = 0;
  std::vector<double> queries, keys;  // [n, d]
  std::vector<double> bias;           // [2n-1]; empty if it has none
  std::vector<double> values;         // [n, e]; empty if they are not known
};

// Where heads come from: a folder.
struct AttentionSource {
  std::string name, model, origin;  // origin: from its case.json
  int64_t heads = 0, used = 0;
};

struct AttentionHeads {
  std::vector<AttentionSource> sources;
  std::vector<AttentionHead> heads;
};

// "mpnet-layer11" -> mpnet, 11; any other name is a model by itself.
std::pair<std::string, int64_t> ModelAndLayer(const std::string& folder);

// Throws InvalidInput for a folder without q and k of one length.
void CheckHasHeads(const CaseFolder& folder);

// At most `most` heads of the folders (case folders by the names that
// InputSourceName gives), evenly spread over all their heads.
AttentionHeads HeadsOf(const std::vector<std::string>& folders, int64_t most);

// The folders in reports/inputs of the program's data that hold heads; none
// where there is no data.
std::vector<std::string> FoldersInTree();

struct HeadSettings {
  int64_t rows = 0;   // queries of each head, evenly spread
  int64_t draws = 0;  // of Omega
  std::vector<int64_t> features;
};

// What was measured of one head.
struct HeadResult {
  // |A - A^|_1, means over rows, by draw, normalised, rpe, map of HeadMaps()
  // and f. Zero for rpe where the head has no bias.
  Grid errors;
  // |(A - A^) V| / |A V| in the same places; NaN without values.
  Grid outputs;
  // The same two of what needs no features: by normalised, rpe and map of
  // BaselineKinds().
  Grid baselines, baseline_outputs;
  bool has_bias = false;
  double peak[2] = {0, 0};  // standard, normalised: largest weight over mean
  double moved = 0;         // |A_normalised - A|_1, mean over rows
};

// prf, orf, trf, elu1.
const std::vector<std::string>& HeadMaps();

// Bit-identical for any number of threads.
std::vector<HeadResult> MeasureHeads(StudyRun& run,
                                     const std::vector<AttentionHead>& heads,
                                     const HeadSettings& settings);

// Tables `sources`, `heads` (with norms of queries and keys), `head_error`, and
// the errors over all heads of a model under the name given.
StudyTable SourceTable(const AttentionHeads& all);
StudyTable HeadTable(const AttentionHeads& all,
                     const std::vector<HeadResult>& results);
StudyTable HeadErrorTable(const AttentionHeads& all,
                          const std::vector<HeadResult>& results,
                          const HeadSettings& settings);
StudyTable ModelErrorTable(const std::string& name, const AttentionHeads& all,
                           const std::vector<HeadResult>& results,
                           const HeadSettings& settings);

// The models in the table `heads`, in order, with the numbers that verdicts
// use.
struct ModelInTables {
  std::string name;
  bool real = false;
  int64_t heads = 0, layers = 0;  // layers: 0 if not known
  bool own_bias = false;          // every head has one
  double q_norm = 0, k_norm = 0;  // means over heads
  double peak_standard = 0, peak_normalised = 0, moved = 0;
};
std::vector<ModelInTables> ModelsIn(const StudyTable& heads);

// A cell of ModelErrorTable; NaN if the table lacks it.
double ModelError(const StudyTable& table, const std::string& model,
                  bool normalised, bool rpe, const std::string& map, double f);

}  // namespace subquad
