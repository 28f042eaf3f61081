// libFuzzer target: for any case.json and any shapes of its tensors, the answer
// is a problem with sizes that the shapes account for, or an error of one line.
// The first bytes choose the shapes, the rest is the text.
//
//   clang++ -std=c++20 -g -O1 -I. -fsanitize=fuzzer,address,undefined
//     tests/harness/cases/fuzz_case.cc
//     BUILD/libsubquad_{harness,optimized,reference}.a ..
//   ./fuzz_case -malloc_limit_mb=64 -rss_limit_mb=2048 CORPUS
//
// (tests/harness/cases/fuzz_case.sh builds the files that it needs and runs
// it.)
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "harness/cases/case_folder.h"

namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

constexpr size_t kShapeBytes = 8;

// Returns small extents mostly, and some that overflow when multiplied.
int64_t ExtentFrom(uint8_t byte) {
  constexpr int64_t kOdd[] = {0, -1, 1LL << 31, 1LL << 40, 1LL << 62};
  return byte < 250 ? byte % 50 : kOdd[byte - 250 < 5 ? byte - 250 : 4];
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < kShapeBytes) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + kShapeBytes,
                         size - kShapeBytes);
  try {
    const subquad::CaseText parsed = subquad::ParseCaseText(text);
    std::vector<std::string> names;
    std::vector<subquad::GivenShape> shapes;
    size_t at = 0;
    for (const auto& [name, file] : parsed.inputs) {
      names.push_back(name);
      subquad::GivenShape shape{name, {}};
      const size_t rank = data[at++ % kShapeBytes] % 5;
      for (size_t i = 0; i < rank; ++i)
        shape.shape.push_back(ExtentFrom(data[at++ % kShapeBytes]));
      shapes.push_back(shape);
    }
    subquad::CheckInputNames(*parsed.op, parsed.params, names);
    const subquad::Problem problem = subquad::ResolveProblem(
        *parsed.op, parsed.params, subquad::Scalar::kFloat64, shapes);
    for (size_t i = 0; i < problem.inputs.size(); ++i)
      Require(!problem.InputShape(i).empty());
    for (size_t i = 0; i < problem.outputs.size(); ++i)
      Require(subquad::ElementCount(problem.OutputShape(i)) > 0);
  } catch (const subquad::InvalidInput& refusal) {
    const std::string_view line = refusal.what();
    Require(!line.empty() && line.size() < 2100);
    for (const char c : line)
      Require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  }
  return 0;
}
