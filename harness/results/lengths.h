// Places records on curves, by their fields `tokens` and `length_axes`.
#pragma once

#include <nlohmann/json.hpp>

namespace subquad {

using Json = nlohmann::ordered_json;

// Returns the abscissa of a record: its tokens (queries, pixels), or its keys
// if the numbers of queries and keys are separate and differ.
double LengthOf(const Json& record);

// Returns the settings that distinguish a curve from others of its
// implementation: threads, sizes that do not follow n, and parameters. A
// rectangle keeps its n_q; an image that is not square keeps its aspect
// ("2:1").
Json CurveSettings(const Json& record);

}  // namespace subquad
