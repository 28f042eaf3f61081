#include "harness/papers/frame/counts.h"

#include <cmath>

namespace subquad {

const Theory kLinearGrowth = {"{0}", [](double n) { return n; }};
const Theory kNLogN = {"{0} log2 {0}",
                       [](double n) { return n * std::log2(n); }};
const Theory kSquare = {"{0}^2", [](double n) { return n * n; }};

double LargestDifference(const Row<Counted>& a, const Row<Counted>& b) {
  const auto numbers = [](const Row<Counted>& row) {
    Numbers out;
    for (const Counted& one : row) out.push_back(one.value());
    return out;
  };
  return LargestDifference(numbers(a), numbers(b));
}

namespace {

Growth GrowthBy(Measured (Finding::*keep)(const std::string&, double),
                Finding& finding, const std::string& what,
                const std::string& symbol, const Counts& counts,
                const Theory& theory) {
  if (counts.sizes.size() < 3 ||
      counts.sizes.size() != counts.operations.size() ||
      !(counts.sizes.back() >= 8 * counts.sizes.front()))
    return {false, false, "too few counts of operations"};
  const std::string formula = fmt::format(fmt::runtime(theory.text), symbol);
  const auto share = [&](size_t at, const char* which) {
    return (finding.*keep)(
        fmt::format("operations over {}, {}, {}", formula, what, which),
        counts.operations[at] / theory.of(counts.sizes[at]));
  };
  const size_t end = counts.sizes.size() - 1;
  const Measured first = share(0, "first"), last = share(end, "last");
  const bool known = first > 0 && last > 0;
  return {
      known, known && last <= 1.25 * first && first <= 1.25 * last,
      fmt::format("{} {} operations at {} = {:.10g} and {} at {:.10g}", first,
                  formula, symbol, counts.sizes[0], last, counts.sizes[end])};
}

}  // namespace

Growth JudgeGrowth(Finding& finding, const std::string& what,
                   const std::string& symbol, const Counts& counts,
                   const Theory& theory) {
  return GrowthBy(&Finding::Measure, finding, what, symbol, counts, theory);
}
Growth MentionGrowth(Finding& finding, const std::string& what,
                     const std::string& symbol, const Counts& counts,
                     const Theory& theory) {
  return GrowthBy(&Finding::Mention, finding, what, symbol, counts, theory);
}

double TransformOperations(int64_t n) {
  Counted::Reset();
  ToeplitzByTransform(Row<Counted>(static_cast<size_t>(2 * n - 1)),
                      Row<Counted>(static_cast<size_t>(n)), 1);
  return static_cast<double>(Counted::operations());
}

}  // namespace subquad
