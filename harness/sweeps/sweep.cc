#include "harness/sweeps/sweep.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "harness/base/exit_status.h"
#include "harness/base/interrupts.h"
#include "harness/base/output_file.h"
#include "harness/base/tell.h"
#include "harness/base/text.h"
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

// Estimates the time of a run from earlier runs of the same implementation.
class Forecast {
 public:
  void Learn(const Record& record) {
    if (!record.seconds) return;
    const double flops = record.flops.value_or(0);
    if (flops > 0)
      rate_[KeyOf(record)] = MedianOf(*record.seconds).median / flops;
  }
  double Seconds(const Record& record, const Floors& floors) const {
    const double flops = record.flops.value_or(0);
    const auto position = rate_.find(KeyOf(record));
    if (position != rate_.end()) return flops * position->second;
    return floors.flops_per_second_float32 > 0
               ? flops / floors.flops_per_second_float32
               : 0;
  }

 private:
  using Key = std::tuple<std::string, std::string, Backend, Scalar>;
  static Key KeyOf(const Record& record) {
    return {record.op, record.implementation, record.backend, record.scalar};
  }
  std::map<Key, double> rate_;
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
    const RunInfo run{options_.command, CurrentTime(), options_.seed,
                      DescribeEnvironment(LargestThreads(plan))};
    CollectDone(journal_path, run.environment, plan);
    SetFloors(run.environment.measured);
    CatchInterrupts();
    Journal journal(journal_path, run);
    Measure(plan, journal);
    MeasureCrossings(journal);
    SetOthersAside();
    SortRecords(records_);
    WriteFileAtomically(options_.out,
                        MakeResultFile(run, records_).dump(1) + "\n");
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
          BetweenCrossings(ToJson(records_), BuiltInRecipes());
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
  void CollectDone(const fs::path& journal, const Environment& environment,
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
      Collect(journal, Journal::ReadRun(journal), Journal::Read(journal),
              environment, plan);
    TellOfOtherPrograms(plan);
  }

  void Collect(const fs::path& path, const Json& run,
               const std::vector<Json>& records, const Environment& environment,
               const std::vector<PlannedCase>& plan) {
    if (run.contains("environment"))
      RefuseOtherMachine(path, run.at("environment"), environment);
    bool has_others = false;
    for (const Json& json : records) {
      if (!json.is_object())
        throw InvalidInput(path.string() + ": records", "objects", json.dump());
      if (json.value("program", "") == kProgram) {
        Record record = RecordOf(json, path.string());
        RefuseOtherTensors(path, record, plan);
        Keep(std::move(record));
      } else {
        others_.insert(PointKey::Of(json));
        has_others = true;
      }
    }
    if (has_others) files_of_others_.push_back(path);
  }

  // Throws InvalidInput if a file of an earlier run is of another machine.
  static void RefuseOtherMachine(const fs::path& path, const Json& other,
                                 const Environment& environment) {
    for (const auto& [field, value] :
         {std::pair("cpu", environment.cpu),
          std::pair("target", environment.target)}) {
      // Older files have no target; they come from another build anyway.
      if (!other.contains(field) || other[field] == Json(value)) continue;
      throw InvalidInput(path.string() + ": --resume: " + field,
                         Json(value).dump() +
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
        const PointKey key = KeyOf(planned, *implementation);
        again += others_.contains(key) && !places_.contains(key);
      }
    std::string names;
    for (const fs::path& path : files_of_others_)
      names += (names.empty() ? "" : " and ") + OldPath(path).string();
    Tell(
        "--resume: found {} from another build; measures {} of them again, and "
        "keeps the old ones in {}\n",
        Counted(others_.size(), "record"), again, names);
  }

  // Copies the old files before they are replaced.
  void SetOthersAside() const {
    for (const fs::path& path : files_of_others_)
      fs::copy_file(path, OldPath(path), fs::copy_options::overwrite_existing);
  }

  // Throws InvalidInput if a record's input folder has changed since.
  static void RefuseOtherTensors(const fs::path& path, const Record& record,
                                 const std::vector<PlannedCase>& plan) {
    if (!record.inputs) return;
    for (const PlannedCase& planned : plan)
      if (planned.test_case.source &&
          record.inputs->source == planned.test_case.input &&
          record.inputs->digest != planned.test_case.source->digest)
        throw InvalidInput(
            path.string() + ": --resume: input " + planned.test_case.input,
            "the tensors with which it was measured (digest " +
                record.inputs->digest + ")",
            "others (digest " + planned.test_case.source->digest + ")");
  }

  // Keeps a record; of two records of a point, the one with more samples.
  bool Keep(Record record) {
    const auto [place, added] =
        places_.try_emplace(record.Key(), records_.size());
    if (added) {
      forecast_.Learn(record);
      records_.push_back(std::move(record));
      return true;
    }
    Record& before = records_[place->second];
    if (SamplesOf(record) <= SamplesOf(before)) return false;
    before = std::move(record);
    return true;
  }

  static size_t SamplesOf(const Record& record) {
    return record.seconds ? record.seconds->samples.size() : 0;
  }

  void SetFloors(const MeasuredRates& measured) {
    floors_.flops_per_second_float32 = measured.fma_flops_per_second.float32;
    floors_.flops_per_second_float64 = measured.fma_flops_per_second.float64;
    floors_.cached_bytes_per_second = measured.cached_copy_bytes_per_second;
  }

  // The unfinished part of one case.
  struct Task {
    const PlannedCase* planned;
    Problem problem;
    std::vector<const Implementation*> todo;
    std::vector<Record> fresh;  // new records
  };

  void Keep(Task& task, Record record, Journal& journal) {
    task.fresh.push_back(record);
    if (Keep(record)) journal.Append(record);
  }

  Task TaskFor(const PlannedCase& planned, Journal& journal) {
    Task task{&planned, ProblemOf(planned.test_case), {}, {}};
    for (const Implementation* implementation : planned.implementations) {
      if (places_.contains(KeyOf(planned, *implementation))) continue;
      Record record =
          MakeRecord(planned.test_case, task.problem, *implementation,
                     planned.threads, Verdict::Skipped(""));
      const double seconds = forecast_.Seconds(record, floors_);
      if (const std::string reason = TooLong(seconds);
          implementation->backend == Backend::kCpu && !reason.empty()) {
        record.check = CheckOf(Verdict::Skipped(reason));
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

  static PointKey KeyOf(const PlannedCase& planned,
                        const Implementation& implementation) {
    return {planned.test_case.Id(), implementation.id, implementation.backend,
            planned.threads};
  }

  // Runs the cases of one group in one worker.
  void RunCases(Group cases, Journal& journal, Progress& progress) {
    std::vector<Task> tasks;
    for (const PlannedCase& planned : cases)
      tasks.push_back(TaskFor(planned, journal));
    bool alone = false;
    while (!Interrupted()) {
      std::vector<Task*> parts;  // of the job's cases
      const Job job = JobFor(tasks, alone, parts);
      if (job.cases.empty()) break;
      size_t count = 0;
      for (const JobCase& part : job.cases)
        count += part.implementations.size();
      WorkerOutcome outcome = CallWorker(
          job, options_.limits.case_seconds * static_cast<double>(count));
      for (auto& [place, record] : outcome.records) {
        Task& task = *parts.at(place.part);
        const Implementation* implementation =
            job.cases[place.part].implementations.at(place.index);
        std::erase(task.todo, implementation);
        if (options_.resident && record.passed())
          AddResident(*task.planned, *implementation, record);
        Keep(task, std::move(record), journal);
      }
      if (outcome.interrupted) break;
      const bool went_well =
          outcome.failure.empty() && !outcome.records.empty();
      if (went_well && (outcome.again || alone)) continue;  // run the rest
      // Retries one at a time to find the cause of the crash.
      if (outcome.in_turns && !std::exchange(alone, true)) continue;
      FailTheGuilty(job, parts, outcome, journal);
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
    // Indices of the records that get more samples, by their place in the job.
    std::vector<std::vector<size_t>> indices;
    size_t count = 0;
    for (const PlannedCase& planned : cases) {
      JobCase part{planned.test_case, {}, {}};
      std::vector<size_t> of_part;
      for (const Implementation* implementation : planned.implementations) {
        const auto position = places_.find(KeyOf(planned, *implementation));
        if (position == places_.end() ||
            !WantsMore(records_[position->second], pass))
          continue;
        part.implementations.push_back(implementation);
        part.digests.push_back(records_[position->second].digest);
        of_part.push_back(position->second);
      }
      if (of_part.empty()) continue;
      count += of_part.size();
      job.cases.push_back(std::move(part));
      indices.push_back(std::move(of_part));
    }
    SampleTogether(job);
    WorkerOutcome outcome;
    if (count > 0)
      outcome = CallWorker(
          job, options_.limits.case_seconds * static_cast<double>(count));
    if (outcome.interrupted) return;
    const MoreSamples none{
        outcome.failure.empty() ? "no process answered" : outcome.failure,
        std::nullopt};
    for (size_t part = 0; part < indices.size(); ++part)
      for (size_t i = 0; i < indices[part].size(); ++i) {
        const JobPlace place{part, i};
        const auto answer = std::ranges::find(
            outcome.more, place, &WorkerOutcome::Answer<MoreSamples>::place);
        Record& record = records_[indices[part][i]];
        AddProcess(record,
                   answer == outcome.more.end() ? none : answer->result);
        journal.Append(record);
      }
    size_t part = 0;
    for (const PlannedCase& planned : cases) {
      if (part == job.cases.size() ||
          job.cases[part].test_case.Id() != planned.test_case.Id()) {
        progress.Skip();
        continue;
      }
      std::vector<Record> shown;
      for (const size_t index : indices[part++])
        shown.push_back(records_[index]);
      progress.Report(planned, shown);
    }
  }

  // Tells whether a record needs more samples: not if they have already taken
  // ten times the budget.
  bool WantsMore(const Record& record, int pass) const {
    if (!record.passed() || !record.seconds) return false;
    return record.seconds->Processes() < pass &&
           record.seconds->Spent() < 10 * options_.sampling.budget_seconds;
  }

  // Adds the samples of another process. A point that fails in one process has
  // failed.
  static void AddProcess(Record& record, const MoreSamples& more) {
    if (more.seconds)
      record.seconds->Add(*more.seconds);
    else
      record.Fail("in another process: " + more.reason);
  }

  // Fails the implementation that was running, or all remaining ones if that is
  // unknown.
  void FailTheGuilty(const Job& job, const std::vector<Task*>& parts,
                     const WorkerOutcome& outcome, Journal& journal) {
    const std::string reason = outcome.failure.empty()
                                   ? "its process exited without output"
                                   : outcome.failure;
    const auto is_unfinished = [&](JobPlace place) {
      return std::ranges::count(
                 parts[place.part]->todo,
                 job.cases[place.part].implementations[place.index]) > 0;
    };
    const bool known = outcome.current && is_unfinished(*outcome.current);
    for (size_t part = 0; part < parts.size(); ++part)
      for (size_t i = 0; i < job.cases[part].implementations.size(); ++i) {
        const JobPlace place{part, i};
        if (known ? place != *outcome.current : !is_unfinished(place)) continue;
        Task& task = *parts[part];
        const Implementation& implementation =
            *job.cases[part].implementations[i];
        Keep(task,
             MakeRecord(task.planned->test_case, task.problem, implementation,
                        task.planned->threads, Verdict::Failed(reason)),
             journal);
        std::erase(task.todo, &implementation);
      }
  }

  // Returns a job of the unfinished implementations, only the first if `alone`,
  // and sets `parts` to the tasks of its cases.
  Job JobFor(std::vector<Task>& tasks, bool alone,
             std::vector<Task*>& parts) const {
    Job job = EmptyJob(*tasks.front().planned);
    for (Task& task : tasks) {
      if (task.todo.empty()) continue;
      parts.push_back(&task);
      job.cases.push_back({task.planned->test_case, task.todo});
      if (!alone) continue;
      job.cases.back().implementations.resize(1);
      return job;
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

  void AddResident(const PlannedCase& planned,
                   const Implementation& implementation, Record& record) const {
    Job job = EmptyJob(planned);
    job.cases = {{planned.test_case, {&implementation}}};
    job.resident = true;
    const WorkerOutcome outcome = CallWorker(job, options_.limits.case_seconds);
    if (outcome.resident_bytes > 0)
      record.resident_bytes = outcome.resident_bytes;
  }

  int Finish() const {
    std::map<Outcome, int64_t> verdicts;
    for (const Record& record : records_) ++verdicts[record.check.verdict];
    fmt::print(
        "{}: {}: {} passed, {} failed, {} mistrusted, {} "
        "skipped\n",
        options_.out.string(), Counted(records_.size(), "record"),
        verdicts[Outcome::kPassed], verdicts[Outcome::kFailed],
        verdicts[Outcome::kMistrusted], verdicts[Outcome::kSkipped]);
    if (Interrupted()) {
      Tell(
          "interrupted; finished records are in {}, rerun with --resume to "
          "continue\n",
          options_.out.string());
      return kInterrupted;
    }
    return verdicts[Outcome::kPassed] > 0 && verdicts[Outcome::kFailed] == 0 &&
                   verdicts[Outcome::kMistrusted] == 0
               ? kFine
               : kCheckFailed;
  }

  SweepOptions options_;
  Floors floors_;
  Forecast forecast_;
  std::vector<Record> records_;
  std::map<PointKey, size_t> places_;  // indices in records_
  // Points that another build measured, and the files that contain them.
  std::set<PointKey> others_;
  std::vector<fs::path> files_of_others_;
};

}  // namespace

int RunSweep(const SweepOptions& options) { return Sweep(options).Run(); }

}  // namespace subquad
