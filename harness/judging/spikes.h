// The impulse test: a tensor indexed by offset (biases, weights) is zero except
// at one offset, the spike.
// All scores are equal otherwise, so that the output is known in closed form
// for every row: a mean of the values that the spike pulls towards one of them,
// or that value alone. Every row is compared, even at lengths for which the
// reference would take hours, with a spike at every offset where tiles and
// blocks end. The spike weighs as much as all keys together, so that its effect
// does not shrink with the length.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/judging/verdict.h"
#include "reference/contract/implementation.h"

namespace subquad {

// An operator with an input indexed by offset, and the problem to test.
struct SpikeSubject {
  std::string operator_id;
  std::string settings;  // of its case, without sizes
  std::string tensor;    // the input indexed by offset
  std::string values;    // the input whose rows are averaged or moved
  bool mean = false;     // a mean of values
  bool product = false;  // the values times a Toeplitz matrix
};
const std::vector<SpikeSubject>& SpikeSubjects();

// Returns the offsets j - i to test: 0, the first and the last, and every power
// of two from 64 on with its neighbours, in both directions.
std::vector<int64_t> SpikeOffsets(int64_t n_q, int64_t n_k);

// Returns the output [n_q, e] of a subject in closed form. `spike` is the value
// at the offset, `values` is [n_k, e]. With a causal mask and n_k > n_q, the
// queries are the last n_q tokens of the sequence.
std::vector<double> SpikeAnswer(const SpikeSubject& subject,
                                const std::vector<double>& values, int64_t n_q,
                                int64_t e, bool causal, int64_t offset,
                                double spike);

struct SpikeVerdict {
  Outcome outcome = Outcome::kSkipped;
  std::string reason;   // empty if it passed
  int64_t offsets = 0;  // number tested
  double error = 0;     // largest error divided by tolerance
  // The smallest change of an output by a visible spike, divided by the
  // tolerance. Below 1 the test could not have failed.
  double margin = 0;
};

// Compares `found` [n_q, e], a program's output for this offset, with
// SpikeAnswer and adds the result to the verdict. `mixes`: the program uses a
// transform, whose rounding of the spike reaches rows that do not see it.
void CompareSpike(const SpikeSubject& subject,
                  const std::vector<double>& values,
                  const std::vector<double>& output, int64_t n_q, int64_t e,
                  bool causal, int64_t offset, double spike, double roundoff,
                  bool mixes, SpikeVerdict& verdict);

// Runs the implementation with a spike at each offset. The verdict is skipped,
// with a reason, if it cannot run or would take too long.
SpikeVerdict ProbeSpikes(const SpikeSubject& subject,
                         const Implementation& implementation, int64_t n_q,
                         int64_t n_k, bool causal, int threads);

}  // namespace subquad
