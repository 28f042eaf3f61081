// A pool of waiting threads. Work is split by index into pieces that do not
// depend on the number of threads, so that results are bit-identical for any
// number of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>

#include "reference/contract/layout.h"

namespace subquad {

class ThreadPool {
 public:
  // Throws std::runtime_error if the system cannot start another thread.
  explicit ThreadPool(int threads);
  // Starts no threads if the layout only counts.
  explicit ThreadPool(const Layout& layout);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Calls work(index, worker) once for every index in [0, count), with worker
  // in [0, threads). Returns when all calls are done; rethrows the first
  // exception. Indices are handed out in order as threads become free.
  void For(int64_t count,
           const std::function<void(int64_t index, int worker)>& work);

  // Calls work(first, count, worker) for blocks of up to `block` of `rows`
  // rows.
  template <typename Work>
  void ForRows(int64_t rows, int64_t block, const Work& work) {
    For((rows + block - 1) / block, [&](int64_t index, int worker) {
      const int64_t first = index * block;
      work(first, std::min(block, rows - first), worker);
    });
  }

 private:
  struct Shared;
  void Start();

  const int threads_;
  std::unique_ptr<Shared> shared_;
};

}  // namespace subquad
