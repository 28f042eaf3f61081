#include "harness/sweeps/sweep.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <set>
#include <span>
#include <stdexcept>
#include <utility>

#include "harness/base/exit_status.h"
#include "harness/base/interrupts.h"
#include "harness/base/output_file.h"
#include "harness/base/tell.h"
#include "harness/cases/case_folder.h"
#include "harness/machine/build_info.h"
#include "harness/machine/environment.h"
#include "harness/results/result_file.h"

namespace subquad {
namespace {

namespace fs = std::filesystem;

std::string Duration(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  if (seconds < 5400) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

std::string ShortTime(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} s", seconds);
}

bool Passed(const Json& record) {
  return record.at("check").at("verdict") == "passed";
}

// One line per case, and how long the rest will take about.
class Progress {
 public:
  explicit Progress(size_t total) : total_(total), start_(Clock::now()) {}

  void Report(const PlannedCase& planned, const std::vector<Json>& records) {
    ++done_;
    std::string text;
    for (const Json& record : records) {
      std::string name = record.at("implementation");
      if (record.at("backend") != ToString(Backend::kCpu))
        name += fmt::format(" ({})", record.at("backend").get<std::string>());
      const Json& seconds = record.at("seconds");
      text +=
          fmt::format("  {} {}", name,
                      seconds.is_null()
                          ? record.at("check").at("verdict").get<std::string>()
                          : ShortTime(seconds.at("median").get<double>()));
    }
    const double elapsed =
        std::chrono::duration<double>(Clock::now() - start_).count();
    // Cases grow along a sweep: the last ones tell more than the first.
    const double left = elapsed / static_cast<double>(done_) *
                        static_cast<double>(total_ - done_);
    Tell(
        "[{}/{}] {}{}{}\n", done_, total_, planned.one.Id(), text,
        done_ < total_ ? fmt::format("  (about {} left)", Duration(left)) : "");
  }

  void Skip() { ++done_; }

 private:
  using Clock = std::chrono::steady_clock;
  const size_t total_;
  size_t done_ = 0;
  const Clock::time_point start_;
};

// How long a run will take, from what the same implementation did before.
class Forecast {
 public:
  void Learn(const Json& record) {
    if (record.at("seconds").is_null()) return;
    const double flops = record.at("flops").get<double>();
    if (flops > 0)
      rate_[Key(record)] =
          record.at("seconds").at("median").get<double>() / flops;
  }
  double Seconds(const Json& record, const Floors& floors) const {
    const double flops = record.at("flops").get<double>();
    const auto found = rate_.find(Key(record));
    if (found != rate_.end()) return flops * found->second;
    return floors.flops_per_second_float32 > 0
               ? flops / floors.flops_per_second_float32
               : 0;
  }

 private:
  static std::string Key(const Json& record) {
    return record.at("operator").get<std::string>() + "/" +
           record.at("implementation").get<std::string>() + "/" +
           record.at("backend").get<std::string>() + "/" +
           record.at("scalar").get<std::string>();
  }
  std::map<std::string, double> rate_;
};

class Sweep {
 public:
  explicit Sweep(const SweepOptions& options) : options_(options) {
    if (options_.limits.memory_bytes <= 0)
      options_.limits.memory_bytes = AvailableMemoryBytes() / 5 * 4;
  }

  int Run() {
    std::vector<PlannedCase> plan = Plan();
    const fs::path journal_path = Journal::PathFor(options_.out);
    Json environment = DescribeEnvironment(LargestThreads(plan));
    CollectDone(journal_path, environment, plan);
    ReadFloors(environment);
    const Json header = {{"format", "journal/1"},
                         {"command", options_.command},
                         {"created", CurrentTime()},
                         {"seed", options_.seed},
                         {"environment", environment}};
    CatchInterrupts();
    Journal journal(journal_path, header);
    Progress progress(plan.size());
    for (size_t first = 0, end = 0; first < plan.size(); first = end) {
      if (Interrupted()) break;
      end = EndOfGroup(plan, first);
      RunCases({plan.begin() + static_cast<std::ptrdiff_t>(first), end - first},
               journal, progress);
    }
    SetOthersAside();
    SortRecords(records_);
    WriteFileAtomically(options_.out,
                        MakeResultFile(header, records_).dump(1) + "\n");
    fs::remove(journal_path);
    return Finish();
  }

 private:
  std::vector<PlannedCase> Plan() const {
    std::vector<PlannedCase> plan =
        PlanSweep(options_.sweeps, options_.filters, options_.seed);
    options_.filters.TellOfUnusableDevice();
    if (options_.shards == 1) return plan;
    std::vector<PlannedCase> mine;
    int group = 0;
    for (size_t first = 0, end = 0; first < plan.size(); first = end, ++group) {
      end = EndOfGroup(plan, first);
      if (group % options_.shards == options_.shard - 1)
        for (size_t i = first; i < end; ++i) mine.push_back(std::move(plan[i]));
    }
    if (mine.empty())
      throw InvalidInput(
          "--shard",
          fmt::format("at most {} shards, one for each case or each group of "
                      "cases timed in turns",
                      group),
          std::to_string(options_.shards));
    return mine;
  }

  // Past the last case that is timed in turns with the first.
  static size_t EndOfGroup(const std::vector<PlannedCase>& plan, size_t first) {
    size_t end = first + 1;
    while (plan[first].group >= 0 && end < plan.size() &&
           plan[end].group == plan[first].group)
      ++end;
    return end;
  }

  static int LargestThreads(const std::vector<PlannedCase>& plan) {
    int threads = 1;
    for (const PlannedCase& planned : plan)
      threads = std::max(threads, planned.threads);
    return threads;
  }

  // Records of an earlier run, from its file and its journal. Those of another
  // program are measured again; those of another machine are refused.
  void CollectDone(const fs::path& journal, const Json& environment,
                   const std::vector<PlannedCase>& plan) {
    const bool left_over = fs::exists(journal);
    if (!options_.resume) {
      if (options_.force) {
        fs::remove(journal);
        return;
      }
      if (left_over)
        throw InvalidInput(options_.out.string(),
                           "no journal of an interrupted sweep",
                           journal.string() +
                               " (--resume continues it, --force "
                               "drops it)");
      return;
    }
    if (fs::exists(options_.out)) {
      const Json file = ReadResultFile(options_.out);
      Collect(options_.out, file, file["records"], environment, plan);
    }
    if (left_over)
      Collect(journal, Journal::ReadHeader(journal), Journal::Read(journal),
              environment, plan);
    TellOfOtherPrograms(plan);
  }

  void Collect(const fs::path& path, const Json& header,
               const std::vector<Json>& records, const Json& environment,
               const std::vector<PlannedCase>& plan) {
    if (header.contains("environment"))
      RefuseOtherMachine(path, header.at("environment"), environment);
    bool has_others = false;
    for (const Json& record : records) {
      if (record.value("program", "") == kProgram) {
        RefuseOtherTensors(path, record, plan);
        Keep(record);
      } else {
        others_.insert(RecordKey(record));
        has_others = true;
      }
    }
    if (has_others) files_of_others_.push_back(path);
  }

  static void RefuseOtherMachine(const fs::path& path, const Json& other,
                                 const Json& environment) {
    for (const char* field : {"cpu", "target"}) {
      // Older files name no target; their programs are others anyway.
      if (!other.contains(field) || other[field] == environment.at(field))
        continue;
      throw InvalidInput(path.string() + ": --resume: " + field,
                         environment.at(field).dump() +
                             " of this run (remove the file, or choose "
                             "another --out)",
                         other[field].dump());
    }
  }

  static fs::path OldPath(const fs::path& path) {
    return path.string() + ".old";
  }

  void TellOfOtherPrograms(const std::vector<PlannedCase>& plan) const {
    if (others_.empty()) return;
    size_t again = 0;
    for (const PlannedCase& planned : plan)
      for (const Implementation* one : planned.implementations) {
        const std::string key = RecordKey(
            planned.one.Id(), one->id, ToString(one->backend), planned.threads);
        again += others_.contains(key) && !done_.contains(key);
      }
    std::string names;
    for (const fs::path& path : files_of_others_)
      names += (names.empty() ? "" : " and ") + OldPath(path).string();
    Tell(
        "--resume: {} records are another program's; {} are measured again, "
        "and what there was stays in {}\n",
        others_.size(), again, names);
  }

  // Before the files are replaced.
  void SetOthersAside() const {
    for (const fs::path& path : files_of_others_)
      fs::copy_file(path, OldPath(path), fs::copy_options::overwrite_existing);
  }

  // Throws if a record's input folder has other contents now.
  static void RefuseOtherTensors(const fs::path& path, const Json& record,
                                 const std::vector<PlannedCase>& plan) {
    const Json inputs = record.value("inputs", Json::object());
    if (!inputs.contains("digest")) return;
    for (const PlannedCase& planned : plan)
      if (planned.one.source &&
          inputs.at("source") == Json(planned.one.input) &&
          inputs.at("digest") != Json(planned.one.source->digest))
        throw InvalidInput(
            path.string() + ": --resume: input " + planned.one.input,
            "the tensors that it was measured with (digest " +
                inputs.at("digest").get<std::string>() + ")",
            "others (digest " + planned.one.source->digest + ")");
  }

  bool Keep(Json record) {
    if (!done_.insert(RecordKey(record)).second) return false;
    forecast_.Learn(record);
    records_.push_back(std::move(record));
    return true;
  }

  void ReadFloors(const Json& environment) {
    const Json& measured = environment.at("measured");
    floors_.flops_per_second_float32 =
        measured.at("fma_flops_per_second").at("float32");
    floors_.flops_per_second_float64 =
        measured.at("fma_flops_per_second").at("float64");
    floors_.cached_bytes_per_second =
        measured.at("cached_copy_bytes_per_second");
  }

  // The unfinished part of one case.
  struct Task {
    const PlannedCase* planned;
    Problem problem;
    std::vector<const Implementation*> todo;
    std::vector<Json> fresh;  // the records that are new
  };

  void Keep(Task& task, Json record, Journal& journal) {
    task.fresh.push_back(record);
    if (Keep(record)) journal.Append(record);
  }

  Task TaskFor(const PlannedCase& planned, Journal& journal) {
    Task task{&planned, ProblemOf(planned.one), {}, {}};
    for (const Implementation* one : planned.implementations) {
      if (done_.contains(RecordKey(planned.one.Id(), one->id,
                                   ToString(one->backend), planned.threads)))
        continue;
      Json record = MakeRecord(planned.one, task.problem, *one, planned.threads,
                               Verdict::Skipped(""));
      const double seconds = forecast_.Seconds(record, floors_);
      // Set-up, the counted run, the checked run and three samples.
      if (one->backend == Backend::kCpu &&
          6 * seconds > options_.limits.case_seconds) {
        record["check"] = CheckJson(Verdict::Skipped(fmt::format(
            "estimated {} a run x 6 runs exceeds the limit of {} for a case",
            Duration(seconds), Duration(options_.limits.case_seconds))));
        Keep(task, std::move(record), journal);
        continue;
      }
      task.todo.push_back(one);
    }
    return task;
  }

  // Cases of one group in one worker.
  void RunCases(std::span<const PlannedCase> cases, Journal& journal,
                Progress& progress) {
    std::vector<Task> tasks;
    for (const PlannedCase& planned : cases)
      tasks.push_back(TaskFor(planned, journal));
    bool alone = false;
    while (!Interrupted()) {
      const Job job = JobFor(tasks, alone);
      if (job.cases.empty()) break;
      size_t count = 0;
      for (const JobCase& part : job.cases)
        count += part.implementations.size();
      WorkerOutcome outcome = CallWorker(
          job, options_.limits.case_seconds * static_cast<double>(count));
      for (Json& record : outcome.records) {
        Task& task = TaskOf(tasks, record.at("case").get<std::string>());
        std::erase_if(task.todo, [&](const Implementation* one) {
          return record.at("implementation") == Json(one->id) &&
                 record.at("backend") == Json(ToString(one->backend));
        });
        if (options_.resident && Passed(record))
          AddResident(*task.planned, record);
        Keep(task, std::move(record), journal);
      }
      if (outcome.interrupted) break;
      const bool went_well =
          outcome.failure.empty() && !outcome.records.empty();
      if (went_well && (outcome.again || alone)) continue;  // with the rest
      // Retry one at a time to find the culprit.
      if (outcome.current == kTurns && !std::exchange(alone, true)) continue;
      FailTheGuilty(tasks, outcome, journal);
    }
    for (const Task& task : tasks) {
      if (task.fresh.empty())
        progress.Skip();
      else
        progress.Report(*task.planned, task.fresh);
    }
  }

  static Task& TaskOf(std::vector<Task>& tasks, const std::string& id) {
    const auto found = std::ranges::find_if(
        tasks, [&](const Task& task) { return task.planned->one.Id() == id; });
    if (found == tasks.end())
      throw std::logic_error("a worker answered for " + id);
    return *found;
  }

  // Fails the implementation that was running, or else all that are left.
  void FailTheGuilty(std::vector<Task>& tasks, const WorkerOutcome& outcome,
                     Journal& journal) {
    const std::string reason = outcome.failure.empty()
                                   ? "worker exited without output"
                                   : outcome.failure;
    const auto is_guilty = [&](const Task& task, const Implementation* one) {
      return task.planned->one.Id() == outcome.current_case &&
             JobName(*one) == outcome.current;
    };
    const bool known = std::ranges::any_of(tasks, [&](const Task& task) {
      return std::ranges::any_of(task.todo, [&](const Implementation* one) {
        return is_guilty(task, one);
      });
    });
    for (Task& task : tasks)
      for (const Implementation* one : std::vector(task.todo)) {
        if (known && !is_guilty(task, one)) continue;
        Keep(task,
             MakeRecord(task.planned->one, task.problem, *one,
                        task.planned->threads, Verdict::Failed(reason)),
             journal);
        std::erase(task.todo, one);
      }
  }

  // The unfinished implementations; `alone`: the first of them.
  Job JobFor(const std::vector<Task>& tasks, bool alone) const {
    // Intervals of many ratios need more samples than that of one median; the
    // budget still limits them.
    constexpr int kSamplesInTurns = 30;
    Job job = EmptyJob(*tasks.front().planned);
    for (const Task& task : tasks) {
      if (task.todo.empty()) continue;
      job.cases.push_back({task.planned->one.Id(), {}});
      for (const Implementation* one : task.todo) {
        job.cases.back().implementations.push_back(JobName(*one));
        if (alone) return job;
      }
    }
    if (job.cases.size() > 1)
      job.sampling.min_samples =
          std::max(job.sampling.min_samples, kSamplesInTurns);
    return job;
  }

  Job EmptyJob(const PlannedCase& planned) const {
    Job job;
    job.threads = planned.threads;
    job.sampling = options_.sampling;
    job.limits = options_.limits;
    job.floors = floors_;
    return job;
  }

  void AddResident(const PlannedCase& planned, Json& record) const {
    for (const Implementation* one : planned.implementations) {
      if (record.at("implementation") != Json(one->id) ||
          record.at("backend") != Json(ToString(one->backend)))
        continue;
      Job job = EmptyJob(planned);
      job.cases = {{planned.one.Id(), {JobName(*one)}}};
      job.resident = true;
      const WorkerOutcome outcome =
          CallWorker(job, options_.limits.case_seconds);
      if (outcome.resident_bytes > 0)
        record["resident_bytes"] = outcome.resident_bytes;
    }
  }

  int Finish() const {
    std::map<std::string, int64_t> verdicts;
    for (const Json& record : records_)
      ++verdicts[record.at("check").at("verdict").get<std::string>()];
    fmt::print(
        "{}: {} records: {} passed, {} failed, {} mistrusted, {} "
        "skipped\n",
        options_.out.string(), records_.size(), verdicts["passed"],
        verdicts["failed"], verdicts["mistrusted"], verdicts["skipped"]);
    if (Interrupted()) {
      Tell(
          "interrupted; what was finished is in {}, --resume "
          "goes on\n",
          options_.out.string());
      return kInterrupted;
    }
    return verdicts["passed"] > 0 && verdicts["failed"] == 0 &&
                   verdicts["mistrusted"] == 0
               ? kFine
               : kCheckFailed;
  }

  SweepOptions options_;
  Floors floors_;
  Forecast forecast_;
  std::set<std::string> done_;
  std::vector<Json> records_;
  // Points that another program measured, and the files that hold them.
  std::set<std::string> others_;
  std::vector<fs::path> files_of_others_;
};

}  // namespace

int RunSweep(const SweepOptions& options) { return Sweep(options).Run(); }

}  // namespace subquad
