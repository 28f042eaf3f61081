#include "harness/sweeps/sweep.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
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
#include "harness/results/times.h"
#include "harness/sweeps/between.h"
#include "harness/sweeps/progress.h"

namespace subquad {
namespace {

namespace fs = std::filesystem;

bool Passed(const Json& record) {
  return record.at("check").at("verdict") == "passed";
}

// Estimates the time of a run from earlier runs of the same implementation.
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
    const auto position = rate_.find(Key(record));
    if (position != rate_.end()) return flops * position->second;
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
    Measure(plan, journal);
    MeasureCrossings(journal);
    SetOthersAside();
    SortRecords(records_);
    WriteFileAtomically(options_.out,
                        MakeResultFile(header, records_).dump(1) + "\n");
    fs::remove(journal_path);
    return Finish();
  }

 private:
  using Group = std::span<const PlannedCase>;

  static std::vector<Group> GroupsOf(const std::vector<PlannedCase>& plan) {
    std::vector<Group> groups;
    for (size_t first = 0, end = 0; first < plan.size(); first = end) {
      end = EndOfGroup(plan, first);
      groups.push_back(Group(plan).subspan(first, end - first));
    }
    return groups;
  }

  // The first pass checks everything; the others only measure.
  void Measure(const std::vector<PlannedCase>& plan, Journal& journal) {
    const std::vector<Group> groups = GroupsOf(plan);
    Progress progress(plan.size());
    for (const Group group : groups)
      if (!Interrupted()) RunCases(group, journal, progress);
    for (int pass = 2; pass <= options_.processes; ++pass) {
      Progress again(plan.size(),
                     fmt::format("pass {} of {}: ", pass, options_.processes));
      for (const Group group : groups)
        if (!Interrupted()) RunAgain(group, pass, journal, again);
    }
  }

  // Measures more sizes around crossovers.
  void MeasureCrossings(Journal& journal) {
    constexpr int kHalvings = 5;
    for (int round = 0; options_.crossings && round < kHalvings; ++round) {
      const std::vector<PlannedCase> plan =
          BetweenCrossings(records_, BuiltInRecipes());
      if (plan.empty() || Interrupted()) return;
      Tell("{} more cases around crossovers\n", plan.size());
      Measure(plan, journal);
    }
  }

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
                      "cases timed alternately",
                      group),
          std::to_string(options_.shards));
    return mine;
  }

  // Returns the index after the last case that is timed alternately with
  // `first`.
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

  // Collects the records of an earlier run from its file and its journal.
  // Records of another build are measured again; records of another machine are
  // an error.
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
                               "deletes it)");
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
      // Older files have no target; they come from another build anyway.
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
      for (const Implementation* implementation : planned.implementations) {
        const std::string key =
            RecordKey(planned.test_case.Id(), implementation->id,
                      ToString(implementation->backend), planned.threads);
        again += others_.contains(key) && !places_.contains(key);
      }
    std::string names;
    for (const fs::path& path : files_of_others_)
      names += (names.empty() ? "" : " and ") + OldPath(path).string();
    Tell(
        "--resume: {} records are from another build; {} are measured again, "
        "and the old ones are kept in {}\n",
        others_.size(), again, names);
  }

  // Copies the old files before they are replaced.
  void SetOthersAside() const {
    for (const fs::path& path : files_of_others_)
      fs::copy_file(path, OldPath(path), fs::copy_options::overwrite_existing);
  }

  // Throws InvalidInput if a record's input folder has changed since.
  static void RefuseOtherTensors(const fs::path& path, const Json& record,
                                 const std::vector<PlannedCase>& plan) {
    const Json inputs = record.value("inputs", Json::object());
    if (!inputs.contains("digest")) return;
    for (const PlannedCase& planned : plan)
      if (planned.test_case.source &&
          inputs.at("source") == Json(planned.test_case.input) &&
          inputs.at("digest") != Json(planned.test_case.source->digest))
        throw InvalidInput(
            path.string() + ": --resume: input " + planned.test_case.input,
            "the tensors with which it was measured (digest " +
                inputs.at("digest").get<std::string>() + ")",
            "others (digest " + planned.test_case.source->digest + ")");
  }

  // Keeps a record; of two records of a point, the one with more samples.
  bool Keep(Json record) {
    const auto [found, added] =
        places_.try_emplace(RecordKey(record), records_.size());
    if (added) {
      forecast_.Learn(record);
      records_.push_back(std::move(record));
      return true;
    }
    Json& before = records_[found->second];
    if (SamplesOf(record) <= SamplesOf(before)) return false;
    before = std::move(record);
    return true;
  }

  static size_t SamplesOf(const Json& record) {
    const Json& seconds = record.at("seconds");
    return seconds.is_null() ? 0 : seconds.at("samples").size();
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
    std::vector<Json> fresh;  // new records
  };

  void Keep(Task& task, Json record, Journal& journal) {
    task.fresh.push_back(record);
    if (Keep(record)) journal.Append(record);
  }

  Task TaskFor(const PlannedCase& planned, Journal& journal) {
    Task task{&planned, ProblemOf(planned.test_case), {}, {}};
    for (const Implementation* implementation : planned.implementations) {
      if (places_.contains(KeyOf(planned, *implementation))) continue;
      Json record = MakeRecord(planned.test_case, task.problem, *implementation,
                               planned.threads, Verdict::Skipped(""));
      const double seconds = forecast_.Seconds(record, floors_);
      if (const std::string reason = TooLong(seconds);
          implementation->backend == Backend::kCpu && !reason.empty()) {
        record["check"] = CheckJson(Verdict::Skipped(reason));
        Keep(task, std::move(record), journal);
        continue;
      }
      task.todo.push_back(implementation);
    }
    return task;
  }

  // Returns why a run with this estimated time is skipped; empty if it is not.
  std::string TooLong(double seconds) const {
    const Limits& limits = options_.limits;
    if (limits.run_seconds > 0 && seconds > limits.run_seconds)
      return fmt::format(
          "estimated {:.2g} s per run exceeds the limit of {:.2g} s", seconds,
          limits.run_seconds);
    // A case needs the checked run, the counted run, three samples and one
    // more.
    if (6 * seconds > limits.case_seconds)
      return fmt::format(
          "estimated {} per run x 6 runs exceeds the limit of {} for a case",
          Duration(seconds), Duration(limits.case_seconds));
    return "";
  }

  static std::string KeyOf(const PlannedCase& planned,
                           const Implementation& implementation) {
    return RecordKey(planned.test_case.Id(), implementation.id,
                     ToString(implementation.backend), planned.threads);
  }

  // Runs the cases of one group in one worker.
  void RunCases(Group cases, Journal& journal, Progress& progress) {
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
        std::erase_if(task.todo, [&](const Implementation* implementation) {
          return record.at("implementation") == Json(implementation->id) &&
                 record.at("backend") ==
                     Json(ToString(implementation->backend));
        });
        if (options_.resident && Passed(record))
          AddResident(*task.planned, record);
        Keep(task, std::move(record), journal);
      }
      if (outcome.interrupted) break;
      const bool went_well =
          outcome.failure.empty() && !outcome.records.empty();
      if (went_well && (outcome.again || alone)) continue;  // run the rest
      // Retries one at a time to find the cause of the crash.
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

  // Takes more samples of the records that passed, in another process.
  void RunAgain(Group cases, int pass, Journal& journal, Progress& progress) {
    Job job = EmptyJob(cases.front());
    std::vector<size_t> places;  // indices of records that get more samples
    for (const PlannedCase& planned : cases) {
      JobCase part{planned.test_case.Id(), {}, {}};
      for (const Implementation* implementation : planned.implementations) {
        const auto position = places_.find(KeyOf(planned, *implementation));
        if (position == places_.end() ||
            !WantsMore(records_[position->second], pass))
          continue;
        part.implementations.push_back(JobName(*implementation));
        part.digests.push_back(records_[position->second].at("digest"));
        places.push_back(position->second);
      }
      if (!part.implementations.empty()) job.cases.push_back(std::move(part));
    }
    SampleTogether(job);
    std::string reason = "no process answered";
    std::vector<Json> answers;
    if (!places.empty()) {
      WorkerOutcome outcome =
          CallWorker(job, options_.limits.case_seconds *
                              static_cast<double>(places.size()));
      if (outcome.interrupted) return;
      if (!outcome.failure.empty()) reason = outcome.failure;
      answers = std::move(outcome.records);
    }
    for (const size_t place : places) {
      Json& record = records_[place];
      const auto answer = std::ranges::find_if(answers, [&](const Json& entry) {
        return std::ranges::all_of(
            std::array{"case", "implementation", "backend"},
            [&](const char* name) {
              return entry.at(name) == record.at(name);
            });
      });
      AddProcess(record,
                 answer == answers.end() ? Json{{"reason", reason}} : *answer);
      journal.Append(record);
    }
    for (const PlannedCase& planned : cases) {
      std::vector<Json> shown;
      for (const size_t place : places)
        if (records_[place].at("case") == planned.test_case.Id())
          shown.push_back(records_[place]);
      if (shown.empty())
        progress.Skip();
      else
        progress.Report(planned, shown);
    }
  }

  // Tells whether a record needs more samples: not if they have already taken
  // ten times the budget.
  bool WantsMore(const Json& record, int pass) const {
    if (!Passed(record) || record.at("seconds").is_null()) return false;
    const Times times = TimesOf(record.at("seconds"));
    return static_cast<int>(times.processes.size()) < pass &&
           times.Spent() < 10 * options_.sampling.budget_seconds;
  }

  // Adds the samples of another process. A point that fails in one process has
  // failed.
  static void AddProcess(Json& record, const Json& answer) {
    if (const std::string reason = answer.at("reason"); !reason.empty()) {
      record["seconds"] = nullptr;
      record["check"]["verdict"] = "failed";
      record["check"]["reason"] = "in another process: " + reason;
      return;
    }
    Times times = TimesOf(record.at("seconds"));
    const Times more = TimesOf(answer.at("seconds"));
    times.samples.insert(times.samples.end(), more.samples.begin(),
                         more.samples.end());
    times.processes.push_back(more.processes.front());
    times.stopped_by = more.stopped_by;
    record["seconds"] = TimesJson(times);
  }

  static Task& TaskOf(std::vector<Task>& tasks, const std::string& id) {
    const auto position = std::ranges::find_if(tasks, [&](const Task& task) {
      return task.planned->test_case.Id() == id;
    });
    if (position == tasks.end())
      throw std::logic_error("a worker answered for " + id);
    return *position;
  }

  // Fails the implementation that was running, or all remaining ones if that is
  // unknown.
  void FailTheGuilty(std::vector<Task>& tasks, const WorkerOutcome& outcome,
                     Journal& journal) {
    const std::string reason = outcome.failure.empty()
                                   ? "its process exited without output"
                                   : outcome.failure;
    const auto is_guilty = [&](const Task& task,
                               const Implementation* implementation) {
      return task.planned->test_case.Id() == outcome.current_case &&
             JobName(*implementation) == outcome.current;
    };
    const bool known = std::ranges::any_of(tasks, [&](const Task& task) {
      return std::ranges::any_of(task.todo,
                                 [&](const Implementation* candidate) {
                                   return is_guilty(task, candidate);
                                 });
    });
    for (Task& task : tasks)
      for (const Implementation* implementation : std::vector(task.todo)) {
        if (known && !is_guilty(task, implementation)) continue;
        Keep(task,
             MakeRecord(task.planned->test_case, task.problem, *implementation,
                        task.planned->threads, Verdict::Failed(reason)),
             journal);
        std::erase(task.todo, implementation);
      }
  }

  // Returns a job of the unfinished implementations; only the first if `alone`.
  Job JobFor(const std::vector<Task>& tasks, bool alone) const {
    Job job = EmptyJob(*tasks.front().planned);
    for (const Task& task : tasks) {
      if (task.todo.empty()) continue;
      job.cases.push_back({task.planned->test_case.Id(), {}});
      for (const Implementation* implementation : task.todo) {
        job.cases.back().implementations.push_back(JobName(*implementation));
        if (alone) return job;
      }
    }
    SampleTogether(job);
    return job;
  }

  // Raises the number of samples, since the intervals of many ratios need more
  // than that of one median. The budget still limits them.
  void SampleTogether(Job& job) const {
    const int samples_in_turns = 30 / options_.processes;
    if (job.cases.size() > 1)
      job.sampling.min_samples =
          std::max(job.sampling.min_samples, samples_in_turns);
  }

  Job EmptyJob(const PlannedCase& planned) const {
    Job job;
    job.threads = planned.threads;
    job.sampling = options_.sampling.Shared(options_.processes);
    job.limits = options_.limits;
    job.floors = floors_;
    return job;
  }

  void AddResident(const PlannedCase& planned, Json& record) const {
    for (const Implementation* implementation : planned.implementations) {
      if (record.at("implementation") != Json(implementation->id) ||
          record.at("backend") != Json(ToString(implementation->backend)))
        continue;
      Job job = EmptyJob(planned);
      job.cases = {{planned.test_case.Id(), {JobName(*implementation)}}};
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
          "interrupted; finished records are in {}, rerun with --resume to "
          "continue\n",
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
  std::vector<Json> records_;
  std::map<std::string, size_t> places_;  // index in records_, by key
  // Points that another build measured, and the files that contain them.
  std::set<std::string> others_;
  std::vector<fs::path> files_of_others_;
};

}  // namespace

int RunSweep(const SweepOptions& options) { return Sweep(options).Run(); }

}  // namespace subquad
