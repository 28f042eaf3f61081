// Table 3 of FastRPB: hours of training with SPE and with FastRPB, DPFP on AAN
// (the rows furthest apart), and the factors that the text claims.
#pragma once

namespace subquad::fastrpb_table3 {

inline constexpr double kSine = 2.3 / 0.36, kConv = 15.41 / 0.43;  // hours

// "Up to" so many times cheaper.
inline constexpr double kSaidSine = 3, kSaidConv = 30;

// A ratio this many times the table's is a matter of the programs, not of the
// methods.
inline constexpr double kFarBeyond = 3;

}  // namespace subquad::fastrpb_table3
