// One parallel region: tasks taken from a counter by the caller and by helper threads, with no barrier
// before the end. Threads that work at the same time get tasks that are far apart: neighbours lie in
// the same pages of memory, which both would have to clear at their first touch.
//
// The helpers are those of the caller's OpenMP, if there is one. After every region of torch they
// look out for the next one, on all cores, for milliseconds; others would have to share the cores
// with them. Where there is none, and in a forked process, whose OpenMP would wait for threads that
// stayed with the parent, they are threads of our own. These are never waited for before they begin.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace anyseq {

struct Region {
  const std::function<void(int64_t)>& task;
  const int64_t tasks, lanes;       // tasks stand in so many lanes, of which one after the other gives
  int64_t helpers_wanted;           // guarded by the pool's mutex, as is the next
  int64_t helpers_inside = 0;
  std::atomic<int64_t> next{0};
  std::atomic<bool> failed{false};  // a task ran out of memory: the others are left alone

  void work() {
    const int64_t length = (tasks + lanes - 1) / lanes;
    for (int64_t turn; !failed && (turn = next.fetch_add(1)) < lanes * length;) {
      const int64_t number = turn % lanes * length + turn / lanes;
      if (number >= tasks) continue;
      try {
        task(number);
      } catch (const std::exception&) {
        failed = true;
      }
    }
  }
};

// GOMP_parallel: run the function on so many threads.
using Parallel = void (*)(void (*)(void*), void*, unsigned, unsigned);

class Pool {
 public:
  // Run all tasks on at most `threads` threads, this one among them; false if memory ran out.
  // They stand in at most so many lanes.
  bool run(int64_t tasks, int64_t threads, int64_t most_lanes, Parallel openmp,
           const std::function<void(int64_t)>& task) {
    const int64_t wanted = std::max<int64_t>(1, std::min(threads, tasks));
    Region region{task, tasks, std::max<int64_t>(1, std::min(wanted, most_lanes)), wanted - 1};
    if (region.helpers_wanted <= 0) {
      region.work();
      return !region.failed;
    }
    if (openmp && !forked_) {
      openmp([](void* one) { static_cast<Region*>(one)->work(); }, &region,
             unsigned(region.helpers_wanted + 1), 0);
      return !region.failed;
    }
    {
      std::lock_guard<std::mutex> hold(mutex_);
      hire(region.helpers_wanted);
      open_.push_back(&region);
    }
    wake_.notify_all();
    region.work();
    std::unique_lock<std::mutex> hold(mutex_);
    close(&region);
    left_.wait(hold, [&] { return region.helpers_inside == 0; });
    return !region.failed;
  }

  explicit Pool(bool forked) : forked_(forked) {}

 private:
  void hire(int64_t wanted) {
    try {
      for (; helpers_ < wanted; helpers_++) std::thread(&Pool::help, this).detach();
    } catch (const std::exception&) {  // no more threads to be had: those there are will do
    }
  }

  void help() {
    std::unique_lock<std::mutex> hold(mutex_);
    for (;;) {
      wake_.wait(hold, [&] { return !open_.empty(); });
      Region* region = open_.front();
      region->helpers_inside++;
      if (--region->helpers_wanted == 0) close(region);
      hold.unlock();
      region->work();
      hold.lock();
      if (--region->helpers_inside == 0) left_.notify_all();
    }
  }

  void close(Region* region) {
    for (auto one = open_.begin(); one != open_.end(); ++one)
      if (*one == region) {
        open_.erase(one);
        return;
      }
  }

  const bool forked_;
  std::mutex mutex_;
  std::condition_variable wake_, left_;
  std::deque<Region*> open_;  // regions that may still be helped
  int64_t helpers_ = 0;
};

// Helpers sleep between calls and end with the process, so the pool is never destroyed. A forked
// child has none of them: it begins with a pool of its own.
inline std::atomic<Pool*> the_pool{nullptr};

inline Pool& pool() {
  static const bool prepared = [] {
    the_pool = new Pool(false);
    pthread_atfork(nullptr, nullptr, [] { the_pool = new Pool(true); });
    return true;
  }();
  (void)prepared;
  return *the_pool;
}

// When the library is loaded: a fork may come before the first call.
[[maybe_unused]] static Pool& prepared_pool = pool();

}  // namespace anyseq
