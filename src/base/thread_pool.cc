#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/env.h"
#include "base/error.h"

namespace mlxcel {
namespace {

// A wait spins, then offers its processor a few times, then sleeps. The spin bridges the gap
// between two kernels of one step; it is bounded by time because a pause takes 40 to 140 cycles.
constexpr std::chrono::microseconds kSpin{30};
constexpr int kPausesPerLook = 16;  // at the clock
constexpr int kYields = 4;

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

/// Waits for `ready` without sleeping; false when it is time to sleep. With fewer processors than
/// threads a spin would hold up the thread that is waited for.
template <class Ready>
bool ready_soon(bool spin, const Ready& ready) {
  if (ready()) return true;
  if (spin) {
    const auto end = std::chrono::steady_clock::now() + kSpin;
    do {
      for (int i = 0; i < kPausesPerLook; ++i) {
        cpu_relax();
        if (ready()) return true;
      }
    } while (std::chrono::steady_clock::now() < end);
  }
  for (int i = 0; i < kYields; ++i) {
    std::this_thread::yield();
    if (ready()) return true;
  }
  return false;
}

thread_local bool inside_pool = false;
std::atomic<ThreadPool*> replacement{nullptr};

}  // namespace

struct ThreadPool::Impl {
  // The job in flight; written by the caller before `generation` is raised, and not before every
  // share of the job before it was done. Only a thread that has claimed a share may read it.
  RangeFn fn = nullptr;
  void* context = nullptr;
  int64_t count = 0, per_thread = 0;

  /// The last generation whose share `index` was claimed. A claim raises it by one from the
  /// generation before, so each share of a job is claimed once, by its worker or by the caller.
  struct alignas(64) Claim {
    std::atomic<uint64_t> generation{0};
    bool take(uint64_t job) {
      uint64_t before = job - 1;
      return generation.compare_exchange_strong(before, job);
    }
  };
  std::vector<Claim> claims;  // one per worker thread; [0] unused

  std::atomic<uint64_t> generation{0};
  std::atomic<int> pending{0};
  std::atomic<int> sleepers{0};
  std::atomic<bool> caller_sleeps{false};
  std::atomic<bool> stop{false};
  std::mutex mutex;  // guards sleeping on `wake` and `done`, and `failure`
  std::condition_variable wake, done;
  std::exception_ptr failure;
  std::mutex caller;  // one parallel_for at a time
  std::vector<std::thread> threads;
  int num_threads = 1;
  bool spin = true;

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
    const auto ready = [&] { return generation.load() != seen || stop.load(); };
    while (true) {
      if (!ready_soon(spin, ready)) {
        std::unique_lock lock(mutex);
        sleepers.fetch_add(1);
        wake.wait(lock, ready);
        sleepers.fetch_sub(1);
      }
      if (stop.load()) return;
      seen = generation.load();
      if (!claims[static_cast<size_t>(index)].take(seen)) continue;
      work(index);
      // The caller says that it sleeps before it looks at `pending` again, so one of the two sees
      // the other.
      if (pending.fetch_sub(1) == 1 && caller_sleeps.load()) {
        const std::lock_guard lock(mutex);
        done.notify_one();
      }
    }
  }

  /// Runs the shares of job `job` whose threads have not begun them.
  void take_over(uint64_t job) {
    for (int i = num_threads - 1; i > 0; --i) {
      if (!claims[static_cast<size_t>(i)].take(job)) continue;
      work(i);
      pending.fetch_sub(1);
    }
  }

  void wait_for_workers() {
    const auto ready = [&] { return pending.load() == 0; };
    if (ready_soon(spin, ready)) return;
    std::unique_lock lock(mutex);
    caller_sleeps.store(true);
    done.wait(lock, ready);
    caller_sleeps.store(false);
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
  impl_->spin = num_threads <= usable_processors();
  impl_->claims = std::vector<Impl::Claim>(static_cast<size_t>(num_threads));
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
  p.pending.store(p.num_threads - 1);
  const uint64_t job = p.generation.fetch_add(1) + 1;
  if (p.sleepers.load() > 0) {
    {
      const std::lock_guard lock(p.mutex);
    }
    p.wake.notify_all();
  }
  inside_pool = true;
  p.work(0);
  p.take_over(job);
  inside_pool = false;
  p.wait_for_workers();
  if (p.failure) std::rethrow_exception(p.failure);
}

ThreadPool& ThreadPool::shared() {
  if (ThreadPool* other = replacement.load()) return *other;
  static ThreadPool pool;
  return pool;
}

ThreadPool* ThreadPool::replace_shared(ThreadPool* pool) { return replacement.exchange(pool); }

}  // namespace mlxcel
