#include "harness/papers/claims.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "harness/base/exit_status.h"
#include "harness/base/interrupts.h"
#include "harness/base/output_file.h"
#include "harness/base/tell.h"
#include "harness/machine/environment.h"
#include "harness/papers/papers.h"
#include "harness/results/recipe.h"

namespace subquad {
namespace {

Json NumberOrNull(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}
Json TextOrNull(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

// "study spectra" or "recipe nprf-memory, recipe nprf-fig1a".
std::string SourcesOf(const Claim& claim) {
  if (!claim.study.empty()) return "study " + claim.study;
  std::string sources;
  for (const std::string& recipe : claim.recipes)
    sources += (sources.empty() ? "recipe " : ", recipe ") + recipe;
  return sources;
}

// ---- output ----------------------------------------------------------------

std::string Code(const std::string& text) {
  return text.empty() ? "" : "`" + text + "`";
}

// "wrong as printed (typo)".
std::string VerdictText(const Claim& claim, const Finding& finding) {
  const std::string verdict(ToString(finding.verdict()));
  return finding.verdict() == ClaimVerdict::kWrongAsPrinted
             ? fmt::format("{} ({})", verdict, claim.erratum)
             : verdict;
}

// At most 180 characters, cut after a word.
std::string Shortened(const std::string& text) {
  constexpr size_t kMost = 180;
  if (text.size() <= kMost) return text;
  return text.substr(0, text.rfind(' ', kMost - 3)) + " ..";
}

bool ErratumRefuted(const Finding& finding) {
  return finding.about_errata() && !finding.errata_confirmed();
}

// Of distinct facts: a claim that another paper makes too counts once.
std::map<ClaimVerdict, int64_t> Count(
    const std::vector<AnsweredClaim>& answers) {
  std::map<ClaimVerdict, int64_t> counts;
  for (const AnsweredClaim& answer : answers)
    counts[answer.finding.verdict()] += answer.claim->same_as.empty();
  return counts;
}

std::string Summary(const std::vector<AnsweredClaim>& answers) {
  auto counts = Count(answers);
  const auto repeated =
      std::ranges::count_if(answers, [](const AnsweredClaim& answer) {
        return !answer.claim->same_as.empty();
      });
  std::string summary = fmt::format("{} claims", answers.size());
  if (repeated > 0)
    summary += fmt::format(
        " ({} the claim of another paper and {} counted only there)",
        repeated == 1 ? "1 repeats" : fmt::format("{} repeat", repeated),
        repeated == 1 ? "is" : "are");
  for (ClaimVerdict verdict : kClaimVerdicts) {
    const bool hold =
        verdict == ClaimVerdict::kByConstruction && counts[verdict] != 1;
    summary += fmt::format(
        "{} {} {}", verdict == ClaimVerdict::kReproduced ? ":" : ",",
        counts[verdict],
        hold ? std::string_view("hold by construction") : ToString(verdict));
  }
  return summary;
}

}  // namespace

std::string NeedsOf(const Claim& claim) {
  if (!claim.study.empty())
    return fmt::format("subquad study {} --out DIR", claim.study);
  std::string needs;
  for (const std::string& recipe : claim.recipes)
    needs += fmt::format("{}subquad sweep --preset {} --out FILE",
                         needs.empty() ? "" : "; ", recipe);
  return needs;
}

std::string AnsweredFrom(const Claim& claim) {
  const std::string needs = NeedsOf(claim);
  if (needs.empty() && claim.kind() != ClaimKind::kNone)
    return "computed by this command, without files";
  const Finding without = claim.rule({});
  switch (without.verdict()) {
    case ClaimVerdict::kNotMeasured:
      return needs;
    case ClaimVerdict::kNotAttempted:
      return "not attempted; it needs " + without.numbers();
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
    Json quantities = Json::array();
    for (const Quantity& one : finding.quantities())
      quantities.push_back({{"name", one.name},
                            {"value", NumberOrNull(one.value)},
                            {"low", NumberOrNull(one.low)},
                            {"high", NumberOrNull(one.high)}});
    claims.push_back(
        {{"id", claim->id},
         {"says", claim->says},
         {"source", claim->source()},
         {"paper", claim->paper},
         {"words", TextOrNull(claim->words)},
         {"kind", ToString(claim->kind())},
         {"same_as", TextOrNull(claim->same_as)},
         {"recipes", claim->recipes},
         {"needs", TextOrNull(NeedsOf(*claim))},
         {"verdict", ToString(finding.verdict())},
         {"erratum", !finding.about_errata()      ? Json(nullptr)
                     : finding.errata_confirmed() ? Json("confirmed")
                                                  : Json("not confirmed")},
         {"class", TextOrNull(claim->erratum)},
         {"numbers", finding.numbers()},
         {"quantities", quantities}});
  }
  file["claims"] = claims;
  return file;
}

std::string ClaimsMarkdown(const std::vector<AnsweredClaim>& answers) {
  std::string text =
      "# What the papers claim, and what was found\n\n`subquad claims` wrote "
      "this page; every verdict follows from the numbers by a rule in code. "
      "The claims of a paper are in the order of its text as we have it; an "
      "error in a formula may come from the conversion of the text and not "
      "from its authors. *Reproduced*: measured numbers, or the paper's own, "
      "agree with the claim; they could have contradicted it. *Holds by "
      "construction*: our implementation equals our definition, which implies "
      "the claim. In brackets are 95 % intervals, or the range of too few runs "
      "for one, with their number.\n\n" +
      Summary(answers) + ".\n";
  for (size_t first = 0; first < answers.size();) {
    const std::string& paper = answers[first].claim->paper;
    size_t end = first;
    std::vector<std::vector<std::string>> rows;
    std::string details;
    for (; end < answers.size() && answers[end].claim->paper == paper; ++end) {
      const auto& [claim, finding] = answers[end];
      rows.push_back({"**" + VerdictText(*claim, finding) + "**",
                      Code(claim->id), claim->place, claim->says,
                      Shortened(finding.headline())});
      details += fmt::format(
          "- {}{}: {}{}{}\n", Code(claim->id),
          claim->words.empty() ? "" : fmt::format(" (\"{}\")", claim->words),
          finding.numbers(), NeedsOf(*claim).empty() ? "" : ". ",
          Code(NeedsOf(*claim)));
    }
    const std::vector<AnsweredClaim> group(
        answers.begin() + static_cast<std::ptrdiff_t>(first),
        answers.begin() + static_cast<std::ptrdiff_t>(end));
    text += fmt::format(
        "\n## {}\n\n{}.\n\n{}\n<details><summary>{}: quotations, all numbers, "
        "and the commands that measure them</summary>\n\n{}\n"
        "</details>\n",
        paper, Summary(group),
        MarkdownTable({"verdict", "claim", "place", "says", "numbers"}, rows),
        paper, details);
    first = end;
  }
  return text;
}

std::string ClaimsText(const std::vector<AnsweredClaim>& answers,
                       const Evidence& evidence, bool all) {
  std::string text, too_little;
  int64_t computed = 0, not_measured = 0, untestable = 0, open = 0;
  for (const auto& [claim, finding] : answers) {
    const ClaimVerdict verdict = finding.verdict();
    const bool held = ErratumRefuted(finding) || HoldPartOf(*claim, evidence);
    if (!all && held && verdict == ClaimVerdict::kNotMeasured) {
      too_little += (too_little.empty() ? "" : ", ") + claim->id;
    } else if (all || held) {
      text += fmt::format("{:<25} {:<22} {}\n", claim->id, ToString(verdict),
                          finding.numbers());
      if (verdict == ClaimVerdict::kNotMeasured)
        text += fmt::format("{:<25} {:<22} measured by: {}\n", "", "",
                            NeedsOf(*claim));
    } else {
      ++(verdict == ClaimVerdict::kNotMeasured      ? not_measured
         : verdict == ClaimVerdict::kNotAttempted   ? open
         : verdict == ClaimVerdict::kCannotBeTested ? untestable
                                                    : computed);
    }
  }
  if (!too_little.empty())
    text += "the files have too little data (--all shows what is needed): " +
            too_little + "\n";
  if (computed + not_measured + open + untestable > 0)
    text += fmt::format(
        "other claims (--all lists them): {} computed without files, {} not "
        "measured, {} not attempted, {} cannot be tested here\n",
        computed, not_measured, open, untestable);
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
      throw InvalidInput("--out", "a file other than the input files", file);
  for (const fs::path& file : {options.out, table})
    OutputFile("--out", file, Unless(options.force));
  const Evidence evidence = ReadEvidence(options.files);
  CatchInterrupts();
  const std::vector<AnsweredClaim> answers = AnswerClaims(evidence);
  if (Interrupted()) {
    Tell("interrupted after {} of {} claims; nothing was written\n",
         answers.size(), Claims().size());
    return kInterrupted;
  }
  const Json header = {{"command", options.command},
                       {"created", CurrentTime()},
                       {"environment", WriteJson(DescribeEnvironment(1))}};
  WriteFileAtomically(options.out,
                      ClaimsJson(answers, evidence, header).dump(1) + "\n");
  WriteFileAtomically(table, ClaimsMarkdown(answers));
  const bool refuted =
      std::ranges::any_of(answers, [](const AnsweredClaim& answer) {
        return ErratumRefuted(answer.finding);
      });
  fmt::print("{}{} -> {}, {}\n", ClaimsText(answers, evidence, options.all),
             Summary(answers), options.out.string(), table.string());
  if (refuted)
    Tell(
        "subquad claims: at least one text listed as an erratum is correct as "
        "printed (\"erratum\": \"not confirmed\" in {})\n",
        options.out.string());
  return refuted ? kCheckFailed : kFine;
}

}  // namespace subquad
