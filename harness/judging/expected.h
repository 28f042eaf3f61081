// Uses the expected outputs of a case folder instead of the reference's answer.
#pragma once

#include "harness/cases/case_folder.h"
#include "harness/judging/trial.h"

namespace subquad {

// The answer with which implementations of one scalar type are compared.
//
// The reference supplies the error bounds and the effect of rounding the
// inputs: for every row up to kAllRows, for a sample of the rows above. All
// rows of the expected outputs are compared in either case: a row between two
// sampled ones must stay within half of the smaller of their tolerances, and if
// it does not, the reference computes that row. A verdict on all n rows then
// costs the reference a few hundred rows only.
class ExpectedAnswer {
 public:
  // `folder` must outlive this object. The inputs are the folder's, rounded to
  // the problem's scalar type. Throws InvalidInput if the problem has no
  // answer.
  ExpectedAnswer(const CaseFolder& folder, const Problem& problem,
                 const Inputs& rounded);

  // Returns the answer with the expected outputs, for Trial::set_answer.
  Answer WithExpected() const;

  // Judges the outputs of the trial, including the rows beyond the sample. Rows
  // that had to be computed for this become part of the answer.
  Verdict JudgeAllRows(const Implementation& implementation, Trial& trial,
                       Verdict sampled);

  // Returns the reference's own answer to the rounded inputs.
  const Answer& reference() const { return answer_; }

  // Adds the rows that were computed for another scalar type.
  void AddRowsOf(const ExpectedAnswer& other);

  // Tells whether the plain dense program overflows although the reference does
  // not.
  bool PlainOverflows() const;

 private:
  void AddRows(std::vector<RowSelection> rows);

  const CaseFolder& folder_;
  Problem problem_;
  const Inputs& rounded_;
  bool same_;  // no input had to be rounded
  Answer answer_, unrounded_;
};

}  // namespace subquad
