// Formats numbers for sentences.
#pragma once

#include <string>

namespace subquad {

// Formats three significant digits: 0.0425, 23.5, 1620 instead of 1.62e+03,
// 3.5e-09.
// reports/drawing/plot_style.py writes the same text.
std::string ThreeDigits(double value);

}  // namespace subquad
