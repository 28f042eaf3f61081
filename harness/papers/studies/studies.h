// All studies, one function each.
#pragma once

#include <string>
#include <vector>

#include "harness/papers/studies/study.h"

namespace subquad {

// A plain list, in the order of their papers.
const std::vector<Study>& Studies();
// Throws InvalidInput that lists all studies.
const Study& FindStudy(std::string_view name);

Study PrfVarianceStudy();
Study ApproximationErrorStudy();
Study BaselinesStudy();
Study SampleComplexityStudy();
Study FeatureMapsStudy();
Study ConversionStudy();
Study RpeRankStudy();
Study PrecisionStudy();
Study SinusoidalStudy();
Study BiasMapsStudy();
Study SpeConvergenceStudy();
Study SparsePatternsStudy();
Study ShiftedScoresStudy();
Study SpectraStudy();
Study MarginsStudy();

// Mean and its standard error, by the sum of squares about the mean.
struct MeanError {
  double mean = 0, error = 0;
};
MeanError MeanWithError(const std::vector<double>& samples);

// The q-quantile of the samples, interpolated.
double Quantile(std::vector<double> samples, double q);

// The larger or smaller of two, or NaN if one of them is: no verdict may ignore
// a missing number.
double Worst(double a, double b);
double Least(double a, double b);

// kReproduced, or kInPart if only the weaker rule holds.
ClaimVerdict Decide(bool fully, bool in_part = false);

}  // namespace subquad
