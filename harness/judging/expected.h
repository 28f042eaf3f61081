// The expected numbers of a case folder in place of the reference's answer.
#pragma once

#include "harness/cases/case_folder.h"
#include "harness/judging/trial.h"

namespace subquad {

// The answer that implementations of one scalar type are held against.
//
// Bounds, and what rounded inputs change in the answer, come from the
// reference: for every row up to kAllRows, for a sample of them above. The
// expected numbers of all rows are compared all the same: each row between two
// sampled ones must stay within half of the smaller of their tolerances, and
// for a row that does not the reference works out its own. So a verdict on n
// rows costs the reference's answer for a few hundred of them, and is not a
// sample's.
class ExpectedAnswer {
 public:
  // `folder` must outlive this. The inputs are the folder's, rounded to the
  // problem's scalar type. Throws InvalidInput where the problem has no answer.
  ExpectedAnswer(const CaseFolder& folder, const Problem& problem,
                 const Inputs& rounded);

  // With the expected numbers, for Trial::set_answer.
  Answer WithExpected() const;

  // Judges what is in the outputs of the trial, rows beyond the sample
  // included. The rows that had to be worked out stay part of the answer.
  Verdict JudgeAllRows(const Implementation& implementation, Trial& trial,
                       Verdict sampled);

  // The reference's own answer to the rounded inputs.
  const Answer& reference() const { return answer_; }

  // Adds rows that were worked out for another scalar type.
  void AddRowsOf(const ExpectedAnswer& other);

  // The plain dense program has no finite number where the reference has one.
  bool PlainOverflows() const;

 private:
  void AddRows(std::vector<RowSelection> rows);

  const CaseFolder& folder_;
  Problem problem_;
  const Inputs& rounded_;
  bool same_;  // nothing had to be rounded
  Answer answer_, unrounded_;
};

}  // namespace subquad
