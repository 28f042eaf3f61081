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

using Json = nlohmann::ordered_json;

std::string JobName(const Implementation& implementation) {
  return implementation.id +
         (implementation.backend == Backend::kCuda ? "@cuda" : "");
}

namespace {

std::vector<std::string> NamesOf(const JobCase& part) {
  std::vector<std::string> names;
  for (const Implementation* implementation : part.implementations)
    names.push_back(JobName(*implementation));
  return names;
}

JobCase JobCaseOf(const Json& json) {
  JobCase part{MakeCase(ParseCaseId(json.at("case"))),
               {},
               json.value("digests", std::vector<std::string>())};
  for (const Json& name : json.at("implementations")) {
    const auto all = ImplementationsOf(*part.test_case.op);
    const auto place =
        std::ranges::find_if(all, [&](const Implementation* candidate) {
          return name == Json(JobName(*candidate));
        });
    if (place == all.end())
      throw InvalidInput("implementation", "one of this operator", name.dump());
    part.implementations.push_back(*place);
  }
  return part;
}

JobPlace PlaceOf(const Json& json) { return {json[0], json[1]}; }

}  // namespace

Json MoreSamples::ToJson() const {
  return {{"reason", reason},
          {"seconds", seconds ? TimesJson(*seconds) : Json(nullptr)}};
}

MoreSamples MoreSamples::FromJson(const Json& json) {
  MoreSamples more{json.at("reason"), std::nullopt};
  if (!json.at("seconds").is_null())
    more.seconds = TimesOf(json["seconds"], "worker: seconds");
  return more;
}

Json Job::ToJson() const {
  Json parts = Json::array();
  for (const JobCase& part : cases)
    parts.push_back({{"case", part.test_case.Id()},
                     {"implementations", NamesOf(part)},
                     {"digests", part.digests}});
  return {{"cases", parts},
          {"threads", threads},
          {"resident", resident},
          {"relative_width", sampling.relative_width},
          {"min_samples", sampling.min_samples},
          {"max_samples", sampling.max_samples},
          {"budget_seconds", sampling.budget_seconds},
          {"least_samples", sampling.least_samples},
          {"case_seconds", limits.case_seconds},
          {"memory_bytes", limits.memory_bytes},
          {"flops32", floors.flops_per_second_float32},
          {"flops64", floors.flops_per_second_float64},
          {"cached", floors.cached_bytes_per_second},
          {"folder", folder.string()}};
}

Job Job::FromJson(const Json& json) {
  Job job;
  for (const Json& part : json.at("cases"))
    job.cases.push_back(JobCaseOf(part));
  job.threads = json.at("threads");
  job.resident = json.at("resident");
  job.sampling = {json.at("relative_width"), json.at("min_samples"),
                  json.at("max_samples"), json.at("budget_seconds"),
                  json.at("least_samples")};
  job.limits.case_seconds = json.at("case_seconds");
  job.limits.memory_bytes = json.at("memory_bytes");
  job.floors = {json.at("flops32"), json.at("flops64"), json.at("cached")};
  job.folder = json.value("folder", "");
  return job;
}

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
        if (!outcome.in_turns) outcome.current = PlaceOf(line["begin"]);
      }
      if (line.contains("failure")) outcome.failure = line["failure"];
      if (line.contains("again")) outcome.again = true;
      if (line.contains("resident_bytes"))
        outcome.resident_bytes = line["resident_bytes"];
      if (line.contains("record"))
        outcome.records.push_back(
            {PlaceOf(line["place"]), RecordOf(line["record"], "worker")});
      if (line.contains("more"))
        outcome.more.push_back(
            {PlaceOf(line["place"]), MoreSamples::FromJson(line["more"])});
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
