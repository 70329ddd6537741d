#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/env.h"
#include "base/error.h"

namespace mlxcel {
namespace {

// Long enough to bridge the gap between two kernels of one step, short enough not to burn an idle
// machine.
constexpr int kSpins = 20000;

void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

int usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

thread_local bool inside_pool = false;

}  // namespace

struct ThreadPool::Impl {
  // The job in flight; written by the caller before `generation` is raised.
  RangeFn fn = nullptr;
  void* context = nullptr;
  int64_t count = 0, per_thread = 0;

  std::atomic<uint64_t> generation{0};
  std::atomic<int> pending{0};
  std::atomic<int> sleepers{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;  // guards sleeping on `wake` and `failure`
  std::condition_variable wake;
  std::exception_ptr failure;
  std::mutex caller;  // one parallel_for at a time
  std::vector<std::thread> threads;
  int num_threads = 1;

  void work(int index) noexcept {
    const int64_t begin = std::min(count, per_thread * index);
    const int64_t end = std::min(count, begin + per_thread);
    if (begin >= end) return;
    try {
      fn(context, begin, end);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  }

  void worker(int index) {
    inside_pool = true;
    uint64_t seen = 0;
    while (true) {
      int spins = 0;
      while (generation.load(std::memory_order_acquire) == seen &&
             !stop.load(std::memory_order_relaxed)) {
        if (++spins < kSpins) {
          cpu_relax();
          continue;
        }
        std::unique_lock lock(mutex);
        sleepers.fetch_add(1);
        wake.wait(lock, [&] { return generation.load() != seen || stop.load(); });
        sleepers.fetch_sub(1);
      }
      if (stop.load(std::memory_order_relaxed)) return;
      seen = generation.load(std::memory_order_acquire);
      work(index);
      pending.fetch_sub(1, std::memory_order_release);
    }
  }
};

ThreadPool::ThreadPool(int num_threads) : impl_(std::make_unique<Impl>()) {
  if (num_threads <= 0) {
    const auto wanted = env::get_int("MLXCEL_THREADS");
    if (wanted && (*wanted < 1 || *wanted > 1024)) {
      throw Error(Code::InvalidArgument, "environment variable MLXCEL_THREADS: expected 1 to 1024");
    }
    num_threads = wanted ? static_cast<int>(*wanted) : usable_processors();
  }
  impl_->num_threads = num_threads;
  for (int i = 1; i < num_threads; ++i)
    impl_->threads.emplace_back([this, i] { impl_->worker(i); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stop.store(true);
  }
  impl_->wake.notify_all();
  for (std::thread& t : impl_->threads) t.join();
}

int ThreadPool::num_threads() const { return impl_->num_threads; }

void ThreadPool::run(int64_t count, int64_t grain, RangeFn fn, void* context) {
  if (count <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  const int64_t grains = (count + grain - 1) / grain;
  if (inside_pool || impl_->num_threads == 1 || grains == 1) {
    fn(context, 0, count);
    return;
  }
  const std::lock_guard caller(impl_->caller);
  Impl& p = *impl_;
  p.fn = fn;
  p.context = context;
  p.count = count;
  p.per_thread = (grains + p.num_threads - 1) / p.num_threads * grain;
  p.failure = nullptr;
  p.pending.store(p.num_threads - 1, std::memory_order_relaxed);
  p.generation.fetch_add(1);
  if (p.sleepers.load() > 0) {
    {
      const std::lock_guard lock(p.mutex);
    }
    p.wake.notify_all();
  }
  inside_pool = true;
  p.work(0);
  inside_pool = false;
  int spins = 0;
  while (p.pending.load(std::memory_order_acquire) > 0) {
    // A worker that lost its processor needs ours.
    if (++spins < kSpins) {
      cpu_relax();
    } else {
      std::this_thread::yield();
    }
  }
  if (p.failure) std::rethrow_exception(p.failure);
}

ThreadPool& ThreadPool::shared() {
  static ThreadPool pool;
  return pool;
}

}  // namespace mlxcel
