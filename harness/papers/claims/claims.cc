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
#include "harness/papers/claims/rules.h"
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
  }
  return "";
}

// ---- the list --------------------------------------------------------------

const std::vector<Claim>& Claims() {
  using enum ClaimKind;
  static const std::vector<Claim> claims = {
      {"frpb-1d-time",
       "a Toeplitz product takes O(D N log N) time",
       "FastRPB prop. 3.1",
       kSweep,
       "",
       Frpb1dTime,
       {"fastrpb-toeplitz"}},
      {"frpb-1d-memory",
       "and O(N) memory",
       "FastRPB prop. 3.1",
       kSweep,
       "",
       Frpb1dMemory,
       {"fastrpb-toeplitz"}},
      {"frpb-2d-time",
       "O(D N log N) time for an image of N x N pixels",
       "FastRPB prop. 3.2",
       kErratum,
       "",
       Frpb2dTime,
       {"fastrpb-toeplitz-2d"}},
      {"frpb-fig3",
       "linear attention with FastRPB is 5 times faster than softmax attention "
       "and takes 10 times less memory, up to 50 x 50 pixels",
       "FastRPB section 5, fig. 3",
       kSweep,
       "",
       FrpbFig3,
       {"fastrpb-fig3a", "fastrpb-fig3b"}},
      {"frpb-table3",
       "FastRPB is up to 30 times cheaper than convSPE and 3 times cheaper "
       "than sineSPE",
       "FastRPB section 5, table 3",
       kSweep,
       "",
       FrpbTable3,
       {"fastrpb-table3"}},
      {"frpb-memory-spe",
       "it takes 1.5 times less memory than either SPE",
       "FastRPB section 5",
       kSweep,
       "",
       FrpbMemorySpe,
       {"fastrpb-table3"}},
      {"sikf-shift",
       "exp features make attention invariant to a constant added to queries "
       "and to keys; elu1, relu and dpfp do not",
       "FastRPB eq. 9", kProperty, "", SikfShift},
      {"frpb-slices",
       "the slices of the circulant matrix and of its product, and the entries "
       "of the flattened matrices, as printed",
       "FastRPB appendix B.2 and B.3", kErratum, "", FrpbSlices},
      {"frpb-pad", "images that are not square can be padded with zeros",
       "FastRPB footnote 9", kProperty, "", FrpbPad},
      {"lrpe-linear",
       "the product with clipped relative scores takes linear time and memory",
       "LRPE section III",
       kSweep,
       "",
       LrpeLinear,
       {"lrpe-runtimes-rpe"}},
      {"lrpe-auto", "choosing by the memory formulas takes the least memory",
       "LRPE section IV", kProperty, "", LrpeAuto},
      {"lrpe-sign", "clip(i-j) with the first column before the query",
       "LRPE section III", kErratum, "", LrpeSign},
      {"lrpe-tail", "the right term ends at min(L_Q+k, L_K)",
       "LRPE section III", kErratum, "", LrpeTailRule},
      {"lrpe-phi", "phi is applied to Q and V", "LRPE section III", kErratum,
       "", LrpePhi},
      {"nprf-time",
       "kernelized attention with relative positions takes O(n log n) time",
       "NPRF section 3.2",
       kSweep,
       "",
       NprfTime,
       {"nprf-memory", "nprf-fig1a"}},
      {"nprf-memory",
       "(not stated) algorithm 1 keeps n m d numbers",
       "NPRF algorithm 1",
       kSweep,
       "",
       NprfMemory,
       {"nprf-memory"}},
      {"nprf-fig1a",
       "it overtakes softmax attention on long sequences, for m = 16 to 128",
       "NPRF fig. 1a",
       kSweep,
       "",
       NprfFig1a,
       {"nprf-fig1a"}},
      {"nprf-lemma2", "the variance of the estimate by random features",
       "NPRF lemma 2", kStudy, "prf_variance",
       [](const Evidence& evidence) {
         return FromStudies(evidence, "prf_variance", "nprf-lemma2");
       }},
      {"nprf-thm3", "how many features suffice for an error and a probability",
       "NPRF theorem 3", kStudy, "sample_complexity",
       [](const Evidence& evidence) {
         return FromStudies(evidence, "sample_complexity", "nprf-thm3");
       }},
      {"nprf-fig1b",
       "for large R the error is huge and only slightly improved by more "
       "features; for R = 1 it is small and drops significantly",
       "NPRF fig. 1b", kStudy, "approximation_error",
       [](const Evidence& evidence) {
         return FromStudies(evidence, "approximation_error", "nprf-fig1b");
       }},
      {"nprf-prop1",
       "attention with relative positions is beyond dot-then-exponentiate for "
       "n > d + 1",
       "NPRF prop. 1", kStudy, "rpe_rank",
       [](const Evidence& evidence) {
         return FromStudies(evidence, "rpe_rank", "nprf-prop1");
       }},
      {"nprf-convert",
       "a translation model with normalised attention keeps its quality when "
       "it is converted, one with standard attention does not; relative "
       "positions help both",
       "NPRF fig. 2", kStudy, "conversion",
       [](const Evidence& evidence) {
         return FromStudies(evidence, "conversion", "nprf-convert");
       }},
      {"nprf-maps",
       "trigonometric, spherical and orthogonal features perform alike once "
       "normalised",
       "NPRF fig. 3b", kStudy, "feature_maps",
       [](const Evidence& evidence) {
         return FromStudies(evidence, "feature_maps", "nprf-maps");
       }},
      {"nprf-footnote3", "the FFT cannot speed up generation",
       "NPRF footnote 3", kProperty, "", NprfFootnote3},
      {"nprf-eq13",
       "the first row of D_2 has a factor (x_2 W^V), and a causal bias is "
       "b_{i-j}",
       "NPRF eq. 13, footnote 3", kErratum, "", NprfEq13},
      {"txl-linear",
       "the terms (b) and (d) of all pairs at linear cost",
       "Transformer-XL appendix B",
       kSweep,
       "",
       TxlLinear,
       {"txl-time"}},
      {"txl-matrix", "the last row of B as printed",
       "Transformer-XL appendix B", kErratum, "", TxlMatrixRule},
      {"blog-equivariance",
       "self-attention is permutation equivariant, and position schemes break "
       "that",
       "Transformers II eq. 2", kProperty, "", BlogEquivariance},
      {"blog-rotation", "shifting a sinusoidal position is a rotation",
       "Transformers II eq. 4", kProperty, "", BlogRotation},
      {"blog-decay",
       "dot products of sinusoidal positions fall over the first 51 offsets",
       "Transformers II fig. 2", kStudy, "sinusoidal",
       [](const Evidence& evidence) {
         return FromStudies(evidence, "sinusoidal", "blog-decay");
       }},
      {"blog-rnn", "causal linear attention is a recurrence, as printed",
       "Transformers II eq. 18-20", kErratum, "", BlogRnn},
      {"blog-convolution",
       "multi-head attention with relative positions can be a convolution",
       "Transformers II eq. 22 and 23", kProperty, "", BlogConvolution},
      {"blog-hopfield", "one update of a modern Hopfield network is attention",
       "Transformers II, last section", kProperty, "", BlogHopfield},
  };
  return claims;
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

std::vector<AnsweredClaim> AnswerClaims(const Evidence& evidence) {
  std::vector<AnsweredClaim> answers;
  for (const Claim& claim : Claims()) {
    if (Interrupted()) break;
    answers.push_back({&claim, claim.rule(evidence)});
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
  std::vector<std::vector<std::string>> rows;
  for (const auto& [claim, finding] : answers)
    rows.push_back({claim->id, claim->says, claim->source,
                    fmt::format("**{}**", ToString(finding.verdict())),
                    finding.numbers(), Code(NeedsOf(*claim))});
  return "# What the papers claim, and what was found\n\nMade by `subquad "
         "claims`; every verdict follows from the numbers by a rule in code."
         "\n\n" +
         Summary(answers) + ".\n\n" +
         MarkdownTable(
             {"claim", "says", "source", "verdict", "numbers", "needs"}, rows);
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
  bool refuted = false;
  for (const auto& [claim, finding] : answers) {
    refuted = refuted || ErratumRefuted(finding);
    fmt::print("{:<18} {:<22} {}\n", claim->id, ToString(finding.verdict()),
               finding.numbers());
    if (finding.verdict() == ClaimVerdict::kCannotBeTested)
      fmt::print("{:<18} {:<22} needs: {}\n", "", "", NeedsOf(*claim));
  }
  fmt::print("{} -> {}, {}\n", Summary(answers), options.out.string(),
             table.string());
  if (refuted) Tell("subquad claims: an erratum was not confirmed\n");
  return refuted ? kCheckFailed : kFine;
}

}  // namespace subquad
