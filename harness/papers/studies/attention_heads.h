// Heads of softmax attention out of case folders, or made up, and how well
// random features and elu1 stand for each: what the studies `conversion` and
// `approximation_error` share.
//
// Standard attention takes scale 1/sqrt(d) (or the case's own), normalised
// attention rows of length 1 and scale 1. That is another attention, and a flat
// one: how far its rows are from those of the head, and how much its largest
// weights stand out, is told beside the errors.
#pragma once

#include <string>
#include <vector>

#include "harness/cases/case_folder.h"
#include "harness/papers/studies/study.h"

namespace subquad {

struct AttentionHead {
  std::string name;    // of the folder and the head in it: "mpnet-layer0/2"
  std::string model;   // heads of one model are judged together: "mpnet"
  int64_t layer = -1;  // -1: the folder's name does not say it
  int64_t index = 0;   // in the folder
  bool real = false, causal = false;
  int64_t n = 0, d = 0;
  double scale = 0;
  std::vector<double> queries, keys;  // [n, d]
  std::vector<double> bias;           // [2n-1], or empty: the head has none
};

// Where heads come from, a row for each folder.
struct AttentionSource {
  std::string name, model, origin;  // origin: in the words of its case.json
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
// InputSourceName gives), evenly spread over all there are.
AttentionHeads HeadsOf(const std::vector<std::string>& folders, int64_t most);

// The folders in reports/inputs of the program's data that hold heads; none
// where there is no data.
std::vector<std::string> FoldersInTree();

struct HeadSettings {
  int64_t rows = 0;   // queries of each head, evenly spread
  int64_t draws = 0;  // of Omega
  std::vector<int64_t> features;
};

// What was found of one head.
struct HeadResult {
  // [draw][setting][map][f], means of |A - A^|_1 over rows. Setting: normalised
  // * 2 + rpe, with nothing under rpe where the head has no bias. Maps: those
  // of HeadMaps().
  std::vector<std::vector<std::vector<std::vector<double>>>> errors;
  double peak[2] = {0, 0};  // standard, normalised: largest weight over mean
  double moved = 0;         // |A_normalised - A|_1, mean over rows
};
constexpr size_t kHeadSettings = 4;

// prf, orf, trf, elu1.
const std::vector<std::string>& HeadMaps();

// The same to the bit on any number of threads.
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

// The models in the table `heads`, in order, with what sentences say of them.
struct ModelInTables {
  std::string name;
  bool real = false;
  int64_t heads = 0, layers = 0;  // layers: 0 where names do not tell
  bool own_bias = false;          // every head has one
  double q_norm = 0, k_norm = 0;  // means over heads
  double peak_standard = 0, peak_normalised = 0, moved = 0;
};
std::vector<ModelInTables> ModelsIn(const StudyTable& heads);

// A cell of ModelErrorTable; NaN where there is none.
double ModelError(const StudyTable& table, const std::string& model,
                  bool normalised, bool rpe, const std::string& map, double f);

}  // namespace subquad
