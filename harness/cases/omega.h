// Samples projections of random features, [rows, d] (NPRF section 2;
// Choromanski 2021).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/cases/draws.h"

namespace subquad {

// gaussian: rows independent N(0, I).
// orthogonal: blocks of d rows are a random orthogonal basis, each row as long
//   as an independent N(0, I) vector (ORF).
// sphere: rows uniform on the sphere of radius sqrt(d).
const std::vector<std::string_view>& OmegaSamplers();

// Throws InvalidInput for an unknown sampler.
void CheckOmegaSampler(std::string_view name);

// Samples [rows, d]. `first` is the index of the first draw; heads use
// consecutive indices. The gaussian values are
// draws.Normal(first + row * d + column), and the other samplers start from
// them; `lengths` draws the lengths of rows.
std::vector<double> SampleOmega(std::string_view sampler, int64_t rows,
                                int64_t d, const Draws& draws,
                                const Draws& lengths, uint64_t first);

}  // namespace subquad
