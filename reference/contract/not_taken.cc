#include "reference/contract/not_taken.h"

#include <algorithm>

#include "reference/contract/pair_places.h"

namespace subquad {
namespace {

// What most GPU kernels do not take. Packed sequences come before query_offset,
// which is a list with them.
constexpr const char* kSeldomTaken[] = {
    "packed_q",     "key_lengths", "window_left", "window_right", "softcap",
    "query_offset", "sinks",       "slopes",      "buckets",      "mask",
    "pair_bias",    "block_mask",  "lse"};

bool Uses(const Problem& problem, const std::string& name) {
  const Params& params = problem.params;
  // Every kernel takes a query_offset of 0, the default.
  if (name == "query_offset")
    return params.Has(name) && params.Integer(name) != 0;
  return params.Has(name) || problem.HasInput(name) ||
         IndexOf(problem.outputs, name) >= 0;
}

}  // namespace

std::vector<std::string> NamesNotTaken(const Implementation& row) {
  std::vector<std::string> names;
  for (const char* name : kSeldomTaken)
    if (std::ranges::find(row.takes, name) == row.takes.end())
      names.emplace_back(name);
  return names;
}

std::string Refused(const Problem& problem, const Implementation& row) {
  for (const Refusal& refusal : row.refuses) {
    if (!Uses(problem, refusal.name)) continue;
    if (!refusal.for_pairs_only ||
        PairPlaces::Of(problem, refusal.name).query > 0)
      return refusal.name + ": " + refusal.why;
  }
  return "";
}

std::string NotTaken(const Problem& problem, const Implementation& row) {
  for (const std::string& name : NamesNotTaken(row))
    if (Uses(problem, name)) return "this GPU kernel does not support " + name;
  for (size_t i = 0; i < problem.inputs.size() && !row.takes_groups; ++i)
    if (!problem.InputSlices(i).IsEvenlySpaced())
      return "in this GPU kernel, a tensor must be shared by all heads of all "
             "batch items or by none, unlike " +
             problem.inputs[i].name;
  return "";
}

}  // namespace subquad
