// Table 3 of FastRPB: hours of training and peak memory in GB on an A100, as
// printed, and the factors that the text claims.
#pragma once

#include <algorithm>
#include <limits>

namespace subquad::fastrpb_table3 {

// What was not run is NaN.
inline constexpr double kNot = std::numeric_limits<double>::quiet_NaN();

struct Row {
  const char *task, *model;
  double none, fastrpb, sine, conv;              // hours
  double none_gb, fastrpb_gb, sine_gb, conv_gb;  // peak memory
};

inline constexpr Row kRows[] = {
    {"AAN", "Original", kNot, kNot, kNot, kNot, 5.81, 6.03, kNot, kNot},
    {"AAN", "DPFP", 0.36, 0.43, 2.45, 15.41, 0.31, 0.57, 0.78, 0.87},
    {"AAN", "SIKF", 0.36, 0.45, 1.22, 9.12, 0.31, 0.57, 0.78, 0.83},
    {"AAN", "ReLU", 0.36, 0.45, 1.26, 9.13, 0.31, 0.57, 0.78, 0.83},
    {"AAN", "Performer", 0.6, 0.79, 1.6, 10.52, 0.54, 0.68, 0.77, 0.87},
    {"ListOps", "Original", 0.74, 0.85, kNot, kNot, 3.25, 3.49, kNot, kNot},
    {"ListOps", "DPFP", 0.26, 0.36, 2.3, 13.8, 0.68, 0.85, 1.32, 1.33},
    {"ListOps", "SIKF", 0.24, 0.34, 0.95, 6.85, 0.68, 0.85, 1.32, 1.33},
    {"ListOps", "ReLU", 0.24, 0.34, 0.98, 6.87, 0.68, 0.85, 1.32, 1.33},
    {"ListOps", "Performer", 0.38, 0.48, 1.06, 8.7, 0.67, 0.9, 1.03, 1.32},
    {"CIFAR", "Original", 1.94, 1.97, kNot, kNot, 12.36, 12.39, kNot, kNot},
    {"CIFAR", "DPFP", 1.94, 1.97, 2.07, 2.44, 12.36, 12.39, 12.57, 12.58},
    {"CIFAR", "SIKF", 1.94, 1.96, 2.06, 2.43, 12.36, 12.39, 12.57, 12.58},
    {"CIFAR", "ReLU", 1.94, 1.97, 2.06, 2.44, 12.36, 12.39, 12.57, 12.58},
    {"CIFAR", "Performer", 1.94, 1.96, 2.07, 2.44, 12.36, 12.39, 12.57, 12.58},
    {"TC", "Original", 1.81, 2.24, kNot, kNot, 0.52, 0.52, kNot, kNot},
    {"TC", "DPFP", 1.48, 1.58, 4.25, 13.56, 0.23, 0.23, 0.33, 0.43},
    {"TC", "SIKF", 1.56, 1.62, 3.52, 9.85, 0.23, 0.23, 0.33, 0.43},
    {"TC", "ReLU", 1.46, 1.62, 3.54, 9.85, 0.23, 0.23, 0.33, 0.43},
    {"TC", "Performer", 1.93, 2.38, 5.81, 40.09, 0.33, 0.41, 0.33, 0.47},
};

// The largest and the smallest of a column over FastRPB's.
constexpr double MostOver(double Row::*column, double Row::*fastrpb) {
  double most = 0;
  for (const Row& row : kRows)
    if (row.*column == row.*column)
      most = std::max(most, row.*column / row.*fastrpb);
  return most;
}
constexpr double LeastOver(double Row::*column, double Row::*fastrpb) {
  double least = std::numeric_limits<double>::infinity();
  for (const Row& row : kRows)
    if (row.*column == row.*column)
      least = std::min(least, row.*column / row.*fastrpb);
  return least;
}

inline constexpr double kSine = MostOver(&Row::sine, &Row::fastrpb),
                        kConv = MostOver(&Row::conv, &Row::fastrpb);

// "Up to" so many times cheaper.
inline constexpr double kSaidSine = 3, kSaidConv = 30;

// A ratio this many times the table's is a matter of the programs, not of the
// methods.
inline constexpr double kFarBeyond = 3;

}  // namespace subquad::fastrpb_table3
