#include "optimized/base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace subquad {

struct ThreadPool::Shared {
  std::mutex mutex;
  std::condition_variable start, done;
  const std::function<void(int64_t, int)>* work = nullptr;
  int64_t count = 0;
  std::atomic<int64_t> next{0};
  uint64_t round = 0;
  int busy = 0;
  bool stop = false;
  std::exception_ptr error;
  std::vector<std::thread> workers;

  ~Shared() {
    {
      std::lock_guard lock(mutex);
      stop = true;
    }
    start.notify_all();
    for (std::thread& worker : workers) worker.join();
  }

  void Drain(int worker) {
    try {
      for (int64_t i = next++; i < count; i = next++) (*work)(i, worker);
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
      next = count;
    }
  }

  void Loop(int worker) {
    uint64_t visible = 0;
    std::unique_lock lock(mutex);
    while (true) {
      start.wait(lock, [&] { return stop || round != visible; });
      if (stop) return;
      visible = round;
      lock.unlock();
      Drain(worker);
      lock.lock();
      if (--busy == 0) done.notify_one();
    }
  }
};

ThreadPool::ThreadPool(int threads)
    : threads_(std::max(1, threads)), shared_(std::make_unique<Shared>()) {
  Start();
}

ThreadPool::ThreadPool(const Layout& layout)
    : threads_(layout.threads()), shared_(std::make_unique<Shared>()) {
  if (!layout.counting()) Start();
}

void ThreadPool::Start() {
  Shared* shared = shared_.get();
  for (int worker = 1; worker < threads_; ++worker) try {
      shared->workers.emplace_back([shared, worker] { shared->Loop(worker); });
    } catch (const std::system_error& error) {
      // Threads that have started end when shared_ is destroyed.
      throw std::runtime_error("cannot start thread " +
                               std::to_string(worker + 1) + " of " +
                               std::to_string(threads_) + ": " + error.what());
    }
}

ThreadPool::~ThreadPool() = default;

void ThreadPool::For(int64_t count,
                     const std::function<void(int64_t, int)>& work) {
  if (count <= 0) return;
  if (threads_ == 1 || count == 1) {
    for (int64_t i = 0; i < count; ++i) work(i, 0);
    return;
  }
  std::unique_lock lock(shared_->mutex);
  shared_->work = &work;
  shared_->count = count;
  shared_->next = 0;
  shared_->error = nullptr;
  shared_->busy = threads_ - 1;
  ++shared_->round;
  lock.unlock();
  shared_->start.notify_all();
  shared_->Drain(0);
  lock.lock();
  shared_->done.wait(lock, [&] { return shared_->busy == 0; });
  if (shared_->error) std::rethrow_exception(shared_->error);
}

}  // namespace subquad
