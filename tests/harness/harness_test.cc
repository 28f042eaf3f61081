// The harness tested: floors, memory counter, sampler, generator, ids, threads
// and the registry, each with something that must be caught or recovered.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <limits>
#include <regex>
#include <sstream>
#include <thread>

#include "harness/base/floors.h"
#include "harness/base/memory_counter.h"
#include "harness/base/registry.h"
#include "harness/cases/draws.h"
#include "harness/cases/generate.h"
#include "harness/cases/verification.h"
#include "harness/judging/trial.h"
#include "harness/results/result_file.h"
#include "harness/sweeps/sampler.h"
#include "optimized/base/buffer.h"
#include "optimized/base/thread_pool.h"

namespace subquad {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Case CaseOf(const std::string& id) { return MakeCase(ParseCaseId(id)); }

// ---- measuring --------------------------------------------------------------

// Does nothing, in constant time: no bound of time may let it have one.
TEST(Measuring, AnImplementationThatDoesNothingHasNoTime) {
  const Floors floors{1e11, 5e10, 1e11};
  const Contestant idle{"idle", [] {}, 1e-9};
  const std::vector<Sampled> results =
      SampleInTurns(std::span(&idle, 1), SamplingRule{.budget_seconds = 0.1});
  const double seconds = *std::ranges::min_element(results[0].samples);
  EXPECT_LT(seconds, 1e-6);
  const Cost cost{.flops = 1e9, .bytes = 1e7};
  for (Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64})
    EXPECT_NE(Impossible(cost, 1, scalar, floors, seconds), "");
  // By its flops alone, by its bytes alone.
  EXPECT_NE(Impossible({.flops = 1e9}, 1, Scalar::kFloat32, floors, seconds),
            "");
  EXPECT_NE(Impossible({.bytes = 1e7}, 1, Scalar::kFloat32, floors, seconds),
            "");
  // A possible time is taken, and more threads may be faster.
  EXPECT_EQ(Impossible(cost, 1, Scalar::kFloat32, floors, 0.02), "");
  EXPECT_NE(Impossible(cost, 1, Scalar::kFloat32, floors, 0.002), "");
  EXPECT_EQ(Impossible(cost, 8, Scalar::kFloat32, floors, 0.002), "");
  // Nothing is refused where the floors are not known.
  EXPECT_EQ(Impossible(cost, 1, Scalar::kFloat32, {}, seconds), "");
  // A time of zero or below, or none, is never one.
  for (double none : {0.0, -1.0, std::nan("")})
    EXPECT_NE(Impossible(cost, 1, Scalar::kFloat32, floors, none), "") << none;
}

TEST(Floors, TimesThatNoDeviceCouldReachAreRefused) {
  const Cost cost{.flops = 1e12, .bytes = 1e10};
  DeviceInfo device;
  device.peak_flops_per_second = 1e14;
  device.peak_matrix_flops_per_second = 1e15;
  device.peak_bytes_per_second = 1e12;
  device.cache_bytes = 1'000'000'000;
  const auto why = [&](double seconds, Scalar scalar = Scalar::kFloat32) {
    return ImpossibleOnDevice(cost, device, scalar, seconds);
  };
  // 9e9 bytes beyond the cache take 9 ms, 1e12 operations 10 ms, and 1 ms on
  // the tensor cores, which are for types of two bytes.
  EXPECT_EQ(why(0.0102), "");
  EXPECT_NE(why(0.009), "");
  EXPECT_EQ(why(0.009, Scalar::kBFloat16), "");
  EXPECT_NE(why(0.008, Scalar::kBFloat16), "");
  device.cache_bytes = 10'000'000'000;
  EXPECT_EQ(why(0.008, Scalar::kFloat16), "");
  EXPECT_NE(why(0.0008, Scalar::kFloat16), "");
  device.peak_flops_per_second = 0;
  EXPECT_EQ(why(1e-9), "");
  EXPECT_NE(why(std::nan("")), "");
  EXPECT_NE(why(0), "");
}

TEST(Measuring, MemoryIsCountedWithinOnePercent) {
  if (!MemoryCounter::Available()) GTEST_SKIP() << "a sanitizer counts";
  for (int64_t bytes : {int64_t{1} << 16, int64_t{3000017}, int64_t{1} << 28}) {
    const PeakOf peak;
    {
      const Buffer<char> planted(bytes);
      EXPECT_NE(planted.data(), nullptr);
    }
    { const std::vector<char> smaller(static_cast<size_t>(bytes / 2)); }
    EXPECT_NEAR(static_cast<double>(peak.bytes()), static_cast<double>(bytes),
                0.01 * static_cast<double>(bytes));
  }
  const int64_t before = MemoryCounter::CurrentBytes();
  { const std::vector<double> gone(1 << 20); }
  EXPECT_NEAR(static_cast<double>(MemoryCounter::CurrentBytes() - before), 0,
              1 << 10);
}

TEST(Measuring, ASleepOfKnownLengthIsRecovered) {
  const auto sleep_for = [](double seconds) {
    return [seconds] {
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    };
  };
  const std::vector<Contestant> contestants = {
      {"short", sleep_for(0.004), 0.004}, {"long", sleep_for(0.02), 0.02}};
  const auto results = SampleInTurns(
      contestants, SamplingRule{.relative_width = 0.5, .budget_seconds = 1});
  // Never less; more only by what a busy machine takes to wake up.
  const double lengths[] = {0.004, 0.02};
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_GE(*std::ranges::min_element(results[i].samples), lengths[i]);
    EXPECT_LT(results[i].median.median, lengths[i] + 0.01);
    EXPECT_FALSE(results[i].stopped_by.empty());
  }
}

// ---- generated numbers ------------------------------------------------------

// The known answers of Philox4x32-10 in Random123's kat_vectors.
TEST(Generator, PhiloxGivesItsKnownAnswers) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(PhiloxWords({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(PhiloxWords({ones, ones, ones, ones}, {ones, ones}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(PhiloxWords({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                        {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Generator, DrawsDependOnSeedAndNameAndIndexAlone) {
  const Draws draws(7, "toeplitz_1d/values");
  double sum = 0, squares = 0;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) {
    const double z = draws.Normal(static_cast<uint64_t>(i));
    sum += z;
    squares += z * z;
    const double u = draws.Uniform(static_cast<uint64_t>(i));
    EXPECT_TRUE(u > 0 && u < 1);
  }
  // Five standard errors.
  EXPECT_NEAR(sum / kCount, 0, 5 / std::sqrt(kCount));
  EXPECT_NEAR(squares / kCount, 1, 5 * std::sqrt(2.0 / kCount));
  EXPECT_EQ(draws.Normal(12345), Draws(7, "toeplitz_1d/values").Normal(12345));
  EXPECT_NE(draws.Normal(1), Draws(8, "toeplitz_1d/values").Normal(1));
  EXPECT_NE(draws.Normal(1), Draws(7, "toeplitz_1d/weights").Normal(1));
  EXPECT_NE(draws.Normal(1), draws.Normal(2));
}

// GenerateInputs uses all cores; one thread alone must draw the same numbers.
TEST(Generator, InputsDoNotDependOnThreads) {
  const Case one = CaseOf("toeplitz_1d:n=3000,e=17,scalar=float64,seed=5");
  const Problem problem = ProblemOf(one);
  const Inputs inputs = GenerateInputs(one, problem);
  for (const Tensor& tensor : inputs.tensors) {
    const Draws draws(one.seed, one.DrawId() + "/" + tensor.name);
    for (size_t i = 0; i < tensor.values.size(); i += 97)
      EXPECT_EQ(tensor.values[i], draws.Normal(i)) << tensor.name << " " << i;
  }
  Case narrow = one;
  narrow.scalar = Scalar::kFloat32;
  const Inputs rounded = GenerateInputs(narrow, ProblemOf(narrow));
  for (size_t i = 0; i < 1000; ++i)
    EXPECT_EQ(rounded["values"].values[i],
              static_cast<float>(inputs["values"].values[i]));
}

// An operator's own distribution: of a random number, or of the place alone.
TEST(Generator, ARuleMayDrawItsOwnNumbers) {
  const Case one =
      CaseOf("toeplitz_1d:n=40,e=3,heads=2,per_head=1,scalar=float64");
  Problem problem = ProblemOf(one);
  problem.inputs[0].draw = {Draw::From::kUniform, [](double u, const Element&) {
                              return 0.9 + 0.1 * u;
                            }};
  problem.inputs[1].draw = {
      Draw::From::kInput, [](double, const Element& element) {
        return static_cast<double>(100 * element.index + element.shape.back());
      }};
  const Inputs inputs = GenerateInputs(one, problem);
  const Draws draws(one.seed, one.DrawId() + "/weights");
  const std::vector<double>& weights = inputs["weights"].values;
  ASSERT_EQ(weights.size(), 2u * 79u);
  for (size_t i = 0; i < weights.size(); ++i)
    EXPECT_EQ(weights[i], 0.9 + 0.1 * draws.Uniform(i));
  const std::vector<double>& values = inputs["values"].values;
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(values[i], static_cast<double>(100 * (i % 120) + 3));
}

TEST(Generator, RoundingToNarrowTypes) {
  struct Row {
    double value, bfloat16, float16;
  };
  const Row rows[] = {
      {0, 0, 0},
      {1, 1, 1},
      {-2.5, -2.5, -2.5},
      {1 + 0x1p-8, 1, 1 + 0x1p-8},                   // tie to even, down
      {1 + 3 * 0x1p-8, 1 + 0x1p-6, 1 + 3 * 0x1p-8},  // tie to even, up
      {1 + 0x1p-11, 1, 1},                           // a tie for float16
      {1 + 3 * 0x1p-11, 1, 1 + 0x1p-9},
      {1 + 0x1p-11 + 0x1p-20, 1, 1 + 0x1p-10},
      {1.0 / 3, 0x1.56p-2, 0x1.554p-2},
      {65504, 65536, 65504},  // float16's largest
      {65519, 65536, 65504},
      {65520, 65536, kInfinity},
      {-70000, -70144, -kInfinity},
      {0x1p-14, 0x1p-14, 0x1p-14},  // float16's least normal number
      {0x1p-24, 0x1p-24, 0x1p-24},  // its least subnormal one
      {0x1p-25, 0x1p-25, 0},        // half of it: to even
      {0x1.8p-25, 0x1.8p-25, 0x1p-24},
      {5 * 0x1p-26, 5 * 0x1p-26, 0x1p-24},
      {3e38, 0x1.c4p127, kInfinity},
      {kInfinity, kInfinity, kInfinity},
      {-kInfinity, -kInfinity, -kInfinity},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(RoundTo(Scalar::kBFloat16, row.value), row.bfloat16) << row.value;
    EXPECT_EQ(RoundTo(Scalar::kFloat16, row.value), row.float16) << row.value;
  }
  EXPECT_TRUE(std::isnan(RoundTo(Scalar::kBFloat16, std::nan(""))));
  EXPECT_TRUE(std::isnan(RoundTo(Scalar::kFloat16, std::nan(""))));
  EXPECT_EQ(RoundTo(Scalar::kFloat32, 1e300), kInfinity);
}

// Every number of a two-byte type comes back from memory as it was.
TEST(Generator, NarrowNumbersSurviveTheirStorage) {
  for (Scalar scalar : {Scalar::kBFloat16, Scalar::kFloat16})
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      const uint16_t stored = static_cast<uint16_t>(bits);
      const double value = ElementAt(scalar, &stored, 0);
      if (std::isnan(value)) continue;
      EXPECT_EQ(RoundTo(scalar, value), value) << bits;
      uint16_t again = 0;
      StoreAt(scalar, value, &again, 0);
      EXPECT_EQ(again, stored) << Info(scalar).name << " " << value;
    }
}

// ---- cases ------------------------------------------------------------------

// A quarter of one token is still a token.
TEST(VerificationCases, ExistForFewTokens) {
  for (const Operator* op : Operators())
    for (const int64_t n : {1, 2, 3})
      for (const Case& one : VerificationCases(*op, {n}, Scalar::kFloat32, 1)) {
        SCOPED_TRACE(one.Id());
        EXPECT_NO_THROW(ProblemOf(one));
      }
}

// ---- case ids ---------------------------------------------------------------

TEST(CaseIds, EveryVerificationCaseRoundTrips) {
  for (const Operator* op : Operators())
    for (const ScalarInfo& info : kScalars)
      for (const Case& one :
           VerificationCases(*op, AwkwardSizes(), info.scalar, 11)) {
        for (const char* input : {"normal", "wide"}) {
          Case given = one;
          given.input = input;
          const std::string id = given.Id();
          const Case back = MakeCase(ParseCaseId(id));
          ASSERT_EQ(back.Id(), id);
          EXPECT_EQ(back.sizes, given.sizes) << id;
          EXPECT_EQ(back.params, given.params) << id;
          EXPECT_EQ(back.leading.heads, given.leading.heads) << id;
          EXPECT_EQ(back.leading.per_head, given.leading.per_head) << id;
          EXPECT_EQ(back.backward, given.backward) << id;
          EXPECT_EQ(back.with, given.with) << id;
          EXPECT_EQ(back.seed, given.seed) << id;
          EXPECT_EQ(ProblemOf(back).params, ProblemOf(given).params) << id;
        }
      }
}

TEST(CaseIds, TheLargestSeedIsTaken) {
  const std::string id =
      "toeplitz_1d:n=4,e=3,causal=0,scalar=float64,seed=9223372036854775807";
  EXPECT_EQ(CaseOf(id).Id(), id);
}

// ---- threads ----------------------------------------------------------------

TEST(Threads, EveryIndexOnceOnAnyNumber) {
  for (int threads : {1, 2, 3, 8})
    for (int64_t count : {0, 1, 2, 7, 1000}) {
      ThreadPool pool(threads);
      for (int repeat = 0; repeat < 3; ++repeat) {
        std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
        pool.For(count, [&](int64_t i, int worker) {
          EXPECT_TRUE(worker >= 0 && worker < threads);
          ++seen[static_cast<size_t>(i)];
        });
        for (const auto& times : seen) EXPECT_EQ(times, 1);
      }
    }
}

TEST(Threads, TheFirstExceptionArrivesAndThePoolGoesOn) {
  for (int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    for (int64_t bad : {0, 50, 99}) {
      EXPECT_THROW(pool.For(100,
                            [&](int64_t i, int) {
                              if (i == bad) throw InvalidInput("planted");
                            }),
                   InvalidInput);
      EXPECT_THROW(pool.For(100, [](int64_t, int) { throw std::bad_alloc(); }),
                   std::bad_alloc);
      std::atomic<int> count{0};
      pool.For(100, [&](int64_t, int) { ++count; });
      EXPECT_EQ(count, 100);
    }
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(ThreadsDeathTest, AThreadThatCannotStartIsAnErrorWithItsNumber) {
  const auto start_too_many = [] {
    rlimit room{};  // for a few stacks
    room.rlim_cur = room.rlim_max = rlim_t{1} << 29;
    setrlimit(RLIMIT_AS, &room);
    try {
      ThreadPool pool(1000);
    } catch (const std::runtime_error& error) {
      std::fputs(error.what(), stderr);
      std::_Exit(7);
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(start_too_many(), testing::ExitedWithCode(7),
              "cannot start thread [0-9]+ of 1000");
}
#endif

std::vector<std::string> OutputBytes(const Implementation& implementation,
                                     Trial& trial, int threads) {
  auto prepared = implementation.Prepare(trial.problem(), trial.arrays(),
                                         {.threads = threads});
  trial.Poison();
  prepared->Run();
  std::vector<std::string> bytes;
  for (const Arrays::Entry& entry : trial.arrays().outputs)
    bytes.emplace_back(
        static_cast<const char*>(entry.data),
        static_cast<size_t>(entry.count * Info(entry.scalar).bytes));
  return bytes;
}

class Repeatable : public testing::TestWithParam<const Operator*> {};

// The thread sanitizer is some fifty times slower, and what threads share
// depends on the program more than on the choices: there, of many cases every
// seventh.
#ifdef __SANITIZE_THREAD__
constexpr size_t kManyCases = 32, kStep = 7;
#else
constexpr size_t kManyCases = 0, kStep = 1;
#endif

// Work is cut into pieces that do not depend on the number of threads.
TEST_P(Repeatable, BitIdenticalOnAnyNumberOfThreads) {
  const Operator& op = *GetParam();
  for (Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64}) {
    const std::vector<Case> cases = VerificationCases(op, {5, 61}, scalar, 2);
    const size_t step = cases.size() > kManyCases ? kStep : 1;
    for (size_t index = 0; index < cases.size(); index += step) {
      const Case& one = cases[index];
      const Problem problem = ProblemOf(one);
      Trial trial(problem, GenerateInputs(one, problem), one.seed);
      for (const Implementation* implementation : ImplementationsOf(op)) {
        if (implementation->backend != Backend::kCpu) continue;
        if (!WhyNot(*implementation, problem).empty()) continue;
        const auto single = OutputBytes(*implementation, trial, 1);
        for (int threads : {2, 3})
          EXPECT_TRUE(OutputBytes(*implementation, trial, threads) == single)
              << implementation->id << " on " << threads << " threads "
              << one.Id();
      }
    }
  }
}

// Tiled programs cut larger tasks where there are few threads; the lengths
// above are too short for that.
TEST(Threads, LargerTasksGiveTheSameBits) {
  for (const char* id :
       {"softmax_attention:n=1500,d=5,e=3,with=bias",
        "softmax_attention:n=1500,d=5,e=3,causal=1,heads=2",
        "kernelized_rpe_attention:n=4200,d=4,e=3,f=5,feature_map=prf,"
        "normalize=1"}) {
    const Case one = CaseOf(id);
    const Problem problem = ProblemOf(one);
    Trial trial(problem, GenerateInputs(one, problem), one.seed);
    for (const Implementation* tiled : ImplementationsOf(*one.op)) {
      if (tiled->id != "tiled" || tiled->backend != Backend::kCpu) continue;
      const auto single = OutputBytes(*tiled, trial, 1);
      for (int threads : {2, 5, 40})
        EXPECT_TRUE(OutputBytes(*tiled, trial, threads) == single)
            << id << " on " << threads << " threads";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Registry, Repeatable, testing::ValuesIn(Operators()),
    [](const testing::TestParamInfo<const Operator*>& one) {
      return std::string(one.param->description().id);
    });

// ---- registry ---------------------------------------------------------------

// A definition that nobody registered would be neither checked nor measured.
TEST(Registry, EveryDefinitionIsRegistered) {
  namespace fs = std::filesystem;
  int found = 0;
  for (const auto& entry :
       fs::directory_iterator(fs::path(SUBQUAD_SOURCE) / "reference")) {
    if (entry.path().extension() != ".h") continue;
    std::ifstream stream(entry.path());
    std::stringstream text;
    text << stream.rdbuf();
    if (text.str().find("description() const override") == std::string::npos)
      continue;
    ++found;
    const std::string id = entry.path().stem();
    EXPECT_NO_THROW(FindOperator(id)) << entry.path();
    // Programs for a GPU may come later.
    const std::string file = "optimized/" + id + ".cc";
    EXPECT_TRUE(fs::exists(fs::path(SUBQUAD_SOURCE) / file)) << file;
  }
  EXPECT_EQ(found, static_cast<int>(Operators().size()));
}

TEST(Registry, NamesAreUniqueAndNothingIsLeftBlank) {
  std::vector<std::string> ids;
  for (const Implementation& one : Implementations()) {
    ids.push_back(one.op + "/" + one.id + "/" +
                  std::string(ToString(one.backend)));
    EXPECT_NO_THROW(FindOperator(one.op)) << ids.back();
    EXPECT_FALSE(one.what.empty() || one.source.empty() ||
                 one.time.text.empty() || one.memory.text.empty())
        << ids.back();
    for (const std::string& name : {one.time.order, one.memory.order})
      EXPECT_TRUE(std::regex_match(
          name, std::regex(R"(|1|n|n log n|n\^[0-9]+(\.[0-9]+)?)")))
          << ids.back() << " " << name;
    EXPECT_FALSE(one.scalars.empty()) << ids.back();
    EXPECT_TRUE(one.prepare) << ids.back();
  }
  std::ranges::sort(ids);
  EXPECT_EQ(std::ranges::adjacent_find(ids), ids.end());
}

}  // namespace

void PrintTo(const Operator* const& op, std::ostream* stream) {
  *stream << op->description().id;
}

}  // namespace subquad
