// The rules of claims on planted studies, and claims that are computed on the
// spot: correct numbers are reproduced, wrong ones are not, missing ones are
// not measured, and NaN never supports a claim.
#include "harness/papers/claims.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "harness/papers/frame/study_rule.h"
#include "harness/papers/papers.h"
#include "tests/harness/papers/planted_records.h"

namespace subquad {
namespace {

// ---- the list --------------------------------------------------------------

TEST(Claims, HaveUniqueIdsAndQuotations) {
  std::set<std::string> ids, papers;
  std::string paper;
  for (const Claim& claim : Claims()) {
    EXPECT_TRUE(ids.insert(claim.id).second) << claim.id;
    EXPECT_EQ(claim.words.size() < 4, claim.paper == "subquad") << claim.id;
    if (claim.paper != paper) {
      EXPECT_TRUE(papers.insert(claim.paper).second) << claim.id;
    }
    paper = claim.paper;
  }
  EXPECT_EQ(papers.size(), Papers().size());
  EXPECT_THROW(FindClaim("nobody-said"), std::logic_error);
}

// Rows without an answer or with two, and rules without a row, are refused.
TEST(Claims, InvalidRowsAreRefused) {
  const Rule rule = [](const Evidence&) { return Finding(); };
  const auto read = [&](const std::string& row) {
    ClaimsOf({"made", {{"made-rule", rule}}, {}},
             R"({"paper": "made", "claims": [)" + row + "]}");
  };
  const std::string good =
      R"({"id": "made-rule", "place": "p", "says": "s", "words": "w")";
  EXPECT_NO_THROW(read(good + "}"));
  for (const std::string& wrong :
       {good + R"(, "why_not": "because"})", good + R"(, "study": "spectra"})",
        good + R"(, "erratum": "slip"})", good + R"(, "kind": "none"})",
        std::string(R"({"id": "made-other", "place": "p", "says": "s"})"),
        std::string(R"({"id": "a-b", "place": "p", "says": "s", )"
                    R"("why_not": "because"})")})
    EXPECT_THROW(read(wrong), std::logic_error) << wrong;
}

// Claims without an answer say why, or what an answer would need, in one line.
TEST(Claims, WithoutAnAnswerSayWhy) {
  for (const Claim& claim : Claims()) {
    if (claim.kind() != ClaimKind::kNone) continue;
    const Finding finding = claim.rule({});
    EXPECT_EQ(finding.verdict(),
              claim.why_not.empty() ? kNotAttempted : kCannotBeTested)
        << claim.id;
    EXPECT_GE(finding.numbers().size(), 10u) << claim.id;
    EXPECT_EQ(finding.numbers().find('\n'), std::string::npos) << claim.id;
    EXPECT_EQ(NeedsOf(claim), "") << claim.id;
  }
}

TEST(Claims, SayWhatTheyNeed) {
  for (const Claim& claim : Claims()) {
    EXPECT_FALSE(claim.says.empty()) << claim.id;
    EXPECT_FALSE(claim.place.empty()) << claim.id;
    if (claim.kind() == ClaimKind::kSweep ||
        claim.kind() == ClaimKind::kStudy) {
      EXPECT_FALSE(NeedsOf(claim).empty()) << claim.id;
    }
  }
  EXPECT_EQ(NeedsOf(FindClaim("frpb-2d-time")),
            "subquad sweep --preset fastrpb-toeplitz-2d --out FILE");
  EXPECT_EQ(NeedsOf(FindClaim("nprf-lemma2")),
            "subquad study prf_variance --out DIR");
  EXPECT_EQ(NeedsOf(FindClaim("sikf-shift")), "");
}

// The rules of claims find their recipes, and the recipes list the claims.
TEST(Claims, AreListedInTheRecipesWhosePointsTheyUse) {
  for (const Claim& claim : Claims()) {
    EXPECT_TRUE(claim.kind() != ClaimKind::kSweep || !claim.recipes.empty())
        << claim.id;
    for (const std::string& name : claim.recipes) {
      const Json listed = FindRecipe(name).content().at("claims");
      EXPECT_EQ(std::ranges::count(listed, Json(claim.id)), 1)
          << claim.id << " in " << name;
    }
  }
}

// ---- findings --------------------------------------------------------------

TEST(Finding, VerdictFollowsFromItsParts) {
  const auto verdict = [](std::vector<Holds> parts) {
    Finding finding;
    for (Holds part : parts) finding.Add(part, "text");
    finding.Note("not judged");
    return finding.verdict();
  };
  using enum Holds;
  EXPECT_EQ(verdict({}), kCannotBeTested);
  EXPECT_EQ(verdict({kUntestable, kUntestable}), kCannotBeTested);
  EXPECT_EQ(verdict({kMissing, kMissing}), kNotMeasured);
  EXPECT_EQ(verdict({kMissing, kUntestable}), kNotMeasured);
  EXPECT_EQ(verdict({kYes, kYes}), kReproduced);
  EXPECT_EQ(verdict({kYes, kMissing}), kInPart);
  EXPECT_EQ(verdict({kYes, kUntestable}), kInPart);
  EXPECT_EQ(verdict({kYes, kNo}), kInPart);
  EXPECT_EQ(verdict({kBetween}), kInPart);
  EXPECT_EQ(verdict({kNo, kMissing}), kNotReproduced);
  EXPECT_EQ(verdict({kNo, kNo}), kNotReproduced);
}

TEST(Finding, ClaimsOfOurselvesHoldByConstruction) {
  Finding finding;
  finding.HoldsByConstruction();
  finding.Add(true, "text");
  EXPECT_EQ(finding.verdict(), kByConstruction);
  finding.Add(false, "text");
  EXPECT_EQ(finding.verdict(), kInPart);
}

TEST(Finding, TheHeadlineIsThePartThatDecides) {
  Finding finding;
  finding.Note("beside it");
  finding.Add(true, "holds");
  EXPECT_EQ(finding.headline(), "holds");
  Finding other;
  other.Note("another note");
  other.Add(false, "does not");
  finding.Append(other, "on another: ");
  EXPECT_EQ(finding.headline(), "does not");
}

TEST(Finding, NumbersAreFormattedForReaders) {
  Finding finding;
  const auto text = [&](double value) {
    return fmt::format("{}", finding.Measure("a", value));
  };
  EXPECT_EQ(text(0.0123456), "0.0123");
  EXPECT_EQ(text(999.4), "999");
  EXPECT_EQ(text(999.6), "1000");
  EXPECT_EQ(finding.Measure("a", 1617.0, {1598.0, 1658.0}).text,
            "1620 [1600, 1660]");
  EXPECT_EQ(text(-12345.0), "-12300");
  EXPECT_EQ(text(1.5e9), "1.5e+09");
}

TEST(Finding, UsesPlantedNumbers) {
  Evidence evidence;
  evidence.planted["a"] = 7;
  Finding finding(evidence);
  EXPECT_EQ(finding.Measure("a", 1), 7);
  EXPECT_EQ(finding.Measure("b", 1), 1);
  EXPECT_EQ(finding.Measure("a", 1, {0, 2}).text, "7 [7, 7]");
  EXPECT_EQ(finding.quantities().size(), 3u);
}

TEST(Finding, WrongErrataAreNotConfirmed) {
  const auto finding = [](double printed, double corrected) {
    Finding result;
    result.Add(Erratum{"a formula", printed, corrected, 0.1});
    return result;
  };
  EXPECT_TRUE(finding(1, 0).errata_confirmed());
  EXPECT_EQ(finding(1, 0).verdict(), kWrongAsPrinted);
  EXPECT_FALSE(finding(0, 0).errata_confirmed());
  EXPECT_EQ(finding(0, 0).verdict(), kReproduced);
  EXPECT_FALSE(finding(1, 1).errata_confirmed());
  EXPECT_FALSE(finding(kNaN, 0).errata_confirmed());
  EXPECT_EQ(finding(kNaN, 0).verdict(), kCannotBeTested);
  EXPECT_FALSE(finding(1, kNaN).errata_confirmed());
  EXPECT_NE(finding(0, 0).numbers().find("NOT CONFIRMED"), std::string::npos);
  EXPECT_EQ(finding(1, 1).verdict(), kNotReproduced);
  Finding mixed = finding(1, 0);
  mixed.Append(finding(0, 0), "");
  EXPECT_EQ(mixed.verdict(), kInPart);
}

TEST(Finding, StatementsBesideErrataMustHold) {
  for (bool holds : {true, false}) {
    Finding finding;
    finding.Add(Erratum{"a formula", 1, 0, 0.1});
    finding.Require(holds, "the rest is right");
    EXPECT_EQ(finding.errata_confirmed(), holds);
    EXPECT_EQ(finding.verdict(), holds ? kWrongAsPrinted : kNotReproduced);
  }
}

// ---- every rule can fail ---------------------------------------------------

bool IsSupport(ClaimVerdict verdict) {
  return verdict == kReproduced || verdict == kByConstruction ||
         verdict == kWrongAsPrinted;
}

// Records that agree with theory answer every claim; the numbers that its row
// plants give another answer; and no number that a part is judged by may be NaN
// if the claim is supported.
TEST(Claims, EveryRuleIsFlippedByAPlantedNumber) {
#ifndef SUBQUAD_FFTW
  GTEST_SKIP() << "recipes measure FFTW, which this build lacks";
#endif
  for (const Claim& claim : Claims()) {
    if (!claim.study.empty() || claim.kind() == ClaimKind::kNone ||
        !claim.same_as.empty() || !std::ranges::all_of(claim.recipes, CanPlan))
      continue;
    Evidence evidence = claim.recipes.empty() ? Evidence() : From(ByTheory());
    const Finding before = claim.rule(evidence);
    if (before.verdict() == kCannotBeTested) continue;  // under a sanitizer
    EXPECT_TRUE(before.answered()) << claim.id << ": " << before.numbers();
    std::set<std::string> judged;
    for (const Quantity& quantity : before.quantities())
      if (quantity.judged) judged.insert(quantity.name);
    EXPECT_FALSE(claim.planted.empty()) << claim.id << " plants nothing";
    for (const auto& [name, value] : claim.planted)
      EXPECT_TRUE(judged.contains(name)) << claim.id << " measures no " << name;
    evidence.planted = claim.planted;
    EXPECT_NE(claim.rule(evidence).verdict(), before.verdict())
        << claim.id << ": " << claim.rule(evidence).numbers();
    for (const std::string& name : judged) {
      evidence.planted = {{name, kNaN}};
      EXPECT_FALSE(IsSupport(claim.rule(evidence).verdict()))
          << claim.id << ", " << name << ": " << claim.rule(evidence).numbers();
    }
  }
}

TEST(Claims, ErrataAreConfirmedAndHaveAClass) {
  for (const Claim& claim : Claims()) {
    if (claim.study.empty() && claim.kind() != ClaimKind::kNone) {
      EXPECT_EQ(claim.rule({}).about_errata(), !claim.erratum.empty())
          << claim.id;
    }
    if (claim.erratum.empty() || !claim.study.empty()) continue;
    const Finding finding = claim.rule({});
    EXPECT_TRUE(finding.errata_confirmed())
        << claim.id << ": " << finding.numbers();
    EXPECT_EQ(finding.verdict(), kWrongAsPrinted) << claim.id;
  }
}

// Properties that the program computes hold, with known exceptions.
TEST(Claims, PropertiesNeedNoFile) {
  const std::map<std::string, ClaimVerdict> known = {
      {"survey-infinite", kInPart},
      {"frpb-accuracy", kInPart},
      {"frpb-better-than-original", kInPart},
      {"frpb-cifar-conv", kInPart},
      {"frpb-fastest", kInPart},
      {"frpb-listops", kInPart},
      {"frpb-performer-cost", kInPart},
      {"frpb-tight-memory", kInPart},
      {"lrpe-sign", kInPart},
      {"nprf-table4-both", kInPart}};
  for (const Claim& claim : Claims()) {
    if (claim.kind() != ClaimKind::kProperty || claim.id == "lrpe-auto")
      continue;
    const Finding finding = claim.rule({});
    const auto exception = known.find(claim.id);
    if (exception == known.end())
      EXPECT_TRUE(finding.verdict() == kReproduced ||
                  finding.verdict() == kByConstruction)
          << claim.id << ": " << finding.numbers();
    else
      EXPECT_EQ(finding.verdict(), exception->second)
          << claim.id << ": " << finding.numbers();
  }
  EXPECT_EQ(FindClaim("txl-linear").rule({}).verdict(), kInPart);
  const ClaimVerdict chosen = FindClaim("lrpe-auto").rule({}).verdict();
  EXPECT_TRUE(chosen == kInPart || chosen == kCannotBeTested);  // sanitizers
}

// ---- studies ---------------------------------------------------------------

// Makes four cells with the mean and the variance in units of theory.
StudyFile Lemma2(const Json& mean, const Json& variance) {
  const std::vector<std::string> names = {
      "map",       "spread",         "judged", "mean_ratio", "mean_low",
      "mean_high", "variance_ratio", "low",    "high"};
  Json columns = Json::array(), rows = Json::array();
  for (const std::string& name : names)
    columns.push_back({{"name", name}, {"unit", "1"}, {"meaning", "planted"}});
  for (int row = 0; row < 4; ++row)
    rows.push_back(
        {"prf", 1.0, true, mean, 0.998, 1.002, variance, 0.95, 1.05});
  return {
      "planted.json",
      {{"format", "study/1"},
       {"study", "prf_variance"},
       {"parameters", FindStudy("prf_variance").parameters},
       {"tables", {{"variance", {{"columns", columns}, {"rows", rows}}}}},
       // Verdicts in the file itself are ignored.
       {"verdicts", {{{"claim", "nprf-lemma2"}, {"verdict", "reproduced"}}}}}};
}

ClaimVerdict Judged(const std::vector<StudyFile>& files) {
  Evidence evidence;
  evidence.studies = files;
  return FindClaim("nprf-lemma2").rule(evidence).verdict();
}

TEST(Claims, StudiesAreJudgedAgain) {
  EXPECT_EQ(Judged({}), kNotMeasured);
  EXPECT_EQ(Judged({Lemma2(1.0005, 0.99)}), kReproduced);
  EXPECT_EQ(Judged({Lemma2(1.1, 0.99)}), kNotReproduced);
  EXPECT_EQ(Judged({Lemma2(1.0005, 0.5)}), kNotReproduced);
  EXPECT_EQ(Judged({Lemma2(1.0005, 0.99), Lemma2(1.1, 0.99)}), kInPart);
}

TEST(Claims, StudiesDoNotRestOnNaN) {
  EXPECT_EQ(Judged({Lemma2(nullptr, 1.0)}), kNotReproduced);
  EXPECT_EQ(Judged({Lemma2(1.0, nullptr)}), kNotReproduced);
}

// Only trained models could answer it, with or without the study.
TEST(Claims, NoStudyAnswersWhatNeedsTraining) {
  const Finding finding = FindClaim("nprf-convert").rule({});
  EXPECT_EQ(finding.verdict(), kCannotBeTested);
  EXPECT_NE(finding.numbers().find("needs models trained"), std::string::npos);
  EXPECT_EQ(FindClaim("nprf-convert-weights").rule({}).verdict(), kNotMeasured);
}

TEST(Claims, SmallStudiesAreAHint) {
  StudyFile file = Lemma2(1.0005, 0.99);
  file.content["parameters"]["rows"] = 3;
  EXPECT_EQ(Judged({file}), kInPart);
  file = Lemma2(1.0005, 0.99);
  file.content["parameters"]["input"] = {"other tensors"};
  EXPECT_EQ(Judged({file}), kReproduced);
  file = Lemma2(1.1, 0.99);
  file.content["parameters"]["rows"] = 3;
  EXPECT_EQ(Judged({file}), kNotMeasured);
}

// A study may find that a formula is wrong, or that it cannot decide: neither
// means that a claim does not hold.
TEST(Claims, StudiesMayFindErrataAndCannotTestAll) {
  const auto verdict = [](const std::string& study,
                          const std::vector<std::string>& tables,
                          const std::string& claim) {
    Json empty = Json::object();
    for (const std::string& table : tables)
      empty[table] = {{"columns", Json::array()}, {"rows", Json::array()}};
    Evidence evidence;
    evidence.studies = {{"planted.json",
                         {{"format", "study/1"},
                          {"study", study},
                          {"parameters", FindStudy(study).parameters},
                          {"tables", empty}}}};
    return FromStudies(evidence, FindStudy(study), claim).verdict();
  };
  EXPECT_EQ(
      verdict("sample_complexity", {"at_bound", "smallest"}, "nprf-thm3-step"),
      kWrongAsPrinted);
  EXPECT_EQ(verdict("sample_complexity", {"at_bound", "smallest"}, "nprf-thm3"),
            kNotReproduced);
  EXPECT_EQ(verdict("conversion", {"heads", "paired"}, "nprf-convert"),
            kCannotBeTested);
  EXPECT_EQ(verdict("conversion", {"heads", "paired"}, "nprf-convert-weights"),
            kNotReproduced);
}

TEST(Claims, StudiesWithOtherTablesAreRefused) {
  StudyFile file = Lemma2(1, 1);
  file.content["tables"].erase("variance");
  EXPECT_THROW(Judged({file}), InvalidInput);
  file = Lemma2(1, 1);
  file.content["tables"]["variance"]["columns"][0]["name"] = "other";
  EXPECT_THROW(Judged({file}), InvalidInput);
  file = Lemma2(1, 1);
  file.content["tables"]["variance"]["rows"][0][1] = "text";
  EXPECT_THROW(Judged({file}), InvalidInput);
}

// ---- the help --------------------------------------------------------------

TEST(Claims, NameTheirSources) {
  const std::string computed = "computed by this command";
  EXPECT_EQ(AnsweredFrom(FindClaim("sikf-shift")),
            computed + ", without files");
  EXPECT_EQ(AnsweredFrom(FindClaim("lrpe-tail")), computed + ", without files");
  for (const char* id : {"nprf-lemma2", "nprf-fig1a"})
    EXPECT_EQ(AnsweredFrom(FindClaim(id)), NeedsOf(FindClaim(id)));
  for (const char* id : {"txl-linear", "frpb-2d-time"})
    EXPECT_EQ(AnsweredFrom(FindClaim(id)),
              computed + ", and from: " + NeedsOf(FindClaim(id)));
  for (const char* id : {"frpb-table1", "nprf-convert"}) {
    const std::string text = AnsweredFrom(FindClaim(id));
    EXPECT_TRUE(text.starts_with("cannot be tested here: needs ")) << text;
  }
  EXPECT_TRUE(AnsweredFrom(FindClaim("survey-fig3"))
                  .starts_with("not attempted; it needs the position tables"));
}

// ---- the text --------------------------------------------------------------

AnsweredClaim Answer(const char* id, Holds holds, const std::string& text) {
  AnsweredClaim answer{&FindClaim(id), {}};
  answer.finding.Add(holds, text);
  return answer;
}

TEST(ClaimsText, ListsClaimsWithDataAndCountsTheRest) {
  const std::vector<AnsweredClaim> answers = {
      Answer("nprf-lemma2", Holds::kNo, "wrong"),
      Answer("nprf-lemma2-trf", Holds::kMissing, "another map"),
      Answer("survey-decay", Holds::kMissing, "needs study sinusoidal"),
      Answer("frpb-1d-time", Holds::kMissing, "needs recipe fastrpb-toeplitz"),
      Answer("frpb-table1", Holds::kUntestable, "needs training"),
      Answer("survey-fig3", Holds::kNotAttempted, "position tables"),
      Answer("sikf-shift", Holds::kYes, "0")};
  Evidence evidence;
  evidence.studies = {Lemma2(1, 1)};
  const std::string text = ClaimsText(answers, evidence, false);
  const auto has = [](const std::string& where, const std::string& what) {
    return where.find(what) != std::string::npos;
  };
  EXPECT_TRUE(has(text, "wrong\n")) << text;
  EXPECT_TRUE(has(text, "what is needed): nprf-lemma2-trf\n")) << text;
  for (const char* other :
       {"survey-decay", "frpb-1d-time", "frpb-table1", "sikf-shift"})
    EXPECT_FALSE(has(text, other)) << text;
  EXPECT_TRUE(
      text.ends_with("other claims (--all lists them): 1 computed without "
                     "files, 2 not measured, 1 "
                     "not attempted, 1 cannot be tested here\n"))
      << text;
  const std::string all = ClaimsText(answers, evidence, true);
  for (const AnsweredClaim& answer : answers)
    EXPECT_TRUE(has(all, answer.claim->id)) << all;
  EXPECT_TRUE(has(all, "another map\n")) << all;
  EXPECT_TRUE(has(all, "measured by: subquad study sinusoidal")) << all;
  EXPECT_FALSE(has(all, "other claims")) << all;
}

TEST(ClaimsText, AnUnconfirmedErratumIsAlwaysListed) {
  AnsweredClaim answer{&FindClaim("lrpe-tail"), {}};
  answer.finding.Add(Erratum{"a formula", 0, 0, 0.1});
  EXPECT_NE(ClaimsText({answer}, {}, false).find("NOT CONFIRMED"),
            std::string::npos);
}

// ---- the file --------------------------------------------------------------

TEST(Claims, MarkdownEscapesBars) {
  Finding finding;
  finding.Add(Holds::kYes, "|x| <= 1");
  const std::string text = ClaimsMarkdown({{&Claims().front(), finding}});
  EXPECT_NE(text.find("\\|x\\| <= 1"), std::string::npos);
  EXPECT_NE(text.find("**reproduced**"), std::string::npos);
}

// Rows begin with the verdict; long texts are given in full below.
TEST(Claims, MarkdownRowsAreShort) {
  Finding finding;
  std::string words = "every";
  for (int i = 0; i < 200; ++i) words += " number";
  finding.Add(Holds::kNo, words);
  std::vector<AnsweredClaim> answers;
  for (const Claim& claim : Claims()) answers.push_back({&claim, finding});
  const std::string text = ClaimsMarkdown(answers);
  size_t rows = 0;
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    const std::string line = text.substr(at, text.find('\n', at) - at);
    if (!line.starts_with("| **")) continue;
    ++rows;
    EXPECT_LE(line.size(), 400u) << line;
  }
  EXPECT_EQ(rows, answers.size());
  EXPECT_NE(text.find(words), std::string::npos);
}

// A claim that another paper makes too is counted once.
TEST(Claims, CountsAreOfDistinctFacts) {
  Finding finding;
  finding.Add(Holds::kYes, "text");
  const Json json = ClaimsJson({{&FindClaim("frpb-kernel-form"), finding},
                                {&FindClaim("nprf-kernel-form"), finding}},
                               {}, {{"command", ""}, {"created", ""}});
  EXPECT_EQ(json["claims"].size(), 2u);
  EXPECT_EQ(json["counts"]["reproduced"], 1);
}

TEST(Claims, JsonHasNullForNan) {
  Finding finding;
  finding.Add(Holds::kMissing, finding.Measure("a", kNaN, {kNaN, 2}).text);
  const Json json = ClaimsJson({{&Claims().front(), finding}}, {},
                               {{"command", ""}, {"created", ""}});
  const Json& entry = json["claims"][0]["quantities"][0];
  EXPECT_TRUE(entry["value"].is_null());
  EXPECT_TRUE(entry["low"].is_null());
  EXPECT_EQ(entry["high"], 2);
  EXPECT_EQ(json["counts"]["not measured"], 1);
  EXPECT_EQ(json["counts"]["cannot be tested here"], 0);
}

}  // namespace
}  // namespace subquad
