// Where a record is on its curve, and what the records of one curve share, from
// their fields `tokens` and `length_axes`.
#pragma once

#include <nlohmann/json.hpp>

namespace subquad {

using Json = nlohmann::ordered_json;

// The abscissa: the record's tokens (queries, pixels). Where queries and keys
// are lengths of their own that differ, its keys.
double LengthOf(const Json& record);

// What tells a curve from others of its implementation: threads, sizes that do
// not follow n, and parameters. A rectangle keeps its n_q, an image that is not
// square its aspect ("2:1").
Json CurveSettings(const Json& record);

}  // namespace subquad
