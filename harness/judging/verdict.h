// Decides from a comparison and a margin whether an output is right. This file
// holds all policy (gates, reasons) and no arithmetic on tensors.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "harness/judging/comparison.h"
#include "harness/judging/diagnosis.h"

namespace subquad {

enum class Outcome { kPassed, kFailed, kMistrusted, kSkipped };
std::string_view ToString(Outcome outcome);

// Why a check did not pass.
enum class Reason {
  kNone,     // it passed
  kInWords,  // Judge has not decided it: skipped, or did not run
  kWroteOutOfBounds,
  kNothingCompared,
  kNothingWritten,
  kNotFinite,
  kZeroAnswer,  // the right output is zero everywhere
  kLostBounds,  // some elements have no bound of their own
  kBeyondTolerance,
  kNoDigits,  // rounding can change every digit of some elements
  kNoMistakeApplies,
  kBlindToEverything,  // every known mistake is within the tolerance
  kCannotTell,         // a known mistake is within the tolerance
};

// The largest error and its tolerance, by the gate that is nearest to its limit
// (or furthest beyond it).
struct DecidingGate {
  int gate = 1;
  double error = 0, tolerance = 0;  // absolute
};

// A wrong answer that this check would have accepted.
struct BlindSpot {
  std::string name;
  double distance = 0;  // error over tolerance, below 1
  std::string remedy;   // which inputs would reveal it; empty if unknown
};

// Tells who chose the inputs. Inputs that this program generates are chosen so
// that mistakes become visible.
enum class NumbersFrom { kUs, kUser };

// Distance of the nearest wrong answer (wrong_answers.h) to acceptance.
struct Margin {
  // The smallest ratio of largest error to tolerance among the applicable wrong
  // answers. The tolerances are those of the gates that the output has passed:
  // both gates, or the norm-wise bound alone. With a ratio below 1, the gates
  // would accept that wrong answer.
  double value = std::numeric_limits<double>::infinity();
  std::string nearest;              // the wrong answer with this ratio
  int64_t wrong_answers = 0;        // number that apply
  std::vector<BlindSpot> blind_to;  // ratios below 1, the smallest first
  // Ratios below 1 of wrong answers that are small by design (WrongAnswer).
  // They do not count above; Judge adds them to blind_to if a user's inputs
  // passed.
  std::vector<BlindSpot> too_small;
};

struct Verdict {
  Outcome outcome = Outcome::kSkipped;
  Reason cause = Reason::kNone;
  std::string reason;  // the cause in words; empty if it passed
  std::string gates;   // how the two gates disagree; empty if they agree
  Comparison comparison;
  Margin margin = {};
  // Filled by Trial::Explain for a failed verdict.
  std::optional<Diagnosis> diagnosis = {};

  bool passed() const { return outcome == Outcome::kPassed; }
  // Passed, but some wrong answers would have passed too.
  bool blind() const { return passed() && !margin.blind_to.empty(); }
  // Within every tolerance, but a wrong answer is within it as well.
  bool cannot_tell() const {
    return cause == Reason::kCannotTell && margin.value < 1;
  }
  static Verdict Skipped(std::string reason);
  static Verdict Failed(std::string reason);
};

// Gate 2: the error is at most this many times that of the plain dense program
// in the same scalar type.
inline constexpr double kYardstickFactor = 8;

// Returns gate 2 as one number, the largest over all outputs; above 1 it fails.
double OverYardstick(const Comparison& comparison);

// Returns the gate that decides; `norm_wise` as in Judge.
DecidingGate DecidingGateOf(const Comparison& comparison, bool norm_wise);

// Returns the distance to acceptance: error divided by tolerance, the larger of
// both gates, or of gate 1 alone if `bound_alone`. Infinite if the output has
// NaN or infinity.
double DistanceOf(const Comparison& comparison, bool bound_alone);

// Judges a comparison. `norm_wise`: gate 1 is a bound on norms, as an FFT has.
// Such an algorithm may be less accurate than the plain program if the values
// vary widely; then gate 1 decides and the verdict records the disagreement.
// Otherwise both gates must hold.
//
// A verdict is mistrusted if some elements have no finite error bound even for
// the plain dense program, because these elements could not have failed, and if
// generated inputs have a margin below 1, because a wrong answer would have
// passed as well. A right answer to a user's inputs has passed, and the verdict
// lists its blind spots, unless these are all the wrong answers that apply.
Verdict Judge(const Comparison& comparison, const Margin& margin,
              bool norm_wise, int64_t broken_guards,
              NumbersFrom from = NumbersFrom::kUs);

}  // namespace subquad
