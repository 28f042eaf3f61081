// All papers, and what they hold: claims and studies.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/papers/frame/claim.h"

namespace subquad {

// In the order in which they are printed; this project's own comes last.
const std::vector<Paper>& Papers();

// All claims, in the order of the papers and of their texts.
const std::vector<Claim>& Claims();
// Throws std::logic_error.
const Claim& FindClaim(std::string_view id);

// All studies, in the order of the papers.
const std::vector<Study>& Studies();
// Throws InvalidInput that lists all studies.
const Study& FindStudy(std::string_view name);

}  // namespace subquad
