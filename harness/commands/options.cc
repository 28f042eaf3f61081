// Options that several commands have.
#include <fmt/format.h>

#include <cmath>

#include "harness/base/text.h"
#include "harness/commands/commands.h"
#include "optimized/targets.h"

namespace subquad {

void AddFilterOptions(CLI::App& command, Filters& filters) {
  command.add_option("--operator", filters.operators,
                     "only this operator, as in `subquad list` (repeatable)");
  command.add_option("--implementation", filters.implementations,
                     "only this implementation (repeatable)");
  command.add_option("--backend", filters.backends, "cpu or cuda (repeatable)");
  command.add_option("--scalar", filters.scalars,
                     "float32, float64, bfloat16 or float16 (repeatable)");
}

void AddTargetOption(CLI::App& command) {
  command.add_option_function<std::string>(
      "--target", [](const std::string& name) { ChooseTarget(name); },
      "instruction set of CPU implementations: sse4, avx2, avx512 or neon "
      "(default: the best that the processor has)");
}

namespace {

template <typename Seed>
CLI::Option* AddSeed(CLI::App& command, Seed& seed) {
  const auto parse = [&seed](const std::string& text) {
    seed = static_cast<uint64_t>(ParseInteger(
        "--seed", text, 0, "an integer from 0 to 9223372036854775807"));
  };
  return command.add_option_function<std::string>("--seed", parse,
                                                  "seed for generated inputs");
}

}  // namespace

CLI::Option* AddSeedOption(CLI::App& command, uint64_t& seed) {
  return AddSeed(command, seed);
}
CLI::Option* AddSeedOption(CLI::App& command, std::optional<uint64_t>& seed) {
  return AddSeed(command, seed);
}

void AddForceOption(CLI::App& command, bool& force) {
  command.add_flag("--force", force, "replace what --out names if it exists");
}

namespace {

// Validates text for which `accepts` returns true.
template <typename Accepts>
CLI::Validator Expecting(std::string expected, Accepts accepts) {
  return CLI::Validator(
      [expected = std::move(expected), accepts](std::string& text) {
        return accepts(text)
                   ? std::string()
                   : fmt::format("expected {}, found '{}'", expected, text);
      },
      "");
}

}  // namespace

CLI::Validator PositiveUpTo(double most) {
  return Expecting(fmt::format("a number above 0 and up to {:g}", most),
                   [most](const std::string& text) {
                     const auto value = ParseNumber<double>(text);
                     // NaN fails both comparisons.
                     return value && *value > 0 && *value <= most;
                   });
}

CLI::Validator AtLeastZero() {
  return Expecting("a number of at least 0", [](const std::string& text) {
    const auto value = ParseNumber<double>(text);
    return value && std::isfinite(*value) && *value >= 0;
  });
}

CLI::Validator IntegerFromTo(int64_t least, int64_t most) {
  return Expecting(fmt::format("an integer from {} to {}", least, most),
                   [least, most](const std::string& text) {
                     const auto value = ParseNumber<int64_t>(text);
                     return value && *value >= least && *value <= most;
                   });
}

}  // namespace subquad
