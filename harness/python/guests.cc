// Times a user's function by a clock that Python cannot replace, in a child
// process that answers its parent, or in this process.
#include <malloc.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "harness/cases/case.h"
#include "harness/machine/floors.h"
#include "harness/python/bindings.h"
#include "harness/registry/registry.h"
#include "optimized/base/copy_bandwidth.h"
#include "optimized/targets.h"

namespace nb = nanobind;

namespace subquad {
namespace {

// Seconds since the machine started, as time.monotonic() gives them, so that
// the clocks of a parent and of its child agree.
double Now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

using Writable = nb::ndarray<uint8_t, nb::c_contig, nb::device::cpu>;

// A user's function with the arguments of all its calls.
//   arguments: by name, arrays among them, whose contents change between calls.
//   finish: called with the returned object inside the timed region; it copies
//       the outputs and raises if they are not what was asked for.
//   after: called with the returned object when the clock has stopped.
//   inputs, outputs: the memory of the arguments' arrays and of the copies.
class TimedFunction {
 public:
  TimedFunction(nb::callable function, nb::dict arguments, nb::callable finish,
                nb::callable after, std::vector<Writable> inputs,
                std::vector<Writable> outputs)
      : function_(std::move(function)),
        arguments_(std::move(arguments)),
        finish_(std::move(finish)),
        after_(std::move(after)),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        nothing_(nb::tuple(nb::list())) {}

  // Calls the function once and returns the times at which the call began and
  // ended. Passes on what Python raised.
  std::pair<double, double> Call() {
    // Another process has written the inputs: fetches them into this core's
    // caches, in which an earlier call would have left them. The outputs become
    // NaN, so that an element that is not written shows.
    unsigned read = 0;
    for (const Writable& array : inputs_)
      for (size_t i = 0; i < array.nbytes(); i += 64) read += array.data()[i];
    touched_ = read;
    for (Writable& array : outputs_)
      std::memset(array.data(), 0xFF, array.nbytes());
    const double start = Now();
    const nb::object returned = nb::steal<nb::object>(
        PyObject_Call(function_.ptr(), nothing_.ptr(), arguments_.ptr()));
    if (!returned.is_valid()) throw nb::python_error();
    finish_(returned);
    const double end = Now();
    after_(returned);
    return {start, end};
  }

  // Answers the commands of a parent until it closes the pipe. A command is a
  // letter, a count and 16 random bytes that the answer repeats. 'p' asks for
  // an empty answer, 'r' for a call on the numbers that are in the inputs. 'w'
  // asks for `count` calls on them and then for a call on those that the pipe
  // `numbers` holds: nothing else runs between these calls, so that the last
  // one finds the caches and the core's clock as its own calls leave them.
  // `describe` turns an exception into text. Frames are those of `_frames.py`.
  void Serve(int commands, int numbers, int replies, nb::callable describe) {
    std::array<char, 18> command{};
#ifdef __GLIBC__
    // Memory that the function frees is kept for its next call, as in a process
    // that has run for a while, so that calls need no new pages.
    mallopt(M_MMAP_THRESHOLD, 1 << 25);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
    while (ReadAll(commands, command.data(), command.size())) {
      std::string body(command.data() + 2, command.size() - 2);
      char kind = command[0];
      if (kind == 'r' || kind == 'w') {
        try {
          if (kind == 'w') {
            for (int i = 0; i < command[1]; ++i) Call();
            for (Writable& array : inputs_)
              if (!ReadAll(numbers, array.data(), array.nbytes())) return;
          }
          const auto [start, end] = Call();
          body.append(std::bit_cast<std::array<char, 8>>(start).data(), 8);
          body.append(std::bit_cast<std::array<char, 8>>(end).data(), 8);
        } catch (nb::python_error& error) {
          kind = 'f';
          body += Text(error, describe);
        }
      }
      if (!WriteFrame(replies, kind, body)) return;
    }
  }

 private:
  static std::string Text(nb::python_error& error, nb::callable& describe) {
    constexpr size_t kMostText = 4000;
    try {
      return nb::cast<std::string>(describe(error.value()))
          .substr(0, kMostText);
    } catch (const std::exception&) {
      return "raised an exception that has no text";
    }
  }

  // Returns false if the pipe is closed.
  static bool ReadAll(int descriptor, void* data, size_t size) {
    nb::gil_scoped_release released;
    for (size_t done = 0; done < size;) {
      const ssize_t part =
          read(descriptor, static_cast<char*>(data) + done, size - done);
      if (part < 0 && errno == EINTR) continue;
      if (part <= 0) return false;
      done += static_cast<size_t>(part);
    }
    return true;
  }

  static bool WriteFrame(int descriptor, char kind, const std::string& body) {
    std::string frame = "sqf1";
    frame += kind;
    const uint64_t size = body.size();
    frame.append(std::bit_cast<std::array<char, 8>>(size).data(), 8);
    frame += body;
    for (size_t done = 0; done < frame.size();) {
      const ssize_t part =
          write(descriptor, frame.data() + done, frame.size() - done);
      if (part < 0 && errno == EINTR) continue;
      if (part <= 0) return false;
      done += static_cast<size_t>(part);
    }
    return true;
  }

  nb::callable function_;
  nb::dict arguments_;
  nb::callable finish_, after_;
  std::vector<Writable> inputs_, outputs_;
  nb::tuple nothing_;
  volatile unsigned touched_ = 0;
};

// The limits of this machine, measured on first use.
const Floors& MachineFloors() {
  static const Floors floors = {
      .flops_per_second_float32 =
          CurrentTarget().measure_flops_per_second(false),
      .flops_per_second_float64 =
          CurrentTarget().measure_flops_per_second(true),
      .cached_bytes_per_second = MeasureCopyBandwidth(1 << 13)};
  return floors;
}

// Returns why a user's function cannot have taken so few seconds; empty if it
// can. Its algorithm is unknown: it has to read and write the tensors, and has
// to make half of the operations of the program of ours that needs the fewest.
std::string WhyImpossible(const Case& test_case, int threads, double seconds) {
  return WithoutGil([&] {
    const Problem problem = ProblemOf(test_case);
    Cost least;
    for (const Implementation* ours : ImplementationsOf(*test_case.op)) {
      if (ours->backend != Backend::kCpu || !WhyNot(*ours, problem).empty())
        continue;
      const Cost cost = ours->CostOf(problem, threads);
      least.bytes = cost.bytes;
      if (cost.flops > 0 && (least.flops == 0 || cost.flops < least.flops))
        least.flops = cost.flops;
    }
    least.flops /= 2;
    return Impossible(least, threads, problem.scalar, MachineFloors(), seconds);
  });
}

}  // namespace

void BindGuests(nb::module_& module) {
  nb::class_<TimedFunction>(module, "TimedFunction")
      .def(nb::init<nb::callable, nb::dict, nb::callable, nb::callable,
                    std::vector<Writable>, std::vector<Writable>>())
      .def("call", &TimedFunction::Call)
      .def("serve", &TimedFunction::Serve);
  module.def("why_impossible", &WhyImpossible);
}

}  // namespace subquad
