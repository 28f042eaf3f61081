#include "harness/papers/claims/claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "harness/base/environment.h"
#include "harness/base/exit_status.h"
#include "harness/base/interrupts.h"
#include "harness/base/output_file.h"
#include "harness/base/tell.h"
#include "harness/papers/claims/claim_list.h"
#include "harness/results/recipe.h"
#include "harness/sweeps/presets.h"

namespace subquad {
namespace {

constexpr const char* kPreset = "claims";

Json NumberOrNull(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

// ---- what a claim needs ----------------------------------------------------

std::string TextOf(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "1" : "0";
  return value.dump();
}

std::vector<std::string> Texts(const Json& value) {
  std::vector<std::string> texts;
  for (const Json& one : value.is_array() ? value : Json::array({value}))
    texts.push_back(TextOf(one));
  return texts;
}

// The options of the command line that stand for an entry of a preset.
std::string OptionsOf(const Json& sweep) {
  std::string options;
  for (const auto& [name, value] : sweep.items()) {
    if (name == "comment" || name == "claims") continue;
    const std::vector<std::string> texts = Texts(value);
    if (name == "operator" || name == "implementation" || name == "backend" ||
        name == "scalar") {
      for (const std::string& text : texts)
        options += fmt::format(" --{} {}", name, text);
      continue;
    }
    std::string joined;
    for (const std::string& text : texts)
      joined += (joined.empty() ? "" : ",") + text;
    const bool axis = name == "n" || name == "d" || name == "e" ||
                      name == "f" || name == "heads" || name == "batch" ||
                      name == "threads" || name == "input";
    options += axis ? fmt::format(" --{} {}", name, joined)
                    : fmt::format(" --param {}={}", name, joined);
  }
  return options;
}

// "study spectra" or "recipe nprf-memory, recipe nprf-fig1a".
std::string SourcesOf(const Claim& claim) {
  if (claim.kind == ClaimKind::kStudy) return "study " + claim.study;
  std::string sources;
  for (const std::string& recipe : claim.recipes)
    sources += (sources.empty() ? "recipe " : ", recipe ") + recipe;
  return sources;
}

std::vector<Json> SweepsFor(const std::string& id) {
  std::vector<Json> sweeps;
  const Json file = Json::parse(FindPreset(kPreset).text);
  for (const Json& sweep : file.at("sweeps"))
    for (const Json& claim : sweep.value("claims", Json::array()))
      if (claim == id) sweeps.push_back(sweep);
  return sweeps;
}

// ---- output ----------------------------------------------------------------

std::string Code(const std::string& text) {
  return text.empty() ? "" : "`" + text + "`";
}

bool ErratumRefuted(const Finding& finding) {
  return finding.about_errata() && !finding.errata_confirmed();
}

std::map<ClaimVerdict, int64_t> Count(
    const std::vector<AnsweredClaim>& answers) {
  std::map<ClaimVerdict, int64_t> counts;
  for (const AnsweredClaim& answer : answers)
    ++counts[answer.finding.verdict()];
  return counts;
}

std::string Summary(const std::vector<AnsweredClaim>& answers) {
  auto counts = Count(answers);
  std::string summary = fmt::format("{} claims", answers.size());
  for (ClaimVerdict verdict : kClaimVerdicts)
    summary += fmt::format("{} {} {}",
                           verdict == ClaimVerdict::kReproduced ? ":" : ",",
                           counts[verdict], ToString(verdict));
  return summary;
}

}  // namespace

std::string_view ToString(ClaimKind kind) {
  switch (kind) {
    case ClaimKind::kErratum:
      return "erratum";
    case ClaimKind::kProperty:
      return "property";
    case ClaimKind::kSweep:
      return "sweep";
    case ClaimKind::kStudy:
      return "study";
    case ClaimKind::kNone:
      return "none";
  }
  return "";
}

// ---- the list --------------------------------------------------------------

const std::vector<Claim>& Claims() {
  static const std::vector<Claim> claims = [] {
    std::vector<Claim> all;
    for (auto list : {FastRpbClaims, LrpeClaims, NprfClaims,
                      TransformerXlClaims, TransformersIiClaims})
      for (Claim& claim : list()) all.push_back(std::move(claim));
    return all;
  }();
  return claims;
}

// "FastRPB" of "FastRPB section 5".
std::string PaperOf(const Claim& claim) {
  for (const char* paper :
       {"FastRPB", "LRPE", "NPRF", "Transformer-XL", "Transformers II"})
    if (claim.source.starts_with(paper)) return paper;
  throw std::logic_error("claim " + claim.id + " is of no paper");
}

std::string NeedsOf(const Claim& claim) {
  if (claim.kind == ClaimKind::kStudy)
    return fmt::format("subquad study {} --out DIR", claim.study);
  const std::vector<Json> sweeps = SweepsFor(claim.id);
  if (sweeps.empty()) return "";
  if (sweeps.size() > 1)
    return fmt::format("subquad sweep --preset {} --out FILE", kPreset);
  return "subquad sweep" + OptionsOf(sweeps.front()) + " --out FILE";
}

std::string AnsweredFrom(const Claim& claim) {
  const std::string needs = NeedsOf(claim);
  if (needs.empty() && claim.kind != ClaimKind::kNone)
    return "computed by this command, without files";
  const Finding without = claim.rule({});
  switch (without.verdict()) {
    case ClaimVerdict::kNotMeasured:
      return needs;
    case ClaimVerdict::kCannotBeTested:
      return "cannot be tested here: " + without.numbers();
    default:
      return "computed by this command, and from: " + needs;
  }
}

bool HoldPartOf(const Claim& claim, const Evidence& evidence) {
  if (std::ranges::any_of(evidence.studies, [&](const StudyFile& file) {
        return file.content.at("study") == claim.study;
      }))
    return true;
  return std::ranges::any_of(claim.recipes, [&](const std::string& name) {
    const Recipe& recipe = FindRecipe(name);
    return std::ranges::any_of(evidence.machines, [&](const Machine& machine) {
      return std::ranges::any_of(machine.records, [&](const Json& record) {
        return recipe.AsksFor(SettingsOf(record), {recipe.x()});
      });
    });
  });
}

std::vector<AnsweredClaim> AnswerClaims(const Evidence& evidence) {
  std::vector<AnsweredClaim> answers;
  for (const Claim& claim : Claims()) {
    if (Interrupted()) break;
    Finding finding = claim.rule(evidence);
    if (finding.verdict() == ClaimVerdict::kNotMeasured)
      finding.Note("needs " + SourcesOf(claim));
    answers.push_back({&claim, std::move(finding)});
  }
  return answers;
}

Json ClaimsJson(const std::vector<AnsweredClaim>& answers,
                const Evidence& evidence, const Json& header) {
  Json file = {{"format", "claims/1"}};
  file.update(header);
  file["files"] = evidence.files;
  Json counts = Json::object();
  auto count = Count(answers);
  for (ClaimVerdict verdict : kClaimVerdicts)
    counts[std::string(ToString(verdict))] = count[verdict];
  file["counts"] = counts;
  Json claims = Json::array();
  for (const auto& [claim, finding] : answers) {
    const std::string needs = NeedsOf(*claim);
    Json quantities = Json::array();
    for (const Quantity& one : finding.quantities())
      quantities.push_back({{"name", one.name},
                            {"value", NumberOrNull(one.value)},
                            {"low", NumberOrNull(one.low)},
                            {"high", NumberOrNull(one.high)}});
    claims.push_back(
        {{"id", claim->id},
         {"says", claim->says},
         {"source", claim->source},
         {"paper", PaperOf(*claim)},
         {"words", QuotationOf(*claim)},
         {"kind", ToString(claim->kind)},
         {"recipes", claim->recipes},
         {"needs", needs.empty() ? Json(nullptr) : Json(needs)},
         {"verdict", ToString(finding.verdict())},
         {"erratum", !finding.about_errata()      ? Json(nullptr)
                     : finding.errata_confirmed() ? Json("confirmed")
                                                  : Json("not confirmed")},
         {"numbers", finding.numbers()},
         {"quantities", quantities}});
  }
  file["claims"] = claims;
  return file;
}

std::string ClaimsMarkdown(const std::vector<AnsweredClaim>& answers) {
  std::string text =
      "# What the papers claim, and what was found\n\nMade by `subquad "
      "claims`; every verdict follows from the numbers by a rule in code. The "
      "claims of a paper are in the order of its text.\n\n" +
      Summary(answers) + ".\n";
  for (size_t first = 0; first < answers.size();) {
    const std::string paper = PaperOf(*answers[first].claim);
    size_t end = first;
    std::vector<std::vector<std::string>> rows;
    for (; end < answers.size() && PaperOf(*answers[end].claim) == paper;
         ++end) {
      const auto& [claim, finding] = answers[end];
      rows.push_back(
          {claim->id, claim->says,
           fmt::format("{}: \"{}\"", claim->source, QuotationOf(*claim)),
           fmt::format("**{}**", ToString(finding.verdict())),
           finding.numbers(), Code(NeedsOf(*claim))});
    }
    const std::vector<AnsweredClaim> group(
        answers.begin() + static_cast<std::ptrdiff_t>(first),
        answers.begin() + static_cast<std::ptrdiff_t>(end));
    text += fmt::format(
        "\n## {}\n\n{}.\n\n{}", paper, Summary(group),
        MarkdownTable(
            {"claim", "says", "source", "verdict", "numbers", "needs"}, rows));
    first = end;
  }
  return text;
}

std::string ClaimsText(const std::vector<AnsweredClaim>& answers,
                       const Evidence& evidence, bool all) {
  std::string text, too_little;
  int64_t computed = 0, not_measured = 0, untestable = 0;
  for (const auto& [claim, finding] : answers) {
    const ClaimVerdict verdict = finding.verdict();
    const bool held = ErratumRefuted(finding) || HoldPartOf(*claim, evidence);
    if (!all && held && verdict == ClaimVerdict::kNotMeasured) {
      too_little += (too_little.empty() ? "" : ", ") + claim->id;
    } else if (all || held) {
      text += fmt::format("{:<18} {:<22} {}\n", claim->id, ToString(verdict),
                          finding.numbers());
      if (verdict == ClaimVerdict::kNotMeasured)
        text += fmt::format("{:<18} {:<22} measured by: {}\n", "", "",
                            NeedsOf(*claim));
    } else {
      ++(verdict == ClaimVerdict::kNotMeasured      ? not_measured
         : verdict == ClaimVerdict::kCannotBeTested ? untestable
                                                    : computed);
    }
  }
  if (!too_little.empty())
    text += "not enough for (--all says what they need): " + too_little + "\n";
  if (computed + not_measured + untestable > 0)
    text += fmt::format(
        "others (--all lists them): {} computed without files, {} not "
        "measured, {} cannot be tested here\n",
        computed, not_measured, untestable);
  return text;
}

int RunClaims(const ClaimsOptions& options) {
  namespace fs = std::filesystem;
  if (options.out.extension() != ".json")
    throw InvalidInput("--out", "a file whose name ends in .json",
                       "'" + options.out.string() + "'");
  fs::path table = options.out;
  table.replace_extension(".md");
  std::error_code error;
  for (const std::string& file : options.files)
    if (fs::equivalent(file, options.out, error))
      throw InvalidInput("--out", "another file than those it reads", file);
  for (const fs::path& file : {options.out, table})
    OutputFile("--out", file, Unless(options.force));
  const Evidence evidence = ReadEvidence(options.files);
  CatchInterrupts();
  const std::vector<AnsweredClaim> answers = AnswerClaims(evidence);
  if (Interrupted()) {
    Tell("interrupted after {} of {} claims; nothing written\n", answers.size(),
         Claims().size());
    return kInterrupted;
  }
  const Json header = {{"command", options.command},
                       {"created", CurrentTime()},
                       {"environment", DescribeEnvironment(1)}};
  WriteFileAtomically(options.out,
                      ClaimsJson(answers, evidence, header).dump(1) + "\n");
  WriteFileAtomically(table, ClaimsMarkdown(answers));
  const bool refuted =
      std::ranges::any_of(answers, [](const AnsweredClaim& answer) {
        return ErratumRefuted(answer.finding);
      });
  fmt::print("{}{} -> {}, {}\n", ClaimsText(answers, evidence, options.all),
             Summary(answers), options.out.string(), table.string());
  if (refuted) Tell("subquad claims: an erratum was not confirmed\n");
  return refuted ? kCheckFailed : kFine;
}

}  // namespace subquad
