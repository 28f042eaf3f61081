#include "optimized/base/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <vector>

#include "reference/base/invalid_input.h"

namespace subquad {
namespace {

TEST(Threads, EveryIndexOnceOnAnyNumberOfThreads) {
  for (int threads : {1, 2, 3, 8})
    for (int64_t count : {0, 1, 2, 7, 1000}) {
      ThreadPool pool(threads);
      for (int repeat = 0; repeat < 3; ++repeat) {
        std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
        pool.For(count, [&](int64_t i, int worker) {
          EXPECT_TRUE(worker >= 0 && worker < threads);
          ++seen[static_cast<size_t>(i)];
        });
        for (const auto& times : seen) EXPECT_EQ(times, 1);
      }
    }
}

TEST(Threads, TheFirstExceptionArrivesAndThePoolStaysUsable) {
  for (int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    for (int64_t bad : {0, 50, 99}) {
      EXPECT_THROW(pool.For(100,
                            [&](int64_t i, int) {
                              if (i == bad) throw InvalidInput("planted");
                            }),
                   InvalidInput);
      EXPECT_THROW(pool.For(100, [](int64_t, int) { throw std::bad_alloc(); }),
                   std::bad_alloc);
      std::atomic<int> count{0};
      pool.For(100, [&](int64_t, int) { ++count; });
      EXPECT_EQ(count, 100);
    }
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// An emulated processor (qemu-user) accepts limits of memory but ignores them.
bool KeepsLimits() {
  rlimit before{}, after{};
  getrlimit(RLIMIT_AS, &before);
  const rlimit lower{std::min(before.rlim_cur, rlim_t{1} << 46),
                     before.rlim_max};
  setrlimit(RLIMIT_AS, &lower);
  getrlimit(RLIMIT_AS, &after);
  setrlimit(RLIMIT_AS, &before);
  return after.rlim_cur == lower.rlim_cur;
}

TEST(ThreadsDeathTest, AThreadThatCannotStartIsAnErrorWithItsNumber) {
  if (!KeepsLimits()) GTEST_SKIP() << "memory cannot be limited here";
  const auto start_too_many = [] {
    rlimit room{};  // for a few stacks
    room.rlim_cur = room.rlim_max = rlim_t{1} << 29;
    setrlimit(RLIMIT_AS, &room);
    try {
      ThreadPool pool(1000);
    } catch (const std::runtime_error& error) {
      std::fputs(error.what(), stderr);
      std::_Exit(7);
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(start_too_many(), testing::ExitedWithCode(7),
              "cannot start thread [0-9]+ of 1000");
}
#endif

}  // namespace
}  // namespace subquad
