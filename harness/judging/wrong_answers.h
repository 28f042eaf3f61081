// Wrong answers made from the right one, to show that a check can fail: every
// implementation's tolerance has to refuse each of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/judging/trial.h"

namespace subquad {

// Whole outputs, in the order of Problem::outputs. NaN stands for an element
// that was never written.
using Outputs = std::vector<std::vector<double>>;

struct WrongAnswer {
  std::string name;  // the mistake, in words
  Outputs outputs;
};

// The reference's answer, rounded to the problem's scalar type. All of its rows
// must have been computed.
Outputs RightAnswer(const Problem& problem, const Answer& answer);

// One mistake at a time, in one output at a time: all zero, sign flipped, rows
// shifted by one, one row zeroed, another head's rows, last row left out,
// scaled by 1.001; and the reference's own answers to a problem misread: offset
// i - j for j - i (the tensors' offset axes reversed), each flag the other way.
// Some may coincide with the right answer (one row, one head, a symmetric
// problem): see Coincides.
std::vector<WrongAnswer> MakeWrongAnswers(const Trial& trial,
                                          const Outputs& right, uint64_t seed);

// Nothing differs by more than the rounding of the largest number of its output
// to the scalar type: such a "wrong" answer is right.
bool Coincides(const Problem& problem, const Outputs& right,
               const Outputs& wrong);

// How far a refused answer is from being taken: error over tolerance, the
// larger of the gates that apply to this implementation. Above 1 it is refused;
// infinite where NaN, infinity or untouched elements decide.
double DistanceOf(const Verdict& verdict, bool norm_wise);

}  // namespace subquad
