#include "harness/judging/low_precision.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <thread>

#include "optimized/base/thread_pool.h"
#include "reference/base/work.h"

namespace subquad {
namespace {

constexpr double kFewestRows = 4;  // of an output
constexpr double kMostWork = 5e8;  // for these: about ten seconds

struct Kind {
  const char* name;
  Arithmetic arithmetic;
};

constexpr Arithmetic Factors(Format format, Format own) {
  return {.result = own, .sum = own, .factor = format};
}
constexpr Arithmetic SumsIn(Format format, Format own) {
  return {.result = own, .sum = format, .factor = own};
}

std::vector<Kind> LowPrecision(Scalar scalar) {
  const Format own = Format::Float32(), bf16 = Format::BFloat16(),
               fp16 = Format::Float16(), tf32 = Format::TensorFloat32();
  switch (scalar) {
    case Scalar::kFloat64: {
      const Format wide = Format::Float64();
      return {{"products of float32", Factors(own, wide)},
              {"sums in float32", SumsIn(own, wide)}};
    }
    case Scalar::kFloat32:
      return {{"products of TensorFloat32", Factors(tf32, own)},
              {"products of bfloat16", Factors(bf16, own)},
              {"sums in bfloat16", SumsIn(bf16, own)},
              {"sums in float16", SumsIn(fp16, own)}};
    case Scalar::kBFloat16:
      return {{"sums in bfloat16", SumsIn(bf16, own)}};
    case Scalar::kFloat16:
      return {{"products of bfloat16", Factors(bf16, own)},
              {"sums in float16", SumsIn(fp16, own)}};
  }
  return {};
}

// Returns up to `most_rows` rows of each output, spread over the answer's rows,
// for which the reference has a value.
template <typename Real>
WrongAnswer AnswerOf(const std::string& name, Reference<Real>& reference,
                     const Answer& answer,
                     const std::vector<size_t>& most_rows) {
  WrongAnswer wrong{name, {}};
  for (size_t o = 0; o < answer.outputs.size(); ++o) {
    const OutputAnswer& output = answer.outputs[o];
    const auto width = static_cast<size_t>(output.width);
    std::vector<size_t> rows;
    std::vector<long double> values;
    std::vector<Real> row(width);
    for (const size_t r :
         SpreadRows(output.selection.rows.size(), most_rows[o])) {
      try {
        reference.Row(output.selection.rows[r], row.data(), nullptr);
      } catch (const InvalidInput&) {
        continue;  // rounding has turned a small normaliser into zero
      }
      rows.push_back(r);
      for (const Real& value : row)
        values.push_back(static_cast<long double>(value));
    }
    if (!rows.empty())
      wrong.parts.push_back(
          KeptRows(o, std::move(rows), width, std::move(values)));
  }
  return wrong;
}

std::vector<WrongAnswer> EmulatedAnswers(const std::vector<Kind>& kinds,
                                         const Problem& problem,
                                         const Inputs& inputs,
                                         const Answer& answer,
                                         double most_work) {
  const auto outputs = static_cast<double>(answer.outputs.size());
  const double shared = SharedWork(problem);
  double fewest = shared;
  for (size_t o = 0; o < answer.outputs.size(); ++o)
    fewest += kFewestRows * WorkOfRow(problem, static_cast<int>(o));
  if (fewest > kMostWork) return {};
  const double each = (std::max(most_work, fewest) - shared) / outputs;
  std::vector<size_t> most_rows;
  for (size_t o = 0; o < answer.outputs.size(); ++o)
    most_rows.push_back(std::max(
        size_t{1},
        static_cast<size_t>(each / WorkOfRow(problem, static_cast<int>(o)))));
  std::vector<WrongAnswer> wrong_answers(kinds.size());
  // The emulated arithmetic is a setting of each thread.
  ThreadPool pool(static_cast<int>(std::thread::hardware_concurrency()));
  pool.For(static_cast<int64_t>(kinds.size()), [&](int64_t index, int) {
    const auto at = static_cast<size_t>(index);
    const ArithmeticScope scope(kinds[at].arithmetic, 1);
    wrong_answers[at] = AnswerOf(
        kinds[at].name, *problem.op->ReferenceEmulated(problem, inputs), answer,
        most_rows);
  });
  return wrong_answers;
}

}  // namespace

std::vector<WrongAnswer> LowPrecisionAnswers(const Problem& problem,
                                             const Inputs& inputs,
                                             const Answer& answer,
                                             double most_work) {
  std::vector<WrongAnswer> answers = EmulatedAnswers(
      LowPrecision(problem.scalar), problem, inputs, answer, most_work);
  std::erase_if(answers,
                [](const WrongAnswer& wrong) { return wrong.parts.empty(); });
  return answers;
}

WrongAnswer PlainAnswer(const Problem& problem, const Inputs& inputs,
                        const Answer& answer) {
  const std::vector<size_t> all(answer.outputs.size(), SIZE_MAX);
  if (problem.scalar == Scalar::kFloat64)
    return AnswerOf("float64", *problem.op->ReferenceDouble(problem, inputs),
                    answer, all);
  return AnswerOf("float32", *problem.op->ReferenceFloat(problem, inputs),
                  answer, all);
}

std::vector<RightAnswer> RightAnswers(const Problem& problem,
                                      const Inputs& inputs,
                                      const Answer& answer, double most_work) {
  std::vector<RightAnswer> right;
  right.push_back(
      {RightArithmetic::kPlain, PlainAnswer(problem, inputs, answer)});
  if (Info(problem.scalar).bytes != 2) return right;
  const Format own = problem.scalar == Scalar::kBFloat16 ? Format::BFloat16()
                                                         : Format::Float16();
  constexpr RightArithmetic kEmulated[] = {RightArithmetic::kFactorsInType,
                                           RightArithmetic::kResultsInType};
  std::vector<WrongAnswer> emulated = EmulatedAnswers(
      {{"factors in its type, sums in float32",
        Factors(own, Format::Float32())},
       {"factors and results in its type, sums in float32",
        {.result = own, .sum = Format::Float32(), .factor = own}}},
      problem, inputs, answer, most_work);
  for (size_t i = 0; i < emulated.size(); ++i)
    if (!emulated[i].parts.empty())
      right.push_back({kEmulated[i], std::move(emulated[i])});
  return right;
}

}  // namespace subquad
