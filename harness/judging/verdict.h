// What a comparison means: policy without arithmetic.
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

// The largest error and what it may be, by the gate that is nearest to its
// limit (or furthest beyond).
struct DecidingGate {
  int gate = 1;
  double error = 0, tolerance = 0;  // absolute
};

// A wrong answer that would have been taken for right.
struct BlindSpot {
  std::string name;
  double distance = 0;  // error over tolerance, below 1
  std::string remedy;   // what would show it better; empty: nothing is known
};

// Whose numbers a problem has. Ours are chosen so that a mistake shows.
enum class NumbersFrom { kUs, kUser };

// How far the nearest wrong answer (wrong_answers.h) is from being taken for
// right.
struct Margin {
  // The smallest, over the wrong answers that apply, of the largest error over
  // tolerance that one of them shows, as the gates see it that the output has
  // passed: both, or a norm-wise bound alone. Below 1 it would have been taken.
  double value = std::numeric_limits<double>::infinity();
  std::string nearest;              // which wrong answer that is
  int64_t wrong_answers = 0;        // that apply
  std::vector<BlindSpot> blind_to;  // those below 1, the nearest first
  // Below 1 too, and small by choice (WrongAnswer): not counted above. Where a
  // user's numbers have passed, Judge adds them to blind_to.
  std::vector<BlindSpot> too_small;
};

struct Verdict {
  Outcome outcome = Outcome::kSkipped;
  std::string reason;  // in words, unless it passed
  std::string gates;   // where the two gates disagree
  Comparison comparison;
  Margin margin = {};
  // Where it failed and somebody asked (Trial::Explain).
  std::optional<Diagnosis> diagnosis = {};

  bool passed() const { return outcome == Outcome::kPassed; }
  // Passed, as some wrong answers would have.
  bool blind() const { return passed() && !margin.blind_to.empty(); }
  // Within every tolerance, where it is wide enough for a wrong answer too.
  bool cannot_tell() const {
    return outcome == Outcome::kMistrusted && margin.value < 1 &&
           reason.starts_with("cannot tell");
  }
  static Verdict Skipped(std::string reason);
  static Verdict Failed(std::string reason);
};

// Gate 2: the error is at most this many times that of the plain dense program
// in the same scalar type.
inline constexpr double kYardstickFactor = 8;

// Gate 2 as one number, above 1 where it fails: the largest of all outputs.
double OverYardstick(const Comparison& comparison);

// The gate that decides; `norm_wise` as in Judge.
DecidingGate DecidingGateOf(const Comparison& comparison, bool norm_wise);

// How far an answer is from being taken: error over tolerance, the larger of
// both gates, or that of gate 1 alone. Infinite where NaN or infinity decide.
double DistanceOf(const Comparison& comparison, bool bound_alone);

// `norm_wise`: gate 1 is a bound of norms (an FFT's). Such an algorithm may
// lose against the plain program where numbers vary widely; then gate 1 decides
// and the disagreement is written down. Otherwise both gates must hold.
// Elements whose error even the plain dense program cannot bound could not have
// failed: they make a verdict mistrusted, unless the others fail.
// So does a margin below 1 of numbers that are ours: a wrong answer would have
// passed as well. Of a user's numbers a right answer has passed,
// with what the check is blind to, unless that is every wrong answer there is.
Verdict Judge(const Comparison& comparison, const Margin& margin,
              bool norm_wise, int64_t broken_guards,
              NumbersFrom from = NumbersFrom::kUs);

}  // namespace subquad
