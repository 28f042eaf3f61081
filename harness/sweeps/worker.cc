#include "harness/sweeps/worker.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <new>

#include "cuda/device.h"
#include "harness/base/clock.h"
#include "harness/base/npy.h"
#include "harness/cases/generate.h"
#include "harness/judging/after_timing.h"
#include "harness/judging/comparison.h"
#include "harness/judging/trial.h"
#include "harness/machine/environment.h"
#include "harness/machine/memory_counter.h"
#include "harness/results/result_file.h"
#include "harness/results/times.h"

namespace subquad {
namespace {

namespace fs = std::filesystem;

void Say(const Json& line) {
  const std::string text = line.dump() + "\n";
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t count =
        ::write(STDOUT_FILENO, text.data() + done, text.size() - done);
    if (count <= 0) return;  // the sweep has exited
    done += static_cast<size_t>(count);
  }
}

void SayRecord(JobPlace place, const Record& record) {
  Say({{"record", ToJson(record)}, {"place", place.ToJson()}});
}

void SayMore(JobPlace place, const MoreSamples& more) {
  Say({{"more", more.ToJson()}, {"place", place.ToJson()}});
}

std::string Gibibytes(double bytes) {
  return fmt::format("{:.3g} GiB", bytes / (1 << 30));
}

// Times of the parts of a first run, by the host's clock. Transfers occur only
// on a device with its own memory.
struct FirstRun {
  double run = 0, upload = 0, download = 0;
};

FirstRun RunInParts(Prepared& prepared) {
  FirstRun first;
  const auto timed = [](double& seconds, const auto& part) {
    const double start = SteadySeconds();
    part();
    seconds = SteadySeconds() - start;
  };
  if (DeviceRun* device = prepared.OnDevice()) {
    timed(first.upload, [&] { device->Upload(); });
    timed(first.run, [&] {
      device->Launch();
      device->Wait();
    });
    timed(first.download, [&] { device->Download(); });
  } else {
    timed(first.run, [&] { prepared.Run(); });
  }
  return first;
}

// Ends the worker and leaves the implementations without a record to another
// one.
[[noreturn]] void LeaveToOthers() {
  Say({{"again", true}});
  ::_exit(0);
}

// Returns the peak of the workspace of a function in bytes, on the device or on
// the heap.
int64_t PeakBytesOf(Backend backend, const std::function<void()>& function) {
  if (backend == Backend::kCuda) {
    const int64_t before = DeviceWorkspaceBytes();
    ResetDevicePeak();
    function();
    return DevicePeakBytes() - before;
  }
  const PeakOf peak;
  function();
  return peak.bytes();
}

// Returns a digest of the bits of all outputs (FNV-1a over words of eight
// bytes).
std::string DigestOfOutputs(const Trial& trial) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const Arrays::Entry& entry : trial.arrays().outputs) {
    const auto* bytes = static_cast<const unsigned char*>(entry.data);
    const int64_t count = entry.count * Info(entry.scalar).bytes;
    for (int64_t i = 0; i < count; i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, bytes + i,
                  static_cast<size_t>(std::min<int64_t>(8, count - i)));
      hash = (hash ^ word) * 0x100000001b3;
    }
  }
  return fmt::format("{:016x}", hash);
}

// Largest number of multiply-adds of the reference for a case, which take
// seconds. `subquad verify` has no such limit.
constexpr double kMostWork = 1e9;

class CaseRun;

// An implementation that has passed on a case and is ready to be timed.
struct Entry {
  const CaseRun* run;
  JobPlace place;
  const Implementation* implementation;
  std::unique_ptr<Prepared> prepared;
  Record record;  // unless another process has checked it
  double first_seconds = 0;
  AfterTiming after = {};
};

class CaseRun {
 public:
  CaseRun(const Job& job, size_t part)
      : job_(job),
        index_(part),
        part_(job.cases[part]),
        case_(part_.test_case),
        problem_(ProblemOf(case_)) {}

  // Checks every implementation and makes entries of those that pass.
  // `other_bytes`: the size of the tensors of the job's other cases.
  void Check(double other_bytes) {
    other_bytes_ = other_bytes;
    if (std::string reason = TensorsDoNotFit(); !reason.empty()) {
      for (size_t i = 0; i < part_.implementations.size(); ++i)
        SayVerdict(i, Verdict::Skipped(reason));
      return;
    }
    Inputs inputs = GenerateInputs(case_, problem_);
    trial_ = std::make_unique<Trial>(
        problem_, std::move(inputs), case_.seed,
        case_.source ? NumbersFrom::kUser : NumbersFrom::kUs, kMostWork);
    if (job_.resident) return RunResident();
    for (size_t i = 0; i < part_.implementations.size(); ++i)
      repeats() ? RunAgain(i) : CheckOne(i);
  }

  // Tells whether another process has checked everything.
  bool repeats() const { return !part_.digests.empty(); }

  std::vector<Entry>& entries() { return entries_; }
  const std::string& input() const { return case_.input; }

  double TensorBytes() const {
    return TensorCount() *
           (8.0 + static_cast<double>(Info(problem_.scalar).bytes));
  }

  // Writes every input as NAME.npy and every output of the first implementation
  // that passed as out_NAME.npy.
  void WriteTensors() {
    const bool is_float32 = problem_.scalar != Scalar::kFloat64;
    const std::vector<Tensor>& inputs = trial_->inputs().tensors;
    for (const Tensor& tensor : inputs)
      WriteNpy(fs::path(job_.folder) / (tensor.name + ".npy"), tensor.shape,
               tensor.values, is_float32);
    trial_->Poison();
    entries_.front().prepared->Run();
    for (size_t o = 0; o < problem_.outputs.size(); ++o) {
      const auto& output = trial_->arrays().outputs[o];
      std::vector<double> values(static_cast<size_t>(output.count));
      for (int64_t i = 0; i < output.count; ++i)
        values[static_cast<size_t>(i)] =
            ElementAt(problem_.scalar, output.data, i);
      WriteNpy(
          fs::path(job_.folder) / ("out_" + problem_.outputs[o].name + ".npy"),
          problem_.OutputShape(o), values, is_float32);
    }
  }

  // Judges an implementation after it has been timed.
  AfterTiming JudgeTimed(const Entry& entry) const {
    if (!repeats())
      return subquad::JudgeTimed(*entry.implementation, *trial_,
                                 *entry.prepared);
    AfterTiming after;
    if (DeviceRun* device = entry.prepared->OnDevice()) device->Download();
    after.verdict =
        JudgeBits(*entry.implementation, part_.digests[entry.place.index]);
    return after;
  }

  // Returns why a time is too short to be possible; empty if it is possible.
  std::string WhyImpossible(const Implementation& implementation,
                            double seconds) const {
    const Cost cost = implementation.CostOf(problem_, job_.threads);
    if (implementation.backend == Backend::kCpu)
      return Impossible(cost, job_.threads, problem_.scalar, job_.floors,
                        seconds);
    return ImpossibleOnDevice(cost, Device(), problem_.scalar, seconds);
  }

 private:
  PrepareOptions Options() const {
    // Plans are not tuned for the resident set, which does not depend on it.
    return {.threads = job_.threads, .tune = !job_.resident};
  }

  std::unique_ptr<Prepared> Prepare(
      const Implementation& implementation) const {
    return implementation.Prepare(problem_, trial_->arrays(), Options());
  }

  double WorkspaceBytes(const Implementation& implementation) const {
    return implementation.CostOf(problem_, job_.threads).workspace_bytes;
  }

  // Tensors are in memory twice: in float64 for the reference and in their own
  // type.
  double TrialBytes() const { return TensorBytes() + other_bytes_ + (1 << 28); }
  double TensorCount() const {
    double count = 0;
    for (size_t i = 0; i < problem_.inputs.size(); ++i)
      count += static_cast<double>(ElementCount(problem_.InputShape(i)));
    for (size_t i = 0; i < problem_.outputs.size(); ++i)
      count += static_cast<double>(ElementCount(problem_.OutputShape(i)));
    return count;
  }

  std::string TensorsDoNotFit() const {
    const double limit = static_cast<double>(job_.limits.memory_bytes);
    if (limit <= 0 || TrialBytes() <= limit) return "";
    return fmt::format(
        "does not fit in memory: the tensors need {}, the limit is {}",
        Gibibytes(TrialBytes()), Gibibytes(limit));
  }

  std::string WorkspaceDoesNotFit(const Implementation& implementation) const {
    const double limit = static_cast<double>(job_.limits.memory_bytes);
    const double needed = TrialBytes() + WorkspaceBytes(implementation);
    if (implementation.backend == Backend::kCuda)
      return DoesNotFit(implementation, problem_, job_.threads);
    if (limit <= 0 || needed <= limit) return "";
    return fmt::format(
        "does not fit in memory: needs {} of workspace in addition to its "
        "tensors, the limit is {}",
        Gibibytes(WorkspaceBytes(implementation)), Gibibytes(limit));
  }

  // Answers for an implementation that is not timed.
  void SayVerdict(size_t index, const Verdict& verdict) const {
    const JobPlace place{index_, index};
    if (repeats())
      SayMore(place, {verdict.reason, std::nullopt});
    else
      SayRecord(place,
                MakeRecord(case_, problem_, *part_.implementations[index],
                           job_.threads, verdict));
  }

  // Judges the output unless its bits equal those that another process has
  // judged.
  Verdict JudgeBits(const Implementation& implementation,
                    const std::string& digest) const {
    if (DigestOfOutputs(*trial_) == digest) {
      Verdict passed;
      passed.outcome = Outcome::kPassed;
      return passed;
    }
    return trial_->JudgeOutputs(implementation);
  }

  void RunResident() {
    Prepare(*part_.implementations.front())->Run();
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    Say({{"resident_bytes", int64_t{usage.ru_maxrss} * 1024}});
  }

  // Prepares and runs an implementation that another process has checked.
  void RunAgain(size_t index) {
    const Implementation& implementation = *part_.implementations[index];
    Entry entry{this, {index_, index}, &implementation, nullptr, {}, 0};
    Say({{"begin", entry.place.ToJson()}});
    Verdict verdict;
    try {
      entry.prepared = Prepare(implementation);
      trial_->Poison();
      entry.first_seconds = RunInParts(*entry.prepared).run;
      verdict = JudgeBits(implementation, part_.digests[index]);
    } catch (const std::exception& error) {
      verdict = Verdict::Failed(error.what());
    }
    if (verdict.passed())
      entries_.push_back(std::move(entry));
    else
      SayVerdict(index, verdict);
  }

  // Prepares, runs and judges an implementation, then measures its memory in a
  // separate run.
  void CheckOne(size_t index) {
    const Implementation& implementation = *part_.implementations[index];
    const JobPlace place{index_, index};
    Say({{"begin", place.ToJson()}});
    std::string reason = WhyNot(implementation, problem_);
    if (reason.empty()) reason = WorkspaceDoesNotFit(implementation);
    if (!reason.empty()) return SayVerdict(index, Verdict::Skipped(reason));
    Entry entry{this, place, &implementation, nullptr, {}, 0};
    Verdict verdict;
    double setup = 0;
    FirstRun first;
    std::string digest;
    int64_t workspace = 0;
    const bool counted =
        implementation.backend == Backend::kCuda || MemoryCounter::Available();
    try {
      trial_->answer();
      const double start = SteadySeconds();
      entry.prepared = Prepare(implementation);
      setup = SteadySeconds() - start;
      trial_->Poison();
      first = RunInParts(*entry.prepared);
      entry.first_seconds = first.run;
      digest = DigestOfOutputs(*trial_);
      verdict = trial_->JudgeOutputs(implementation);
      trial_->Explain(implementation, verdict);
      // Memory that a library keeps for the whole process (FFTW's planner and
      // wisdom) has been allocated by now and is not counted.
      entry.prepared.reset();
      const auto prepare_and_run = [&] {
        entry.prepared = Prepare(implementation);
        entry.prepared->Run();
      };
      if (counted)
        workspace = PeakBytesOf(implementation.backend, prepare_and_run);
      else
        prepare_and_run();
    } catch (const OutOfDeviceMemory& refused) {
      verdict = Verdict::Skipped(refused.what());
    } catch (const std::bad_alloc&) {
      verdict = Verdict::Skipped(fmt::format(
          "does not fit in memory: an allocation failed at the limit of {}",
          Gibibytes(static_cast<double>(job_.limits.memory_bytes))));
    } catch (const InvalidInput&) {
      throw;
    } catch (const std::exception& error) {
      verdict = Verdict::Failed(error.what());
    }
    entry.record =
        MakeRecord(case_, problem_, implementation, job_.threads, verdict);
    if (entry.prepared) entry.record.choice = entry.prepared->Choice();
    if (verdict.comparison.elements > 0) {
      entry.record.setup_seconds = setup;
      entry.record.first_seconds = entry.first_seconds;
      entry.record.digest = digest;
      if (counted) entry.record.workspace_bytes = workspace;
      if (implementation.backend == Backend::kCuda)
        entry.record.device =
            RecordedDevice{.clock = "events",
                           .cache = "flushed",
                           .upload_seconds = first.upload,
                           .download_seconds = first.download};
    }
    const bool has_clock =
        implementation.backend == Backend::kCpu || Device().has_clock;
    if (!verdict.passed() || !has_clock) {
      SayRecord(place, entry.record);
      // The others start in a new process, whose device works again.
      if (implementation.backend == Backend::kCuda && DeviceIsBroken())
        LeaveToOthers();
      return;
    }
    entries_.push_back(std::move(entry));
  }

  const Job& job_;
  const size_t index_;  // of part_ in the job
  const JobCase& part_;
  const Case& case_;
  const Problem problem_;
  double other_bytes_ = 0;
  std::unique_ptr<Trial> trial_;
  std::vector<Entry> entries_;
};

// Returns the other inputs with which an implementation is timed alternately.
std::vector<std::string> TimedWith(const Entry& entry,
                                   const std::vector<Entry*>& all) {
  std::vector<std::string> inputs;
  for (const Entry* other : all)
    if (other->run != entry.run &&
        other->implementation == entry.implementation)
      inputs.push_back(other->run->input());
  return inputs;
}

// Returns everything that passed, of all cases, ordered so that an
// implementation with one input is followed by the same one with another input.
std::vector<Entry*> EntriesOf(
    const std::vector<std::unique_ptr<CaseRun>>& runs) {
  std::vector<Entry*> entries;
  for (const auto& run : runs)
    for (Entry& entry : run->entries()) entries.push_back(&entry);
  std::ranges::stable_sort(
      entries, {}, [](const Entry* entry) { return entry->implementation; });
  return entries;
}

std::vector<Contestant> ContestantsOf(const std::vector<Entry*>& entries) {
  std::vector<Contestant> contestants;
  for (Entry* entry : entries) {
    contestants.push_back({JobName(*entry->implementation),
                           [entry] { entry->prepared->Run(); },
                           entry->first_seconds});
    contestants.back().finished = [entry] {
      entry->after = entry->run->JudgeTimed(*entry);
    };
    if (DeviceRun* device = entry->prepared->OnDevice())
      contestants.back().timed_run = [device] { return device->Time(); };
  }
  return contestants;
}

void SayMeasured(const Entry& entry, const Sampled& sampled,
                 const std::vector<Entry*>& all) {
  const double fastest = *std::ranges::min_element(sampled.samples);
  std::string reason = entry.after.verdict.reason;
  if (reason.empty())
    reason = entry.run->WhyImpossible(*entry.implementation, fastest);
  std::optional<Times> seconds;
  if (reason.empty()) seconds = Times{sampled.samples, {}, sampled.stopped_by};
  if (entry.run->repeats()) return SayMore(entry.place, {reason, seconds});
  Record record = entry.record;
  if (!reason.empty()) {
    record.Fail(reason);
  } else {
    record.seconds = seconds;
    record.deterministic = entry.after.deterministic;
    record.timed_with = TimedWith(entry, all);
    if (record.device) record.device->after = AskDeviceState();
  }
  SayRecord(entry.place, record);
}

void Measure(const std::vector<Entry*>& entries, const SamplingRule& rule) {
  if (entries.empty()) return;
  const std::vector<Contestant> contestants = ContestantsOf(entries);
  Say({{"begin", contestants.size() > 1 ? Json(nullptr)
                                        : entries.front()->place.ToJson()}});
  const std::vector<Sampled> results = SampleInTurns(contestants, rule);
  for (size_t i = 0; i < entries.size(); ++i)
    SayMeasured(*entries[i], results[i], entries);
}

// Takes samples of one case on request, so that other programs can be timed
// between them on the same tensors. The caller decides when to stop.
void TakeTurns(CaseRun& run, const std::vector<Entry*>& entries) {
  if (entries.empty()) return;
  run.WriteTensors();
  const std::vector<Contestant> contestants = ContestantsOf(entries);
  std::vector<int64_t> runs;
  std::vector<Sampled> results(contestants.size());
  std::vector<Record> records;
  Json names = Json::array();
  for (size_t i = 0; i < contestants.size(); ++i) {
    runs.push_back(RunsPerSample(contestants[i]));
    records.push_back(entries[i]->record);
    names.push_back(contestants[i].name);
  }
  Say({{"ready", names},
       {"records", ToJson(records)},
       {"algorithms", DescribeAlgorithms(records)}});
  std::string line;
  while (std::getline(std::cin, line) && !line.starts_with("end ")) {
    const auto position =
        std::ranges::find(contestants, line, &Contestant::name);
    if (position == contestants.end())
      throw InvalidInput("turn", "one that is ready", "'" + line + "'");
    const auto i = static_cast<size_t>(position - contestants.begin());
    const double seconds = OneSample(*position, runs[i]);
    results[i].samples.push_back(seconds);
    Say({{"seconds", seconds}});
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    if (results[i].samples.empty()) continue;
    results[i].median = MedianWithInterval(results[i].samples);
    results[i].stopped_by = line.starts_with("end ") ? line.substr(4) : "";
    entries[i]->prepared->Run();  // other runs have overwritten the outputs
    contestants[i].finished();
    SayMeasured(*entries[i], results[i], entries);
  }
}

void LimitMemory(const Job& job) {
  const bool on_gpu = std::ranges::any_of(job.cases, [](const JobCase& part) {
    return std::ranges::any_of(
        part.implementations, [](const Implementation* implementation) {
          return implementation->backend == Backend::kCuda;
        });
  });
  // A GPU maps much address space, so that only the formula limits memory
  // there.
  if (on_gpu || job.limits.memory_bytes <= 0) return;
  const auto bytes =
      static_cast<rlim_t>(job.limits.memory_bytes + (int64_t{1} << 30));
  const rlimit limit{bytes, bytes};
  setrlimit(RLIMIT_AS, &limit);
}

}  // namespace

int RunWorker() {
  std::string text;
  std::getline(std::cin, text);
  try {
    const Job job = Job::FromJson(Json::parse(text));
    LimitMemory(job);
    std::vector<std::unique_ptr<CaseRun>> runs;
    double bytes = 0;
    for (size_t part = 0; part < job.cases.size(); ++part) {
      runs.push_back(std::make_unique<CaseRun>(job, part));
      bytes += runs.back()->TensorBytes();
    }
    for (const auto& run : runs) run->Check(bytes - run->TensorBytes());
    const std::vector<Entry*> entries = EntriesOf(runs);
    if (job.folder.empty())
      Measure(entries, job.sampling);
    else if (runs.size() == 1)
      TakeTurns(*runs.front(), entries);
    else
      throw InvalidInput("turns", "one case", std::to_string(runs.size()));
  } catch (const std::bad_alloc&) {
    Say({{"failure", "it ran out of memory"}});
  } catch (const std::exception& error) {
    Say({{"failure", error.what()}});
  }
  return 0;
}

}  // namespace subquad
