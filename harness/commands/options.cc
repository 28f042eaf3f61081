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

CLI::Validator PositiveUpTo(double most) {
  return CLI::Validator(
      [most](std::string& text) {
        const auto value = ParseNumber<double>(text);
        // NaN fails both comparisons.
        if (value && *value > 0 && *value <= most) return std::string();
        return fmt::format(
            "expected a number above 0 and up to {:g}, found "
            "'{}'",
            most, text);
      },
      "");
}

}  // namespace subquad
