// The base of all GPU implementations: tensors in device memory, transfers, and
// the device's clock.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/base/memory.h"
#include "cuda/base/storage.h"
#include "reference/contract/table.h"

namespace subquad::device {

class DevicePrepared : public Prepared, public DeviceRun {
 public:
  // Allocates the tensors on the device; transfers read and write `arrays`. A
  // part of another implementation gets arrays in device memory and transfers
  // nothing.
  DevicePrepared(const Problem& problem, const Arrays& arrays, Layout& layout);

  void Run() final {
    Upload();
    Launch();
    Download();
  }
  DeviceRun* OnDevice() final { return this; }

  void Upload() final;
  void Wait() final;
  void Download() final;
  double Time() final;

 protected:
  // Returns the tensors in device memory.
  const Arrays& tensors() const { return device_; }
  template <typename S>
  HeadArray<const S> In(const std::string& name) const {
    return device_.In<S>(name);
  }
  template <typename S>
  HeadArray<S> Out(const std::string& name) const {
    return device_.Out<S>(name);
  }
  bool adds() const { return device_.add; }

 private:
  Arrays host_, device_;
  std::vector<DeviceMemory> memory_;  // inputs, then outputs
  DeviceMemory cache_filler_;
};

// Completes the table of an operator's GPU implementations. Adds to each row
// why it cannot run: there is no device, or no backward pass.
std::vector<Implementation> DeviceTable(std::string_view op,
                                        std::vector<Implementation> rows);

// Makes `prepare` for a class template over the storage type, constructed from
// (problem, arrays, layout). It is static because GCC gives external linkage to
// instantiations with a template of an unnamed namespace: two files with a
// `Dense` each would share one instance.
template <template <typename> class Run>
static auto PrepareOnDevice() {
  return [](const Problem& problem, const Arrays& arrays,
            Layout& layout) -> std::unique_ptr<Prepared> {
    return WithStorage(
        problem.scalar, [&]<typename S>() -> std::unique_ptr<Prepared> {
          return std::make_unique<Run<S>>(problem, arrays, layout);
        });
  };
}

// Makes `prepare` for implementations that may be a term of a sum, as templates
// over the types of inputs and output: a term is float32, because a sum is
// rounded once.
template <template <typename, typename> class Run>
static auto PrepareOnDevice() {
  return [](const Problem& problem, const Arrays& arrays,
            Layout& layout) -> std::unique_ptr<Prepared> {
    return WithStorage(
        problem.scalar, [&]<typename S>() -> std::unique_ptr<Prepared> {
          if (arrays.outputs[0].scalar == Scalar::kFloat32)
            return std::make_unique<Run<S, float>>(problem, arrays, layout);
          return std::make_unique<Run<S, S>>(problem, arrays, layout);
        });
  };
}

}  // namespace subquad::device
