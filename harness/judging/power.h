// Could a test fail? Which wrong answers a tolerance takes for right on given
// tensors, beside our gates on the same tensors; and what would change that.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/judging/all_close.h"

namespace subquad {

// A wrong answer before a test.
struct TriedAnswer {
  std::string name;  // the mistake, in words
  // Its largest error over the tolerance, both answers stored in the type of
  // the test: accepted up to 1.
  double over = 0;
  // The same by our gates, for a program of the plain program's bound.
  double ours = 0;
  // On these tensors it is the right answer, to the last digit of their type.
  bool same = false;
  // As in WrongAnswer: other tensors would not show it.
  bool small_by_choice = false;

  bool accepted() const { return over <= 1; }
};

struct Power {
  // Wrong answers that apply, in the order in which they are made; of several
  // that are one mistake the one that is nearest to being accepted.
  std::vector<TriedAnswer> tried;
  // The largest error over the tolerance of the plain program in the arithmetic
  // of this type; in a type of two bytes, whose arithmetic is float32's, at
  // least one unit in the last place. Above 1 the test refuses what is right.
  double right = 0;
  int64_t rows = 0;  // compared; of altered outputs and misread problems
  bool all_rows = true;
};

// `problem` in the scalar type of the test, its inputs in that type too; they
// are altered on the way and given back as they were. Beside the wrong answers
// of every check (wrong_answers.h), which here count also where they coincide
// with the right answer, it tries usual confusions (confusions.h) and
// arithmetic with too few digits (low_precision.h). Where about `most_work`
// multiply-adds are not enough for all rows some of them are taken, and an
// error that is largest in another row is not seen. Throws InvalidInput where
// the problem has no answer.
Power PowerOf(const Problem& problem, Inputs& inputs, const AllClose& tolerance,
              double most_work);

}  // namespace subquad
