#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <iostream>

#include "harness/base/clock.h"
#include "harness/base/interrupts.h"
#include "harness/registry/registry.h"
#include "harness/sweeps/worker.h"

namespace subquad {

std::string JobName(const Implementation& implementation) {
  return implementation.id +
         (implementation.backend == Backend::kCuda ? "@cuda" : "");
}

// As ["fft", "fft@cuda"].
template <>
struct JsonValue<JobCase> {
  static Json Write(const JobCase& part) {
    std::vector<std::string> names;
    for (const Implementation* implementation : part.implementations)
      names.push_back(JobName(*implementation));
    return {{"case", part.test_case.Id()},
            {"implementations", names},
            {"digests", part.digests}};
  }
  static void Read(const Json& json, const std::string& where, JobCase& part) {
    std::string id;
    std::vector<std::string> names;
    FieldReader fields(json, where);
    fields("case", id, Empty::kValue);
    fields("implementations", names, Empty::kValue);
    fields("digests", part.digests, Empty::kOmitted);
    part.test_case = MakeCase(ParseCaseId(id));
    const std::vector<const Implementation*> all =
        ImplementationsOf(*part.test_case.op);
    for (const std::string& name : names) {
      const auto place =
          std::ranges::find_if(all, [&](const Implementation* candidate) {
            return JobName(*candidate) == name;
          });
      if (place == all.end())
        throw InvalidInput(where + ": implementations",
                           "implementations of this operator", name);
      part.implementations.push_back(*place);
    }
  }
};

template <FieldsOf<Job> T, typename Fields>
void VisitFields(T& job, Fields&& fields) {
  fields("cases", job.cases, Empty::kValue);
  fields("threads", job.threads, Empty::kValue);
  fields("resident", job.resident, Empty::kValue);
  fields("relative_width", job.sampling.relative_width, Empty::kValue);
  fields("min_samples", job.sampling.min_samples, Empty::kValue);
  fields("max_samples", job.sampling.max_samples, Empty::kValue);
  fields("budget_seconds", job.sampling.budget_seconds, Empty::kValue);
  fields("least_samples", job.sampling.least_samples, Empty::kValue);
  fields("case_seconds", job.limits.case_seconds, Empty::kValue);
  fields("memory_bytes", job.limits.memory_bytes, Empty::kValue);
  fields("flops32", job.floors.flops_per_second_float32, Empty::kValue);
  fields("flops64", job.floors.flops_per_second_float64, Empty::kValue);
  fields("cached", job.floors.cached_bytes_per_second, Empty::kValue);
  fields("folder", job.folder, Empty::kValue);
}

template <FieldsOf<JobPlace> T, typename Fields>
void VisitFields(T& place, Fields&& fields) {
  fields("part", place.part, Empty::kValue);
  fields("index", place.index, Empty::kValue);
}

template <FieldsOf<MoreSamples> T, typename Fields>
void VisitFields(T& more, Fields&& fields) {
  fields("reason", more.reason, Empty::kValue);
  fields("seconds", more.seconds, Empty::kNull);
}

Json Job::ToJson() const { return WriteJson(*this); }
Job Job::FromJson(const Json& json) { return ReadJson<Job>(json, "job"); }
Json JobPlace::ToJson() const { return WriteJson(*this); }
Json MoreSamples::ToJson() const { return WriteJson(*this); }

WorkerOutcome CallWorker(const Job& job, double seconds) {
  WorkerOutcome outcome;
  int to_worker[2], from_worker[2];
  if (::pipe2(to_worker, O_CLOEXEC) != 0 ||
      ::pipe2(from_worker, O_CLOEXEC) != 0)
    throw std::runtime_error("cannot start a worker: no pipes left");
  std::cout.flush();
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("cannot start a worker: fork failed");
  if (child == 0) {
    ::dup2(to_worker[0], STDIN_FILENO);
    ::dup2(from_worker[1], STDOUT_FILENO);
    ::setpgid(0, 0);  // so that Ctrl-C reaches only the sweep
    const char* arguments[] = {"subquad", "worker", nullptr};
    ::execv("/proc/self/exe", const_cast<char**>(arguments));
    ::_exit(127);
  }
  ::close(to_worker[0]);
  ::close(from_worker[1]);
  const std::string text = job.ToJson().dump();
  const bool sent = ::write(to_worker[1], text.data(), text.size()) ==
                    static_cast<ssize_t>(text.size());
  ::close(to_worker[1]);

  const double deadline = SteadySeconds() + seconds;
  std::string pending;
  bool killed = false, open = sent;
  while (open) {
    const double left = deadline - SteadySeconds();
    if (Interrupted() || left <= 0) {
      outcome.interrupted = Interrupted();
      killed = true;
      ::kill(-child, SIGKILL);
      ::kill(child, SIGKILL);
      break;
    }
    pollfd waiting{from_worker[0], POLLIN, 0};
    if (::poll(&waiting, 1, static_cast<int>(std::min(left, 0.2) * 1000) + 1) <=
        0)
      continue;
    char buffer[65536];
    const ssize_t count = ::read(from_worker[0], buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    pending.append(buffer, static_cast<size_t>(count));
    for (size_t end; (end = pending.find('\n')) != std::string::npos;
         pending.erase(0, end + 1)) {
      Json line = Json::parse(pending.substr(0, end), nullptr, false);
      if (!line.is_object()) continue;
      if (line.contains("begin")) {
        outcome.in_turns = line["begin"].is_null();
        outcome.current.reset();
        if (!outcome.in_turns)
          outcome.current = ReadJson<JobPlace>(line["begin"], "worker");
      }
      if (line.contains("failure")) outcome.failure = line["failure"];
      if (line.contains("again")) outcome.again = true;
      if (line.contains("resident_bytes"))
        outcome.resident_bytes = line["resident_bytes"];
      if (line.contains("record"))
        outcome.records.push_back({ReadJson<JobPlace>(line["place"], "worker"),
                                   RecordOf(line["record"], "worker")});
      if (line.contains("more"))
        outcome.more.push_back({ReadJson<JobPlace>(line["place"], "worker"),
                                ReadJson<MoreSamples>(line["more"], "worker")});
    }
  }
  ::close(from_worker[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (outcome.interrupted) return outcome;
  if (killed)
    outcome.failure = fmt::format("it did not finish within {:.3g} s", seconds);
  else if (WIFSIGNALED(status))
    outcome.failure =
        fmt::format("it crashed: {}", strsignal(WTERMSIG(status)));
  else if (WEXITSTATUS(status) != 0)
    outcome.failure =
        fmt::format("its process exited with status {}", WEXITSTATUS(status));
  return outcome;
}

}  // namespace subquad
