#include "harness/results/lengths.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace subquad {
namespace {

using Names = std::vector<std::string>;

// Records written before they named their axes have one of these sets.
Names AxesBefore(const Json& size) {
  for (const Names& axes : {Names{"height", "width"}, {"L", "M"}, {"n"}})
    if (std::ranges::all_of(
            axes, [&](const std::string& name) { return size.contains(name); }))
      return axes;
  return {"n_q", "n_k"};
}

struct Lengths {
  explicit Lengths(const Json& record) {
    const Json& size = record.at("size");
    axes = record.contains("length_axes")
               ? record.at("length_axes").get<Names>()
               : AxesBefore(size);
    for (const std::string& axis : axes)
      extents.push_back(size.at(axis).get<int64_t>());
    equal = std::ranges::adjacent_find(extents, std::ranges::not_equal_to()) ==
            extents.end();
    rectangle = !equal && size.at("n_q") != size.at("n_k");
  }

  // "2:1"
  std::string Aspect() const {
    int64_t common = 0;
    for (const int64_t extent : extents) common = std::gcd(common, extent);
    std::string text;
    for (const int64_t extent : extents)
      text += (text.empty() ? "" : ":") + std::to_string(extent / common);
    return text;
  }

  Names axes;
  std::vector<int64_t> extents;
  bool equal, rectangle;
};

}  // namespace

double LengthOf(const Json& record) {
  const Json& size = record.at("size");
  if (Lengths(record).rectangle) return size.at("n_k").get<double>();
  return record.contains("tokens") ? record.at("tokens").get<double>()
                                   : size.at("n_q").get<double>();
}

Json CurveSettings(const Json& record) {
  const Lengths lengths(record);
  Json size = record.at("size");
  for (const std::string& axis : lengths.axes) size.erase(axis);
  size.erase("n_k");
  if (lengths.rectangle)
    size["n_q"] = record.at("size").at("n_q");
  else
    size.erase("n_q");
  Json settings = {{"threads", record.at("threads")},
                   {"size", std::move(size)},
                   {"params", record.at("params")}};
  if (!lengths.equal && !lengths.rectangle)
    settings["aspect"] = lengths.Aspect();
  return settings;
}

}  // namespace subquad
