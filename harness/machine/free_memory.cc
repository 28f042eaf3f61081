#include "harness/machine/free_memory.h"

#include <fmt/format.h>

#include "harness/machine/environment.h"

namespace subquad {

void CheckFitsMemory(const std::string& subject, const Problem& problem) {
  const double needed = TensorBytes(problem) / Info(problem.scalar).bytes *
                        (Info(problem.scalar).bytes + sizeof(double));
  const auto free = static_cast<double>(AvailableMemoryBytes());
  if (free > 0 && needed > free)
    throw InvalidInput(
        subject,
        fmt::format("a case whose tensors fit into the {:.3g} GiB of free "
                    "memory",
                    free / (1 << 30)),
        fmt::format("{:.3g} GiB", needed / (1 << 30)));
}

}  // namespace subquad
