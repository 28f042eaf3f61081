// Measures the power of a test: which wrong answers its tolerance accepts on
// given tensors, and which of them our gates would accept.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/judging/all_close.h"
#include "harness/judging/low_precision.h"

namespace subquad {

// A wrong answer and how a test judges it.
struct TriedAnswer {
  std::string name;  // the mistake, in words
  // Its largest error divided by the tolerance, with both answers stored in the
  // type of the test. The test accepts it up to 1.
  double over = 0;
  // Its largest error divided by our gates' tolerance for the plain program.
  double ours = 0;
  // Tells whether it equals the right answer on these tensors, to the last
  // digit of their type.
  bool same = false;
  // No choice of tensors would reveal the mistake (see WrongAnswer).
  bool small_by_design = false;
  // Shapes that would reveal it, in words; empty unless these shapes hide it
  // from every choice of values.
  std::string revealing_shapes = {};

  bool accepted() const { return over <= 1; }
};

// The answers by which the power of a test is measured.
struct TestAnswers {
  // The right one, on all rows or a sample, which the others refer to, and the
  // same as the type of the test stores it.
  std::unique_ptr<const Answer> expected, stored;
  // The wrong answers of every check (wrong_answers.h), common confusions
  // (mistakes.h) and arithmetic with too few digits (low_precision.h). Left out
  // are altered outputs and confusions that these inputs make equal to the
  // right answer, unless an option is given that the confusion gets wrong. One
  // mistake may have several answers.
  std::vector<WrongAnswer> wrong;
};

// Returns the answers to a problem whose inputs are in the scalar type of the
// test. If all rows would need more than about `most_work` multiply-adds, they
// are on a sample. Throws InvalidInput if the problem has no answer.
TestAnswers AnswersOfTest(const Problem& problem, const Inputs& inputs,
                          double most_work);

// Returns the answers of right programs on the same rows, named after their
// arithmetic; the first is the plain program. They cost about as much as the
// wrong answers of the same kinds.
std::vector<RightAnswer> RightAnswersOfTest(const Problem& problem,
                                            const Inputs& inputs,
                                            const TestAnswers& answers,
                                            double most_work);

// Rows of one output as a program returns them.
struct ReturnedRows {
  std::vector<size_t> rows;    // of the sample, in increasing order
  std::vector<double> values;  // [rows, width], rounded to the type
};

// Returns the rows that an answer has, by output: all rows of the sample if
// those that it does not mention are right, otherwise those that were computed.
std::vector<ReturnedRows> RowsOf(const Problem& problem, const Answer& stored,
                                 const WrongAnswer& answer);

// Tells whether an answer equals the right one to the last digit of the type in
// which that is stored.
bool IsSame(const Problem& problem, const Answer& stored,
            const WrongAnswer& wrong);

struct Power {
  // The wrong answers that apply, in the order in which they are made. If one
  // mistake has several answers, the one nearest to acceptance is listed.
  std::vector<TriedAnswer> tried;
  // The plain program's largest error divided by the tolerance, in the
  // arithmetic of this type; for 16-bit types, whose arithmetic is float32, at
  // least one unit in the last place. Above 1 the test rejects right programs.
  double right = 0;
  int64_t rows = 0;  // number of rows compared
  bool all_rows = true;
};

// Returns the power of a test with this tolerance, by AnswersOfTest. If only a
// sample of rows is compared, a larger error in another row is missed.
Power PowerOf(const Problem& problem, const Inputs& inputs,
              const AllClose& tolerance, double most_work);

}  // namespace subquad
