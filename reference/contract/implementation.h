// An implementation: one algorithm for an operator on one kind of device, as
// the harness sees it. The tables of optimized/ and cuda/ list implementations.
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

// A tensor in its scalar type. Its data is null while a layout counts.
template <typename T>
struct HeadArray {
  T* data = nullptr;
  // Distance from one head's values to those of the next where slices are
  // evenly spaced: 0 if all heads share them.
  int64_t head_stride = 0;
  Slices slices;
  int64_t slice_size = 0;  // 0: slices are evenly spaced by head_stride

  // Returns the data that this head reads or writes.
  constexpr T* Head(int64_t head) const {
    if (!data) return nullptr;
    return data +
           (slice_size > 0 ? slices.Of(head) * slice_size : head * head_stride);
  }
  T* Slice(int64_t slice) const {
    return data ? data + slice * slice_size : nullptr;
  }
};

// The tensors of one problem, by name. They are in host memory, or in device
// memory for an implementation that is a part of another one on a device.
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

// Splits a run whose work is done on a device with memory of its own, so that
// the work can be timed without the transfers.
class DeviceRun {
 public:
  virtual ~DeviceRun() = default;
  virtual void Upload() = 0;    // the inputs; outputs are filled with NaN
  virtual void Launch() = 0;    // starts the work without waiting for it
  virtual void Wait() = 0;      // until the work is done
  virtual void Download() = 0;  // waits, then copies the outputs

  // Returns the seconds of one Launch() by the device's own clock, with a
  // flushed device cache. Not available on an emulated device.
  virtual double Time() = 0;
};

// Plans and buffers for one problem. Preparing must not depend on the values of
// the tensors.
class Prepared {
 public:
  virtual ~Prepared() = default;

  // Reads the inputs and writes every element of the outputs. Run is timed,
  // unless the work is done on a device.
  virtual void Run() = 0;

  // Returns the floating-point operations of one run, by the algorithm's own
  // count.
  virtual double Flops() const = 0;

  // Returns the upload, launch and download of Run() on a device, or null.
  virtual DeviceRun* OnDevice() { return nullptr; }

  // Describes the choice that the algorithm made, if it had one.
  virtual std::string Choice() const { return ""; }
};

// The cost of one run.
struct Cost {
  double flops = 0;
  double bytes = 0;  // of the tensors: read and written at least once
  double workspace_bytes = 0;
};

// Writes norm-wise bounds of rounding errors for the elements of a row, in
// units of the unit roundoff. Made once per problem.
using RowBound = std::function<void(const RowId& id, std::span<double> units)>;

// Growth of time or memory.
struct Complexity {
  std::string text;   // "O(e n log n)"
  std::string order;  // in the tokens: "1", "n^0.5", "n", "n log n", "n^2"
};

// The outputs that an algorithm's rounding errors can reach.
enum class Sums {
  // Every output sums only its own terms: a term that a mask hides, or a small
  // output's large neighbour, leaves no trace in it.
  kDirect,
  // Terms of several outputs are mixed and separated again (a transform,
  // Karatsuba's differences, blocks): errors are relative to the largest
  // output, and rounding errors of future terms reach past outputs.
  kMixed,
  // Outputs are mixed as above, but the errors are too small to matter: the
  // mixing uses a wider type, or changes the last bit of some rows only.
  kMixedWide,
};

// Constant answers for implementations whose sums do not depend on the problem.
inline Sums DirectSums(const Problem&) { return Sums::kDirect; }
inline Sums MixedSums(const Problem&) { return Sums::kMixed; }
inline Sums MixedWideSums(const Problem&) { return Sums::kMixedWide; }

// An option of its operator that an algorithm cannot take.
struct Refusal {
  std::string name;  // of a parameter or an input
  std::string why;   // "this algorithm .."
  // Only the input with an entry for each query is refused: one for all
  // queries, [.., 1, n_k], is taken.
  bool for_pairs_only = false;
};

// A row of a table (table.h), which fills in `op`, `backend` and the fields
// that several rows share.
struct Implementation {
  std::string op;
  std::string id;
  Backend backend = Backend::kCpu;
  std::vector<Scalar> scalars;
  std::string what;    // one line: how it computes the result
  std::string source;  // paper and section
  Complexity time, memory;
  // Says how the sums of this problem are formed. Every row sets it: studies of
  // precision and tests of causality depend on it.
  std::function<Sums(const Problem&)> sums;
  bool backward = false;  // has a backward pass, too
  // Says why there is no backward pass.
  std::string why_no_backward;

  // For the GPU: the parameters, inputs and outputs that this algorithm takes
  // and most GPU kernels do not, and whether some heads, not only all of them,
  // may share a tensor.
  std::vector<std::string> takes;
  bool takes_groups = false;

  // The options that it cannot take on any device. CompleteTable adds them to
  // `why_not`.
  std::vector<Refusal> refuses;

  // Says why it cannot run this problem; empty if it can.
  std::function<std::string(const Problem&)> why_not;

  // Gate 1. Element-wise: the error is at most bound_factor * u * units, with
  // the units of Reference::Row. If the algorithm has no such bound,
  // `norm_bound` gives the units instead, or nothing if this problem needs
  // none.
  double bound_factor = 1;
  std::function<RowBound(const Problem&, const Inputs&)> norm_bound;

  // Names a library that it needs; empty if none. In a build without the
  // library `prepare` is null, and the registry leaves the row out.
  std::string needs;

  // Makes plans and buffers, all of them from the layout.
  std::function<std::unique_ptr<Prepared>(const Problem&, const Arrays&,
                                          Layout&)>
      prepare;

  std::unique_ptr<Prepared> Prepare(const Problem& problem,
                                    const Arrays& arrays,
                                    const PrepareOptions& options) const {
    Layout layout(options);
    return prepare(problem, arrays, layout);
  }

  // Returns the cost of a run, from a layout that counts and allocates nothing.
  // Zeros for a problem that it cannot run.
  Cost CostOf(const Problem& problem, int threads) const;
};

}  // namespace subquad
