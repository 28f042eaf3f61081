#include "harness/results/lengths.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace subquad {
namespace {

using Names = std::vector<std::string>;

struct Lengths {
  explicit Lengths(const Json& record) {
    const Json& size = record.at("size");
    axes = record.at("length_axes").get<Names>();
    for (const std::string& axis : axes)
      extents.push_back(size.at(axis).get<int64_t>());
    equal = std::ranges::adjacent_find(extents, std::ranges::not_equal_to()) ==
            extents.end();
    rectangle = !equal && size.at("n_q") != size.at("n_k");
  }

  // Returns the aspect as text, such as "2:1".
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
  return Lengths(record).rectangle ? record.at("size").at("n_k").get<double>()
                                   : record.at("tokens").get<double>();
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
