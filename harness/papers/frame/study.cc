#include "harness/papers/frame/study.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <mutex>

#include "harness/base/interrupts.h"
#include "harness/base/tell.h"

namespace subquad {
namespace {

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
    if (shown_ && terminal_) Tell("\r{:70}\r", "");
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
    Tell("{}{}: {:.0f} % of a stage, about {:.0f} s left{}",
         terminal_ ? "\r" : "", study_,
         100.0 * static_cast<double>(done) / static_cast<double>(count_), left,
         terminal_ ? "    " : "\n");
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
  std::vector<std::vector<std::string>> rows;
  std::string origin;
  for (const Json& file : files) {
    const Json& environment = file.at("environment");
    for (const Json& verdict : file.at("verdicts"))
      rows.push_back({file.at("study"), verdict.at("claim"), verdict.at("says"),
                      "**" + verdict.at("verdict").get<std::string>() + "**",
                      verdict.at("numbers")});
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
         "beside it, by rules in `harness/papers/frame/`; " +
         origin + ".\n\n" +
         MarkdownTable({"study", "claim", "it says", "verdict", "numbers"},
                       rows);
}

}  // namespace subquad
