// The spike probe: a tensor by offset that is zero but at one offset. Scores
// are all equal, so the output is known in closed form, row by row: a mean of
// the values that the spike pulls towards one of them, or that one alone. Every
// row is compared, at lengths where the reference takes hours, and the spike is
// put at every offset where tiles and blocks end. The spike is as heavy as all
// keys together, so that what it moves does not shrink with the length.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/judging/verdict.h"
#include "reference/contract/implementation.h"

namespace subquad {

// An operator with an input by offset, and the problem that is probed.
struct SpikeSubject {
  std::string operator_id;
  std::string settings;  // of its case, without sizes
  std::string tensor;    // the input by offset
  std::string values;    // the input whose rows are averaged or moved
  bool mean = false;     // a mean of values
  bool product = false;  // the values times a Toeplitz matrix
};
const std::vector<SpikeSubject>& SpikeSubjects();

// Offsets j - i of this many queries and keys: 0, the first and the last, and
// for every power of two from 64 it, its neighbours, and the same below zero.
std::vector<int64_t> SpikeOffsets(int64_t n_q, int64_t n_k);

// What the output of a subject is; `spike` is the number at the offset. Causal
// queries are the last n_q of the sequence where keys are more.
// values [n_k, e]; returns [n_q, e].
std::vector<double> SpikeAnswer(const SpikeSubject& subject,
                                const std::vector<double>& values, int64_t n_q,
                                int64_t e, bool causal, int64_t offset,
                                double spike);

struct SpikeVerdict {
  Outcome outcome = Outcome::kSkipped;
  std::string reason;   // unless it passed
  int64_t offsets = 0;  // that were probed
  double error = 0;     // the largest, over its tolerance
  // The smallest move of an output by a spike that a query sees, over the
  // tolerance; below 1 the probe could not have failed.
  double margin = 0;
};

// Compares an output with SpikeAnswer: `found` [n_q, e] is what a program
// returned for this offset. `mixes`: by a transform, whose rounding of the
// spike reaches rows that do not see it. Adds to the verdict.
void CompareSpike(const SpikeSubject& subject,
                  const std::vector<double>& values,
                  const std::vector<double>& found, int64_t n_q, int64_t e,
                  bool causal, int64_t offset, double spike, double roundoff,
                  bool mixes, SpikeVerdict& verdict);

// Runs the implementation with a spike at each of the offsets. Skipped, with
// the reason, where it cannot run or would take too long.
SpikeVerdict ProbeSpikes(const SpikeSubject& subject,
                         const Implementation& implementation, int64_t n_q,
                         int64_t n_k, bool causal, int threads);

}  // namespace subquad
