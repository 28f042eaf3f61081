#include "harness/study.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <mutex>

#include "harness/environment.h"
#include "harness/exit_status.h"
#include "harness/input_source.h"
#include "harness/studies/attention_heads.h"
#include "harness/studies/studies.h"
#include "harness/worker.h"

namespace subquad {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// How far a long stage is, on stderr: over and over on a terminal, a line now
// and then elsewhere.
class StageProgress {
 public:
  StageProgress(const std::string& study, int64_t count, bool show)
      : study_(study), count_(count), show_(show), start_(Clock::now()) {}
  ~StageProgress() {
    if (shown_ && terminal_) fmt::print(stderr, "\r{:70}\r", "");
  }

  void Step() {
    const int64_t done = ++done_;
    if (!show_) return;
    std::unique_lock lock(mutex_, std::try_to_lock);
    const double elapsed = SecondsSince(start_);
    if (!lock.owns_lock() || elapsed < next_ || done == count_) return;
    next_ = elapsed + (terminal_ ? 0.5 : 20);
    const double left = elapsed * static_cast<double>(count_ - done) /
                        static_cast<double>(done);
    fmt::print(stderr, "{}{}: {:.0f} % of a stage, about {:.0f} s left{}",
               terminal_ ? "\r" : "", study_,
               100.0 * static_cast<double>(done) / static_cast<double>(count_),
               left, terminal_ ? "    " : "\n");
    std::fflush(stderr);
    shown_ = true;
  }

 private:
  const std::string& study_;
  const int64_t count_;
  const bool show_;
  const bool terminal_ = isatty(fileno(stderr)) != 0;
  const Clock::time_point start_;
  std::atomic<int64_t> done_ = 0;
  std::mutex mutex_;
  double next_ = terminal_ ? 1 : 5;
  bool shown_ = false;
};

std::string ShellQuote(const std::string& text) {
  std::string quoted = "'";
  for (char c : text)
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

struct ShellAnswer {
  int status = -1;
  std::string last_line;
};

ShellAnswer Shell(const std::string& command) {
  ShellAnswer answer;
  FILE* pipe = ::popen((command + " 2>&1 </dev/null").c_str(), "r");
  if (!pipe) return answer;
  char text[512];
  while (std::fgets(text, sizeof text, pipe)) answer.last_line = text;
  while (!answer.last_line.empty() && answer.last_line.back() == '\n')
    answer.last_line.pop_back();
  answer.status = ::pclose(pipe);
  return answer;
}

// A python3 that can draw, found once. A Python that was put on the path may
// lack what the system's has.
class FigureScript {
 public:
  // Empty when drawn, else why not.
  std::string Draw(const fs::path& json, const fs::path& out) {
    const fs::path script = fs::path(SUBQUAD_SOURCE_DIR) / "reports/studies.py";
    if (!fs::exists(script)) return "no " + script.string();
    if (python_.empty()) {
      for (const char* name : {"python3", "/usr/bin/python3"})
        if (Shell(std::string(name) +
                  " -c 'import numpy, matplotlib, jsonschema'")
                .status == 0) {
          python_ = name;
          break;
        }
      if (python_.empty()) python_ = "none";
    }
    if (python_ == "none")
      return "no python3 with numpy, matplotlib and jsonschema";
    const ShellAnswer answer =
        Shell(python_ + " " + ShellQuote(script.string()) + " " +
              ShellQuote(json.string()) + " --out " + ShellQuote(out.string()));
    return answer.status == 0 ? "" : answer.last_line;
  }

 private:
  std::string python_;
};

}  // namespace

void StudyTable::Add(std::vector<Json> row) {
  if (row.size() != columns.size())
    throw std::logic_error(fmt::format("table {}: {} cells for {} columns",
                                       name, row.size(), columns.size()));
  rows.push_back(std::move(row));
}

size_t StudyTable::Index(std::string_view column) const {
  for (size_t c = 0; c < columns.size(); ++c)
    if (columns[c].name == column) return c;
  throw std::logic_error(fmt::format("table {} has no {}", name, column));
}

double StudyTable::Number(size_t row, std::string_view column) const {
  const Json& cell = rows.at(row).at(Index(column));
  return cell.is_null() ? std::numeric_limits<double>::quiet_NaN()
                        : cell.get<double>();
}

std::string StudyTable::Text(size_t row, std::string_view column) const {
  return rows.at(row).at(Index(column)).get<std::string>();
}

bool StudyTable::Flag(size_t row, std::string_view column) const {
  return rows.at(row).at(Index(column)).get<bool>();
}

std::vector<double> StudyTable::Numbers(std::string_view column) const {
  std::vector<double> numbers;
  for (size_t r = 0; r < rows.size(); ++r) numbers.push_back(Number(r, column));
  return numbers;
}

const StudyTable& FindTable(const StudyTables& tables, std::string_view name) {
  for (const StudyTable& table : tables)
    if (table.name == name) return table;
  throw std::logic_error("no table " + std::string(name));
}

std::string_view ToString(StudyOutcome outcome) {
  switch (outcome) {
    case StudyOutcome::kReproduced:
      return "reproduced";
    case StudyOutcome::kInPart:
      return "in part";
    case StudyOutcome::kNotReproduced:
      return "not reproduced";
    case StudyOutcome::kCannotBeTested:
      return "cannot be tested here";
  }
  return "";
}

StudyRun::StudyRun(std::string study, uint64_t seed, int threads,
                   bool show_progress)
    : study_(std::move(study)),
      seed_(seed),
      pool_(threads),
      show_progress_(show_progress) {}

Draws StudyRun::DrawsOf(const std::string& purpose) const {
  return Draws(seed_, "study/" + study_ + "/" + purpose);
}

void StudyRun::For(int64_t count,
                   const std::function<void(int64_t index)>& work) {
  StageProgress progress(study_, count, show_progress_);
  pool_.For(count, [&](int64_t index, int) {
    if (Interrupted()) throw StudyInterrupted();
    work(index);
    progress.Step();
  });
  if (Interrupted()) throw StudyInterrupted();
}

void StudyRun::InTurn(int64_t count,
                      const std::function<void(int64_t index)>& work) {
  StageProgress progress(study_, count, show_progress_);
  for (int64_t index = 0; index < count; ++index) {
    if (Interrupted()) throw StudyInterrupted();
    work(index);
    progress.Step();
  }
  if (Interrupted()) throw StudyInterrupted();
}

const Study& FindStudy(std::string_view name) {
  std::string names;
  for (const Study& study : Studies()) {
    if (study.name == name) return study;
    names += (names.empty() ? "" : ", ") + study.name;
  }
  throw InvalidInput("study", "one of " + names + ", or all",
                     "'" + std::string(name) + "'");
}

bool StudyResult::holds() const {
  for (const StudyVerdict& verdict : verdicts)
    if (!verdict.holds()) return false;
  return !verdicts.empty();
}

StudyResult RunStudy(const Study& study, bool tiny, StudyRun& run,
                     const Json& changes) {
  StudyResult result;
  result.parameters = study.parameters;
  if (tiny) result.parameters.merge_patch(study.tiny);
  result.parameters.merge_patch(changes);
  result.tables = study.measure(run, result.parameters);
  result.verdicts = study.judge(result.parameters, result.tables);
  return result;
}

Json StudyJson(const Study& study, const StudyResult& result,
               const Json& header) {
  Json json = {{"format", "study/1"},
               {"study", study.name},
               {"purpose", study.purpose},
               {"source", study.source}};
  json.update(header);
  json["parameters"] = result.parameters;
  Json tables = Json::object();
  for (const StudyTable& table : result.tables) {
    Json columns = Json::array(), rows = Json::array();
    for (const StudyColumn& column : table.columns)
      columns.push_back({{"name", column.name},
                         {"unit", column.unit},
                         {"meaning", column.meaning}});
    for (const auto& row : table.rows) {
      Json cells = Json::array();
      for (const Json& cell : row) cells.push_back(cell);
      rows.push_back(std::move(cells));
    }
    tables[table.name] = {
        {"columns", columns}, {"rows", rows}, {"repeatable", table.repeatable}};
  }
  json["tables"] = tables;
  Json verdicts = Json::array();
  for (const StudyVerdict& verdict : result.verdicts)
    verdicts.push_back({{"claim", verdict.claim},
                        {"says", verdict.says},
                        {"verdict", ToString(verdict.outcome)},
                        {"numbers", verdict.numbers},
                        {"repeatable", verdict.repeatable},
                        {"holds", verdict.holds()}});
  json["verdicts"] = verdicts;
  return json;
}

std::string StudyText(Json json) {
  std::vector<std::pair<std::string, std::string>> tables;
  for (auto& [name, table] : json.at("tables").items()) {
    std::string rows;
    for (const Json& row : table.at("rows"))
      rows += (rows.empty() ? "\n    " : ",\n    ") + row.dump();
    const std::string mark = "rows of " + name;
    tables.emplace_back("\"" + mark + "\"", "[" + rows + "]");
    table["rows"] = mark;
  }
  std::string text = json.dump(1) + "\n";
  for (const auto& [mark, rows] : tables)
    text.replace(text.find(mark), mark.size(), rows);
  return text;
}

std::string VerdictTable(const std::vector<Json>& files) {
  const auto cell = [](const Json& json) {
    std::string text;
    for (char c : json.get<std::string>())
      text += c == '|' ? std::string("\\|") : std::string(1, c);
    return text;
  };
  std::string text =
      "| study | claim | it says | verdict | numbers "
      "|\n|---|---|---|---|---|\n";
  std::string origin;
  for (const Json& file : files) {
    const Json& environment = file.at("environment");
    for (const Json& verdict : file.at("verdicts"))
      text += fmt::format("| {} | {} | {} | **{}** | {} |\n",
                          cell(file.at("study")), cell(verdict.at("claim")),
                          cell(verdict.at("says")), cell(verdict.at("verdict")),
                          cell(verdict.at("numbers")));
    const Json commit = environment.value("commit", Json());
    const std::string line =
        fmt::format("commit {}{}, seed {}, {}",
                    commit.is_string() ? commit.get<std::string>().substr(0, 10)
                                       : "unknown",
                    environment.value("dirty", false) ? " with changes" : "",
                    file.at("seed").get<uint64_t>(),
                    file.at("created").get<std::string>().substr(0, 10));
    if (origin.find(line) == std::string::npos)
      origin += (origin.empty() ? "" : "; ") + line;
  }
  return "# What the studies say\n\nWritten by `subquad study` from the files "
         "beside it, by rules in `harness/studies/`; " +
         origin + ".\n\n" + text;
}

namespace {

// verdicts.md from all studies in the folder, in their order.
void WriteVerdicts(const fs::path& folder) {
  std::vector<Json> files;
  for (const Study& study : Studies()) {
    std::ifstream file(folder / (study.name + ".json"));
    Json json = Json::parse(file, nullptr, false);
    if (json.is_object() && json.value("format", "") == "study/1")
      files.push_back(std::move(json));
  }
  WriteFileAtomically(folder / "verdicts.md", VerdictTable(files));
}

// Folders that cannot be read or hold no heads are refused before anything is
// measured.
Json InputsOf(const StudyOptions& options) {
  Json inputs = Json::array();
  for (const std::string& path : options.inputs) {
    const std::string name = InputSourceName(path);
    CheckHasHeads(*FindInputSource(name));
    inputs.push_back(name);
  }
  return inputs;
}

}  // namespace

int RunStudies(const StudyOptions& options) {
  std::vector<const Study*> chosen;
  for (const std::string& name : options.names) {
    if (name == "all")
      for (const Study& study : Studies()) chosen.push_back(&study);
    else
      chosen.push_back(&FindStudy(name));
  }
  const Json inputs = InputsOf(options);
  const auto takes_inputs = [](const Study* study) {
    return study->parameters.contains("input");
  };
  if (!inputs.empty() && std::ranges::none_of(chosen, takes_inputs)) {
    std::string names;
    for (const Study& study : Studies())
      if (takes_inputs(&study))
        names += (names.empty() ? "" : " or ") + study.name;
    throw InvalidInput(
        "--input",
        "a study that takes tensors" + (names.empty() ? names : ": " + names),
        chosen.front()->name);
  }
  std::error_code error;
  fs::create_directories(options.out, error);
  if (error || !fs::is_directory(options.out))
    throw InvalidInput("--out", "a folder that can be made",
                       "'" + options.out.string() + "'");
  Json header = {{"command", options.command},
                 {"created", CurrentTime()},
                 {"seed", options.seed},
                 {"environment", DescribeEnvironment(options.threads)}};
  CatchInterrupts();
  FigureScript script;
  bool all_hold = true;
  size_t done = 0;
  const auto say_interrupted = [&](const std::string& where) {
    fmt::print(stderr, "interrupted {}; {} finished in {}\n", where,
               done == 1 ? "1 study is" : fmt::format("{} studies are", done),
               options.out.string());
  };
  for (const Study* study : chosen) {
    const Clock::time_point start = Clock::now();
    if (chosen.size() > 1)
      fmt::print(stderr, "[{}/{}] {}\n", done + 1, chosen.size(), study->name);
    StudyResult result;
    try {
      StudyRun run(study->name, options.seed, options.threads, true);
      Json changes = Json::object();
      if (!inputs.empty() && takes_inputs(study)) changes["input"] = inputs;
      result = RunStudy(*study, options.tiny, run, changes);
    } catch (const StudyInterrupted&) {
      say_interrupted("in " + study->name);
      return kInterrupted;
    }
    header["created"] = CurrentTime();
    const fs::path file = options.out / (study->name + ".json");
    WriteFileAtomically(file, StudyText(StudyJson(*study, result, header)));
    WriteVerdicts(options.out);
    ++done;
    fmt::print("{} ({:.1f} s) -> {}\n", study->name, SecondsSince(start),
               file.string());
    for (const StudyVerdict& verdict : result.verdicts)
      fmt::print("  {:<21} {}: {}\n", ToString(verdict.outcome), verdict.claim,
                 verdict.numbers);
    std::fflush(stdout);
    all_hold = all_hold && result.holds();
    if (options.draw) {
      const std::string why_not = script.Draw(file, options.out);
      if (!why_not.empty() && !Interrupted())
        fmt::print(stderr, "subquad study: {} not drawn: {}\n", study->name,
                   why_not);
    }
    if (Interrupted()) {
      say_interrupted("after " + study->name);
      return kInterrupted;
    }
  }
  return all_hold ? kFine : kCheckFailed;
}

}  // namespace subquad
