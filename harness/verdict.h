// What a comparison means: policy without arithmetic (SPEC: verdicts).
#pragma once

#include <cstdint>
#include <string>

#include "harness/comparison.h"

namespace subquad {

enum class Outcome { kPassed, kFailed, kMistrusted, kSkipped };
std::string_view ToString(Outcome outcome);

struct Verdict {
  Outcome outcome = Outcome::kSkipped;
  std::string reason;  // in words, unless it passed
  std::string gates;   // where the two gates disagree
  Comparison comparison;

  bool passed() const { return outcome == Outcome::kPassed; }
  static Verdict Skipped(std::string reason);
  static Verdict Failed(std::string reason);
};

// Gate 2: the error is at most this many times that of the plain dense program
// in the same scalar type.
inline constexpr double kYardstickFactor = 8;
// With fewer elements the plain program's largest error is a matter of luck,
// and gate 1 decides alone: sums are short there, and it is tight.
inline constexpr int64_t kYardstickElements = 16;

// `norm_wise`: gate 1 is a bound of norms (an FFT's). Such an algorithm may
// lose against the plain program where numbers vary widely; then gate 1 decides
// and the disagreement is written down. Otherwise both gates must hold.
// Elements whose error even the plain dense program cannot bound could not have
// failed: they make a verdict mistrusted, unless the others fail.
Verdict Judge(const Comparison& comparison, bool norm_wise,
              int64_t broken_guards);

}  // namespace subquad
