// An implementation: one algorithm for an operator on one kind of device, as
// the harness sees it. optimized/ and cuda/ fill tables of these.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "reference/base/operator.h"
#include "reference/contract/layout.h"

namespace subquad {

enum class Backend { kCpu, kCuda };

inline std::string_view ToString(Backend backend) {
  return backend == Backend::kCpu ? "cpu" : "cuda";
}

// One tensor in its scalar type. Null while a layout counts.
template <typename T>
struct HeadArray {
  T* data = nullptr;
  // From one head's numbers to the next one's, where slices are evenly spaced:
  // 0 if all heads share them.
  int64_t head_stride = 0;
  Slices slices;
  int64_t slice_size = 0;  // 0: evenly spaced by the stride, without slices

  // What this head reads or writes.
  T* Head(int64_t head) const {
    if (!data) return nullptr;
    return data +
           (slice_size > 0 ? slices.Of(head) * slice_size : head * head_stride);
  }
  T* Slice(int64_t slice) const {
    return data ? data + slice * slice_size : nullptr;
  }
};

// The tensors of one problem, by name. In host memory; of a program that is a
// part of another one on a device, in device memory.
class Arrays {
 public:
  struct Entry {
    std::string name;
    Scalar scalar;
    void* data;
    Slices slices;
    int64_t count;

    int64_t SliceSize() const { return count / slices.count(); }
  };
  std::vector<Entry> inputs, outputs;
  bool on_device = false;
  bool add = false;  // on a device: outputs += the result

  template <typename T>
  HeadArray<const T> In(const std::string& name) const {
    return Of<const T>(Find(inputs, name));
  }
  template <typename T>
  HeadArray<T> Out(const std::string& name) const {
    return Of<T>(Find(outputs, name));
  }

 private:
  template <typename T>
  static HeadArray<T> Of(const Entry& entry) {
    const int64_t size = entry.SliceSize();
    return {static_cast<T*>(entry.data), entry.slices.Step() * size,
            entry.slices, size};
  }
  static const Entry& Find(const std::vector<Entry>& entries,
                           const std::string& name) {
    for (const Entry& entry : entries)
      if (entry.name == name) return entry;
    throw InvalidInput("tensor " + name, "an array", "none");
  }
};

// The parts of a run whose work is done on a device with memory of its own, so
// that the work is timed without the transfers.
class DeviceRun {
 public:
  virtual ~DeviceRun() = default;
  virtual void Upload() = 0;    // the inputs; outputs are filled with NaN
  virtual void Launch() = 0;    // starts the work and does not wait for it
  virtual void Wait() = 0;      // until the work is done
  virtual void Download() = 0;  // waits, and takes the outputs

  // Seconds of one Launch() by the device's own clock, after what its cache
  // held was thrown out. Not on an emulated device.
  virtual double Time() = 0;
};

// Plans and buffers for one problem. What happens here may not depend on the
// values of the tensors.
class Prepared {
 public:
  virtual ~Prepared() = default;

  // Reads the inputs, writes every element of the outputs. This is what is
  // timed, unless the work is done on a device.
  virtual void Run() = 0;

  // Floating-point operations of one run, by the algorithm's own count.
  virtual double Flops() const = 0;

  // Where Run() uploads, launches and downloads: the parts.
  virtual DeviceRun* OnDevice() { return nullptr; }

  // What was chosen, in words, where the algorithm had a choice.
  virtual std::string Choice() const { return ""; }
};

// What one run costs.
struct Cost {
  double flops = 0;
  double bytes = 0;  // of the tensors: read and written at least once
  double workspace_bytes = 0;
};

// Bounds of rounding errors that hold norm-wise, in units of the unit roundoff,
// for the elements of a row. Made once per problem.
using RowBound = std::function<void(const RowId& id, std::span<double> units)>;

// How time or memory grows.
struct Complexity {
  std::string text;   // "O(e n log n)"
  std::string order;  // in the tokens: "1", "n^0.5", "n", "n log n", "n^2"
};

// What an algorithm's rounding errors reach.
enum class Sums {
  // Every output adds up its own terms: a term that a mask hides, or a small
  // output's large neighbour, leaves no trace in it.
  kDirect,
  // Terms of several outputs are mixed and separated again (a transform,
  // Karatsuba's differences, blocks): errors are relative to the largest of
  // them, and rounding of the future reaches the past.
  kMixed,
  // The same, too small to matter: in a wider type, or in the last bit of some
  // rows.
  kMixedWide,
};

// For rows that are of one kind whatever the problem.
inline Sums DirectSums(const Problem&) { return Sums::kDirect; }
inline Sums MixedSums(const Problem&) { return Sums::kMixed; }
inline Sums MixedWideSums(const Problem&) { return Sums::kMixedWide; }

// A row of a table (table.h), which fills in `op`, `backend` and what a row
// shares with others.
struct Implementation {
  std::string op;
  std::string id;
  Backend backend = Backend::kCpu;
  std::vector<Scalar> scalars;
  std::string what;    // one line: how it computes
  std::string source;  // paper, section
  Complexity time, memory;
  // How it forms its sums for this problem. Every row sets it: studies of
  // precision and tests of causality ask it.
  std::function<Sums(const Problem&)> sums;
  bool backward = false;  // has the backward pass too
  // Why it has none, in words.
  std::string why_no_backward;

  // Why it cannot run this problem; empty if it can.
  std::function<std::string(const Problem&)> why_not;

  // Gate 1. Element-wise: the error is at most bound_factor * u * units, with
  // the units of Reference::Row. Where the algorithm has no such bound,
  // `norm_bound` gives the units instead, or nothing where this problem needs
  // none.
  double bound_factor = 1;
  std::function<RowBound(const Problem&, const Inputs&)> norm_bound;

  // Plans and buffers, every one from the layout.
  std::function<std::unique_ptr<Prepared>(const Problem&, const Arrays&,
                                          Layout&)>
      prepare;

  std::unique_ptr<Prepared> Prepare(const Problem& problem,
                                    const Arrays& arrays,
                                    const PrepareOptions& options) const {
    Layout layout(options);
    return prepare(problem, arrays, layout);
  }

  // What a run costs, from a layout that counts: nothing is allocated. Zeros
  // for a problem that it cannot run.
  Cost CostOf(const Problem& problem, int threads) const;
};

}  // namespace subquad
