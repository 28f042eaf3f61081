// Wrong answers, to show that a check can fail: those that programs have given
// somewhere, made on the rows that are judged. A verdict is worth what keeps
// the nearest of them out: its margin.
//
// Some are altered outputs (a table in the .cc); the others are the
// reference's answers to a problem misread (misreadings.h). Each kind is one
// row of a table.
#pragma once

#include <vector>

#include "harness/judging/verdict.h"

namespace subquad {

// Altered outputs, those included that coincide with the right answer.
// The parts refer to the answer, which must outlive them.
std::vector<WrongAnswer> AlteredAnswers(const Problem& problem,
                                        const Answer& answer);

// It differs from the right answer by no more than two roundings of its largest
// number to the problem's scalar type: it is right.
bool Coincides(const Problem& problem, const Answer& answer,
               const WrongAnswer& wrong);

// The wrong answers that apply; one that coincides with the right answer (a
// bias of zero) is left out, unless it is small by choice.
// `inputs` are altered on the way and given back as they were.
// The parts refer to the answer, which must outlive them.
// Problems are misread only if that takes at most about `most_work`
// multiply-adds of the reference.
std::vector<WrongAnswer> MakeWrongAnswers(const Problem& problem,
                                          Inputs& inputs, const Answer& answer,
                                          double most_work = kNoLimit);

// Of an implementation with this tolerance; `bound_alone`: gate 1
// decides alone. A wrong answer that would have been taken does not count where
// it is no further from the right one than the rounding of the inputs moves it
// (input_rounding.h). `inputs` are altered on the way and given back as they
// were.
Margin MarginOf(const Problem& problem, Inputs& inputs, const Answer& answer,
                const std::vector<WrongAnswer>& wrong_answers,
                const Tolerance& tolerance, bool bound_alone);

}  // namespace subquad
