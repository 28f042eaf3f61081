// Claims that records of sweeps answer, on planted records: correct numbers are
// reproduced, wrong ones are not, missing ones are not measured, and neither
// NaN nor a record that did not pass ever supports a claim.
#include <cmath>
#include <fstream>
#include <string>

#include "tests/harness/papers/planted_records.h"
#include "tests/places.h"

namespace subquad {
namespace {

TEST(Claims, WithoutRecordsSweepsAreNotMeasured) {
  for (const std::string& id : SweepClaims()) {
    EXPECT_EQ(FindClaim(id).rule({}).verdict(), kNotMeasured) << id;
    EXPECT_EQ(VerdictOf(id, {}), kNotMeasured) << id;
    EXPECT_FALSE(FindClaim(id).rule({}).numbers().empty()) << id;
  }
}

// Recipes with a record in the files are listed, whatever their outcome.
TEST(SweepClaims, ARecordOfARecipeIsAPart) {
  Records fft = ByTheory();
  std::erase_if(fft, [](const Json& record) {
    return record["implementation"] != "fft" ||
           record["operator"] != "toeplitz_1d";
  });
  const auto hold = [](const char* id, const Records& records) {
    return HoldPartOf(FindClaim(id), From(records));
  };
  for (const char* id : {"frpb-1d-time", "frpb-1d-memory"}) {
    EXPECT_TRUE(hold(id, fft)) << id;
    EXPECT_TRUE(hold(id, {fft.front()})) << id;  // no curve yet
    EXPECT_FALSE(hold(id, {})) << id;
  }
  for (const char* id : {"nprf-fig1a", "frpb-2d-time", "nprf-lemma2",
                         "frpb-accuracy", "frpb-1d-operations"})
    EXPECT_FALSE(hold(id, fft)) << id;
  Records other = fft;
  for (Json& record : other) record["scalar"] = "float64";
  EXPECT_FALSE(hold("frpb-1d-time", other));
}

// The claim of a GPU is answered from the committed records of one.
TEST(SweepClaims, AGpuIsJudgedByItsOwnRecords) {
  std::ifstream stream(std::string(kSourceFolder) +
                       "/reports/results/h200/gpu.json");
  Evidence evidence;
  AddResults(Json::parse(stream), "gpu.json", evidence);
  const Claim& claim = FindClaim("nprf-fig1a-gpu");
  const Finding found = claim.rule(evidence);
  EXPECT_TRUE(found.answered()) << found.numbers();
  EXPECT_EQ(found.quantities().size(), 3) << found.numbers();
  // The softmax programs of the same file are no CPU's.
  EXPECT_EQ(FindClaim("nprf-fig1a").rule(evidence).verdict(), kNotMeasured);
  // The longest size is below the 40000 tokens of the figure: what is behind
  // there decides nothing.
  for (const auto& [ratio, verdict] :
       {std::pair{1e-3, kInPart}, {1e3, kReproduced}}) {
    for (const char* softmax : {"tiled", "tensor_cores"})
      evidence
          .planted["time of " + std::string(softmax) + " softmax over m = 64"] =
          ratio;
    EXPECT_EQ(claim.rule(evidence).verdict(), verdict);
  }
  evidence.planted = {{"time of tensor_cores softmax over m = 64", kNaN}};
  EXPECT_NE(claim.rule(evidence).verdict(), kReproduced);
}

// Recipes measure the points that the rules require.
TEST(SweepClaims, RecipesAnswerAll) {
  for (const std::string& id : SweepClaims()) {
    const Finding finding = FindingOf(id, ByTheory());
    EXPECT_NE(finding.verdict(), kNotMeasured)
        << id << ": " << finding.numbers();
    EXPECT_EQ(finding.numbers().find("no records"), std::string::npos)
        << id << ": " << finding.numbers();
    EXPECT_FALSE(finding.quantities().empty()) << id;
  }
}

TEST(SweepClaims, FailedRecordsAreNoSupport) {
  for (const char* verdict : {"failed", "mistrusted", "skipped"}) {
    Records records = ByTheory();
    for (Json& record : records) {
      record["check"]["verdict"] = verdict;
      record["check"]["reason"] = "planted";
    }
    for (const std::string& id : SweepClaims()) {
      const Finding finding = FindingOf(id, records);
      EXPECT_EQ(finding.verdict(), kNotMeasured) << id << " " << verdict;
      EXPECT_NE(finding.numbers().find("planted"), std::string::npos)
          << id << ": " << finding.numbers();
    }
  }
}

TEST(SweepClaims, MissingNumbersAreNoSupport) {
  const auto without = [](const Json& nothing) {
    Records records = ByTheory();
    for (Json& record : records) {
      for (const char* end : {"median", "low", "high"})
        record["seconds"][end] = nothing;
      for (const char* name : {"workspace_bytes", "flops", "bytes"})
        record[name] = nothing;
    }
    return records;
  };
  for (const std::string& id : SweepClaims())
    EXPECT_EQ(VerdictOf(id, without(nullptr)), kNotMeasured) << id;
  // Neither of these is in a file that a sweep writes.
  for (const Json& nothing : {Json(kNaN), Json("fast")})
    EXPECT_THROW(FindingOf("nprf-fig1a", without(nothing)), InvalidInput);
  // Interval ends in the wrong order are invalid, too.
  Records records = ByTheory();
  for (Json& record : records)
    record["seconds"]["low"] = 2 * record["seconds"]["high"].get<double>();
  for (const char* id : {"nprf-fig1a", "frpb-table3"})
    EXPECT_EQ(VerdictOf(id, records), kNotMeasured) << id;
}

// Only records in float32 on one CPU thread without extra options count.
TEST(SweepClaims, OtherSettingsAreOtherClaims) {
  const std::map<std::string, std::function<void(Json&)>> changes = {
      {"backend", [](Json& record) { record["backend"] = "cuda"; }},
      {"scalar", [](Json& record) { record["scalar"] = "float64"; }},
      {"threads", [](Json& record) { record["threads"] = 2; }},
      {"input", [](Json& record) { record["input"] = "integers"; }},
      {"backward", [](Json& record) { record["params"]["backward"] = true; }},
      {"per_head", [](Json& record) { record["params"]["per_head"] = true; }}};
  for (const auto& [name, change] : changes) {
    Records records = ByTheory();
    for (Json& record : records) change(record);
    for (const std::string& id : SweepClaims())
      EXPECT_EQ(VerdictOf(id, records), kNotMeasured) << id << " " << name;
  }
}

// Multiplies times by (n / 1024)^power.
std::function<void(Json&)> Slower(double power, double spread = 0.01) {
  return [=](Json& record) {
    SetTime(record,
            record["seconds"]["median"].get<double>() *
                std::pow(Tokens(record) / 1024, power),
            spread);
  };
}

TEST(SweepClaims, TimesThatGrowTooFastAreNotReproduced) {
  const struct {
    std::string id, op;
  } rows[] = {{"frpb-1d-time", "toeplitz_1d"},
              {"nprf-time", "kernelized_rpe_attention"},
              {"lrpe-linear", "clipped_rpe_product"}};
  for (const auto& [id, op] : rows) {
    EXPECT_EQ(VerdictOf(id, ByTheory()), kReproduced)
        << FindingOf(id, ByTheory()).numbers();
    const Records slow = Changed(ByTheory(), {op, ""}, Slower(1));
    // The bytes remain as claimed.
    EXPECT_EQ(VerdictOf(id, slow),
              id == "lrpe-linear" ? kInPart : kNotReproduced)
        << FindingOf(id, slow).numbers();
    const Records both = Changed(slow, {op, ""}, [](Json& record) {
      record["workspace_bytes"] =
          record["workspace_bytes"].get<double>() * Tokens(record);
    });
    EXPECT_EQ(VerdictOf(id, both), kNotReproduced)
        << FindingOf(id, both).numbers();
    // Every other point is far off: the interval contains the limit.
    const Records noisy = Changed(ByTheory(), {op, ""}, [](Json& record) {
      const bool odd = std::fmod(std::log2(Tokens(record)), 4) < 2;
      SetTime(record, record["seconds"]["median"].get<double>() * (odd ? 9 : 1),
              0.5);
    });
    EXPECT_EQ(VerdictOf(id, noisy), kInPart) << FindingOf(id, noisy).numbers();
  }
}

TEST(SweepClaims, ThreeSizesAreNoCurve) {
  std::set<double> sizes;
  Records few;
  for (const Json& record : ByTheory())
    if (Of{"toeplitz_1d", ""}(record)) {
      if (sizes.size() < 3) sizes.insert(Tokens(record));
      if (sizes.contains(Tokens(record))) few.push_back(record);
    }
  EXPECT_EQ(VerdictOf("frpb-1d-time", few), kNotMeasured)
      << FindingOf("frpb-1d-time", few).numbers();
}

TEST(SweepClaims, WorkspaceOffItsFormula) {
  EXPECT_EQ(VerdictOf("frpb-1d-memory", ByTheory()), kReproduced)
      << FindingOf("frpb-1d-memory", ByTheory()).numbers();
  const Records more =
      Changed(ByTheory(), {"toeplitz_1d", "fft"}, [](Json& record) {
        record["workspace_bytes"] =
            1.5 * record["workspace_formula_bytes"].get<double>();
      });
  EXPECT_EQ(VerdictOf("frpb-1d-memory", more), kInPart);
  const Records square =
      Changed(ByTheory(), {"toeplitz_1d", "fft"}, [](Json& record) {
        record["workspace_bytes"] = 4 * Tokens(record) * Tokens(record);
      });
  EXPECT_EQ(VerdictOf("frpb-1d-memory", square), kNotReproduced);
}

TEST(SweepClaims, PixelsNotSides) {
  const Finding theory = FindingOf("frpb-2d-time", ByTheory());
  EXPECT_EQ(theory.verdict(), kWrongAsPrinted) << theory.numbers();
  EXPECT_TRUE(theory.errata_confirmed());
  const auto exponent = std::ranges::find(
      theory.quantities(), "exponent in pixels", &Quantity::name);
  ASSERT_NE(exponent, theory.quantities().end());
  EXPECT_NEAR(exponent->value, 1, 0.1);
  // A time that actually follows the side would support the claim.
  const Records fast = Changed(
      ByTheory(), {"toeplitz_2d_xy", "xy"},
      [](Json& record) { SetTime(record, 1e-6 * std::sqrt(Tokens(record))); });
  EXPECT_EQ(VerdictOf("frpb-2d-time", fast), kInPart);
}

// Makes records in which softmax attention takes these multiples of the time
// and memory of FastRPB's linear attention at n = 2500, growing with n.
Records Fig3(double dense_time, double tiled_time, double dense_memory,
             double tiled_memory) {
  Records records =
      Changed(ByTheory(), {"fastrpb_attention", "linear_xy"}, [](Json& record) {
        SetTime(record, 1e-6 * Tokens(record));
        record["workspace_bytes"] = 1000 * Tokens(record);
      });
  const auto softmax = [&](const char* id, double time, double memory) {
    records = Changed(
        std::move(records), {"softmax_attention", id}, [=](Json& record) {
          const double growth = Tokens(record) / 2500;
          SetTime(record, 1e-6 * Tokens(record) * time * growth);
          record["workspace_bytes"] = 1000 * Tokens(record) * memory * growth;
        });
  };
  softmax("dense", dense_time, dense_memory);
  softmax("tiled", tiled_time, tiled_memory);
  return records;
}

TEST(SweepClaims, Fig3) {
  EXPECT_EQ(VerdictOf("frpb-fig3", Fig3(6, 5.5, 11, 12)), kReproduced)
      << FindingOf("frpb-fig3", Fig3(6, 5.5, 11, 12)).numbers();
  EXPECT_EQ(VerdictOf("frpb-fig3", Fig3(6, 4, 11, 1)), kInPart);
  EXPECT_EQ(VerdictOf("frpb-fig3", Fig3(4, 3, 9, 1)), kNotReproduced);
  // The value 5 is in the interval of 5, [4.9, 5.1].
  EXPECT_EQ(VerdictOf("frpb-fig3", Fig3(5, 5, 1, 1)), kInPart);
  Records without = Fig3(6, 6, 11, 11);
  std::erase_if(without,
                [](const Json& record) { return Tokens(record) == 2500; });
  EXPECT_EQ(VerdictOf("frpb-fig3", without), kNotMeasured);
  const Finding crosses = FindingOf("frpb-fig3", Fig3(5, 5, 10, 10));
  const auto crossover = std::ranges::find(
      crosses.quantities(), "crossover with dense softmax", &Quantity::name);
  ASSERT_NE(crossover, crosses.quantities().end());
  EXPECT_NEAR(crossover->value, 500, 5);
  EXPECT_LT(crossover->low, 500);
  EXPECT_GT(crossover->high, 500);
}

// The range of a few samples is not taken for an interval.
TEST(SweepClaims, ARangeIsSaidToBeOne) {
  std::vector<Json> records = Fig3(6, 6, 11, 11);
  for (Json& record : records)
    record["seconds"]["samples"] =
        std::vector<double>(3, record["seconds"]["median"].get<double>());
  const std::string numbers = FindingOf("frpb-fig3", records).numbers();
  EXPECT_NE(numbers.find("it is 6 [5.88 to 6.12 in 3 runs] times faster"),
            std::string::npos)
      << numbers;
}

// A ratio below one is stated in the opposite direction.
TEST(SweepClaims, TheWordsOfARatioFollowTheNumber) {
  const std::string ahead =
      FindingOf("frpb-fig3", Fig3(6, 6, 11, 11)).numbers();
  EXPECT_NE(ahead.find("it is 6 [5.88, 6.12] times faster than dense softmax "
                       "(claimed: 5)"),
            std::string::npos)
      << ahead;
  EXPECT_NE(ahead.find("it needs 11 times less memory (claimed: 10)"),
            std::string::npos)
      << ahead;
  const std::string behind =
      FindingOf("frpb-fig3", Fig3(0.25, 0.25, 0.0543, 0.0543)).numbers();
  EXPECT_NE(behind.find("it is 4 [3.92, 4.08] times slower than dense softmax "
                        "(claimed: 5 times faster)"),
            std::string::npos)
      << behind;
  EXPECT_NE(behind.find("it needs 18.4 times more memory (claimed: 10 times "
                        "less memory)"),
            std::string::npos)
      << behind;
}

// Makes records of SPE. `bytes` is FastRPB's workspace per token; the noise of
// SPE has its own size.
Records Spe(double sine, double conv, double bytes = 1000) {
  Records records = Changed(
      ByTheory(), {"fastrpb_attention", "linear_fft"}, [=](Json& record) {
        SetTime(record, 1e-6 * Tokens(record));
        record["workspace_bytes"] = bytes * Tokens(record);
      });
  return Changed(std::move(records), {"stochastic_position_attention", ""},
                 [=](Json& record) {
                   const double times =
                       record["params"]["kind"] == "conv" ? conv : sine;
                   SetTime(record, times * 1e-6 * Tokens(record));
                   record["workspace_bytes"] = times * bytes * Tokens(record);
                 });
}

TEST(SweepClaims, Table3AndItsMemory) {
  EXPECT_EQ(VerdictOf("frpb-table3", Spe(4, 40)), kReproduced)
      << FindingOf("frpb-table3", Spe(4, 40)).numbers();
  EXPECT_EQ(VerdictOf("frpb-table3", Spe(3, 30)), kReproduced);
  EXPECT_EQ(VerdictOf("frpb-table3", Spe(4, 15)), kInPart);
  EXPECT_EQ(VerdictOf("frpb-table3", Spe(1.5, 15)), kNotReproduced);
  EXPECT_EQ(VerdictOf("frpb-table3", Spe(2, 30)), kInPart);  // the interval
  // More than what is claimed is not what is claimed.
  EXPECT_EQ(VerdictOf("frpb-table3", Spe(6, 30)), kInPart);
  EXPECT_EQ(VerdictOf("frpb-table3", Spe(3, 60)), kInPart);
  EXPECT_EQ(VerdictOf("frpb-memory-spe", Spe(1.6, 2)), kReproduced);
  EXPECT_EQ(VerdictOf("frpb-memory-spe", Spe(1, 2)), kInPart);
  // The noise alone may be more than that, or almost nothing.
  EXPECT_EQ(VerdictOf("frpb-memory-spe", Spe(1.6, 0.1)), kReproduced);
  EXPECT_EQ(VerdictOf("frpb-memory-spe", Spe(1.6, 2, 1e7)), kReproduced);
  EXPECT_EQ(VerdictOf("frpb-memory-spe", Spe(1.4, 1, 1e7)), kNotReproduced)
      << FindingOf("frpb-memory-spe", Spe(1.4, 1, 1e7)).numbers();
  // The paper says "up to": a single pair is enough.
  Records one_fast_pair = Spe(1, 10);
  for (Json& record : one_fast_pair)
    if (record["operator"] == "stochastic_position_attention" &&
        Tokens(record) == 4096 && record["params"]["feature_map"] == "sikf")
      SetTime(record, (record["params"]["kind"] == "conv" ? 30 : 3) * 1e-6 *
                          Tokens(record));
  EXPECT_EQ(VerdictOf("frpb-table3", one_fast_pair), kReproduced);
}

TEST(SweepClaims, QuadraticMeansNeitherLinearNorCubic) {
  const struct {
    std::string id, op, implementation;
    ClaimVerdict other;  // if times grow differently and bytes do not
  } rows[] = {{"frpb-quadratic", "softmax_attention", "dense", kInPart},
              {"survey-quadratic", "softmax_attention", "dense", kInPart},
              {"frpb-rpe-quadratic", "position_attention", "", kNotReproduced}};
  for (const auto& [id, op, implementation, other] : rows) {
    EXPECT_EQ(VerdictOf(id, ByTheory()), kReproduced)
        << FindingOf(id, ByTheory()).numbers();
    for (const double power : {-1.0, 1.0}) {
      const Records changed =
          Changed(ByTheory(), {op, implementation}, Slower(power));
      EXPECT_EQ(VerdictOf(id, changed), other)
          << FindingOf(id, changed).numbers();
    }
  }
}

TEST(SweepClaims, MemoryOfAnImageGrowsLikeItsSide) {
  EXPECT_EQ(VerdictOf("frpb-2d-memory", ByTheory()), kReproduced)
      << FindingOf("frpb-2d-memory", ByTheory()).numbers();
  const Records pixels = Changed(
      ByTheory(), {"toeplitz_2d_xy", "xy"},
      [](Json& record) { record["workspace_bytes"] = 64 * Tokens(record); });
  EXPECT_EQ(VerdictOf("frpb-2d-memory", pixels), kNotReproduced);
}

TEST(SweepClaims, KernelizedAttentionScalesLinearly) {
  EXPECT_EQ(VerdictOf("lrpe-scalability", ByTheory()), kReproduced)
      << FindingOf("lrpe-scalability", ByTheory()).numbers();
  EXPECT_EQ(VerdictOf("lrpe-scalability",
                      Changed(ByTheory(), {"linear_attention", "prefix_sum"},
                              Slower(1))),
            kInPart);
  EXPECT_EQ(VerdictOf("lrpe-scalability",
                      Changed(ByTheory(), {"linear_attention", ""}, Slower(1))),
            kNotReproduced);
}

// Makes times of the maps relative to elu1.
Records Maps(double sikf, double dpfp, double prf) {
  return Changed(ByTheory(), {"linear_attention", "associative"},
                 [=](Json& record) {
                   const std::string map = record["params"]["feature_map"];
                   SetTime(record, 1e-6 * (map == "sikf"   ? sikf
                                           : map == "dpfp" ? dpfp
                                           : map == "elu1" ? 1
                                                           : prf));
                 });
}

TEST(SweepClaims, TheOrderOfMaps) {
  EXPECT_EQ(VerdictOf("frpb-map-order", Maps(1, 1.5, 2)), kReproduced)
      << FindingOf("frpb-map-order", Maps(1, 1.5, 2)).numbers();
  EXPECT_EQ(VerdictOf("frpb-map-order", Maps(1.3, 1.5, 2)), kInPart);
  EXPECT_EQ(VerdictOf("frpb-map-order", Maps(1, 2, 1.5)), kInPart);
  EXPECT_EQ(VerdictOf("frpb-map-order", Maps(1.3, 0.8, 0.5)), kNotReproduced);
}

TEST(SweepClaims, MemoryOfAlgorithm1) {
  const std::string id = "ours-algorithm1-memory";
  EXPECT_EQ(VerdictOf(id, ByTheory()), kReproduced)
      << FindingOf(id, ByTheory()).numbers();
  const Records less =
      Changed(ByTheory(), {"kernelized_rpe_attention", "fft"},
              [](Json& record) { record["workspace_bytes"] = 1 << 20; });
  EXPECT_EQ(VerdictOf(id, less), kInPart);  // grows even less
  const Records more = Changed(
      ByTheory(), {"kernelized_rpe_attention", "fft"}, [](Json& record) {
        record["workspace_bytes"] = Tokens(record) * Tokens(record);
      });
  EXPECT_EQ(VerdictOf(id, more), kInPart);  // more than streamed
}

// Makes records for m = 16 .. 128 with softmax `times` slower at n = 4000.
Records Fig1a(double times) {
  Records records =
      Changed(ByTheory(), {"kernelized_rpe_attention", "fft_streamed"},
              [](Json& record) { SetTime(record, 1e-6 * Tokens(record)); });
  return Changed(
      std::move(records), {"softmax_attention", ""}, [=](Json& record) {
        SetTime(record, times * 1e-6 * Tokens(record) * Tokens(record) / 4000);
      });
}

TEST(SweepClaims, Fig1a) {
  const std::string id = "nprf-fig1a-streamed";
  EXPECT_EQ(VerdictOf(id, Fig1a(1)), kReproduced)
      << FindingOf(id, Fig1a(1)).numbers();
  EXPECT_EQ(VerdictOf(id, Fig1a(1000)), kReproduced);  // always
  for (const auto& [times, words] :
       {std::pair{1.0, "m = 16 overtakes dense softmax from n = 4000 ["},
        {1000.0,
         "m = 16 is ahead of dense softmax at every size measured (n "
         "= 1000 to 40000)"},
        {0.01, "m = 16 does not overtake dense softmax up to n = 40000"}})
    EXPECT_NE(FindingOf(id, Fig1a(times)).numbers().find(words),
              std::string::npos)
        << FindingOf(id, Fig1a(times)).numbers();
  EXPECT_EQ(VerdictOf(id, Fig1a(0.01)), kNotReproduced);
  // One of four values of m is too slow.
  Records one_slow = Fig1a(1);
  for (Json& record : one_slow)
    if (record["operator"] == "kernelized_rpe_attention" &&
        record["size"].value("f", 0) == 128)
      SetTime(record, 1e-3 * Tokens(record));
  EXPECT_EQ(VerdictOf(id, one_slow), kInPart);
  // Short sequences give no information about long ones.
  Records brief = Fig1a(0.01);
  std::erase_if(brief,
                [](const Json& record) { return Tokens(record) > 5000; });
  EXPECT_EQ(VerdictOf(id, brief), kNotMeasured);
}

// The row of algorithm 1 uses only algorithm 1.
TEST(SweepClaims, Fig1aUsesTheAlgorithmAsPrinted) {
  const auto with = [](double times) {
    return Changed(
        Fig1a(1), {"kernelized_rpe_attention", "fft"},
        [=](Json& record) { SetTime(record, times * 1e-6 * Tokens(record)); });
  };
  EXPECT_EQ(VerdictOf("nprf-fig1a", with(1)), kReproduced)
      << FindingOf("nprf-fig1a", with(1)).numbers();
  EXPECT_EQ(VerdictOf("nprf-fig1a-streamed", with(1000)), kReproduced);
  Records records = with(1000);
  const Finding behind = FindingOf("nprf-fig1a", records);
  EXPECT_EQ(behind.verdict(), kNotReproduced);
  EXPECT_NE(behind.numbers().find("times slower"), std::string::npos)
      << behind.numbers();
  // Keeps up to 10k of the paper's 40k.
  std::erase_if(records, [](const Json& record) {
    return record["implementation"] == "fft" && Tokens(record) > 10000;
  });
  EXPECT_EQ(VerdictOf("nprf-fig1a", records), kInPart);
}

TEST(Claims, TransformerXlIsTimedWithRecords) {
  EXPECT_EQ(FindClaim("txl-linear").rule({}).numbers().find("time of shift"),
            std::string::npos);
  Records records;
  const Operator& op = FindOperator("transformer_xl_attention");
  for (const int64_t n : {64, 128, 256, 512, 1024})
    for (const Implementation* implementation : ImplementationsOf(op)) {
      if (implementation->backend != Backend::kCpu) continue;
      CaseRequest request;
      request.op = &op;
      request.n = n;
      const Case planned = MakeCase(request);
      Verdict verdict;
      verdict.outcome = Outcome::kPassed;
      records.push_back(ToJson(MakeRecord(planned, ProblemOf(planned),
                                          *implementation, 1, verdict)));
      SetTime(records.back(), 1e-10 * records.back()["flops"].get<double>());
    }
  const Finding finding = FindingOf("txl-linear", records);
  EXPECT_EQ(finding.verdict(), kInPart);
  EXPECT_NE(finding.numbers().find("time of shift"), std::string::npos)
      << finding.numbers();
  EXPECT_NE(finding.numbers().find("than the naive way"), std::string::npos)
      << finding.numbers();
}

// ---- several machines ------------------------------------------------------

TEST(SweepClaims, MachinesAreNotMixed) {
  // One machine has softmax attention, the other FastRPB: nothing can be
  // compared.
  Records softmax, other;
  for (const Json& record : Fig3(6, 6, 11, 11))
    (record["operator"] == "softmax_attention" ? softmax : other)
        .push_back(record);
  Evidence apart;
  AddResults(ResultFile(softmax, "one"), "one", apart);
  AddResults(ResultFile(other, "other"), "other", apart);
  EXPECT_EQ(FindClaim("frpb-fig3").rule(apart).verdict(), kNotMeasured);
  Evidence together;
  AddResults(ResultFile(softmax, "one"), "one", together);
  AddResults(ResultFile(other, "one"), "other", together);
  EXPECT_EQ(FindClaim("frpb-fig3").rule(together).verdict(), kReproduced);
  // The results of two machines disagree.
  Evidence both;
  AddResults(ResultFile(Fig3(6, 6, 11, 11), "one"), "one", both);
  AddResults(ResultFile(Fig3(2, 2, 1, 1), "other"), "other", both);
  const Finding finding = FindClaim("frpb-fig3").rule(both);
  EXPECT_EQ(finding.verdict(), kInPart);
  EXPECT_NE(finding.numbers().find("on other"), std::string::npos);
}

TEST(SweepClaims, ShardsOfSeveralProcessorsHaveNoTimes) {
  Json file = ResultFile(ByTheory(), "one");
  file["sources"] = {{{"environment", {{"cpu", "one"}}}},
                     {{"environment", {{"cpu", "other"}}}}};
  Evidence evidence;
  AddResults(file, "merged", evidence);
  for (const char* id : {"nprf-fig1a", "frpb-table3"})
    EXPECT_EQ(FindClaim(id).rule(evidence).verdict(), kNotMeasured) << id;
  EXPECT_EQ(FindClaim("frpb-1d-memory").rule(evidence).verdict(), kReproduced);
  EXPECT_EQ(FindClaim("frpb-1d-time").rule(evidence).verdict(), kNotMeasured);
}

}  // namespace
}  // namespace subquad
