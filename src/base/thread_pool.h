// A pool for data-parallel loops of microseconds to milliseconds: static partition, the caller
// taking a share of the work. A share that its thread has not begun when the caller is done with
// its own is run by the caller, so a loop never waits for a thread that has no processor. Who
// waits, worker or caller, spins for 30 microseconds, yields a few times and then sleeps; a pool of
// more threads than processors never spins.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace mlxcel {

class ThreadPool {
 public:
  /// `num_threads` counts the calling thread; 0 takes MLXCEL_THREADS, else the processors this
  /// process may use.
  explicit ThreadPool(int num_threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const;

  /// Calls fn(begin, end) for disjoint ranges that cover [0, count), each a multiple of `grain`
  /// items except the last, at most one range a thread, and returns when all are done. Nested calls
  /// run in the calling thread. The first exception thrown by `fn` is rethrown here. One caller at
  /// a time.
  template <class Fn>
  void parallel_for(int64_t count, int64_t grain, Fn&& fn) {
    using F = std::remove_reference_t<Fn>;
    run(
        count, grain,
        [](void* f, int64_t begin, int64_t end) { (*static_cast<F*>(f))(begin, end); },
        const_cast<void*>(static_cast<const void*>(&fn)));
  }

  /// The pool that CPU kernels use. Created on first use.
  static ThreadPool& shared();
  /// Makes shared() return `pool` (null: its own again) and gives back the one set before. For
  /// tests and benchmarks that vary the number of threads, while no kernel runs.
  static ThreadPool* replace_shared(ThreadPool* pool);

 private:
  using RangeFn = void (*)(void* context, int64_t begin, int64_t end);
  void run(int64_t count, int64_t grain, RangeFn fn, void* context);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mlxcel
