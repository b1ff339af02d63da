#include "device/workers.hpp"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "device/cores.hpp"
#include "device/pause.hpp"

namespace nearkv {
namespace {

void pin_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  ::sched_setaffinity(0, sizeof(set), &set);  // Best effort: a refusal costs speed, not results.
}

}  // namespace

std::uint32_t await_change(const std::atomic<std::uint32_t>& value, std::uint32_t seen) {
  constexpr int kSpins = 2000;
  for (int spin = 0; spin < kSpins; ++spin) {
    if (const std::uint32_t now = value.load(std::memory_order_acquire); now != seen) return now;
    pause_core();
  }
  value.wait(seen, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

Workers::Workers(const Options& options) : cores_(process_cores(options.node)) {
  if (options.are_lent) return;
  const unsigned members =
      options.threads != 0 ? options.threads : static_cast<unsigned>(cores_.size());
  size_ = std::max(members, 1U);
  try {
    for (unsigned member = 1; member < size(); ++member) {
      threads_.emplace_back([this, member] { serve(member); });
    }
  } catch (...) {
    end();  // Those that have started.
    throw;
  }
}

Workers::~Workers() { end(); }

void Workers::end() {
  stop_.store(true, std::memory_order_relaxed);
  wake();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::pin_caller() const { pin_to(cores_.front()); }

void Workers::serve(unsigned member) {
  pin_to(cores_[member % cores_.size()]);
  std::uint32_t seen = 0;
  while (true) {
    seen = await_change(round_, seen);
    if (stop_.load(std::memory_order_relaxed)) return;
    if (!enter()) continue;
    attempt(member);
    leave();
  }
}

void Workers::attempt(unsigned member) {
  try {
    (*body_)(member);
  } catch (...) {
    const std::scoped_lock lock(failure_mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
}

/// Joins the work at hand, unless it is done already.
bool Workers::enter() {
  std::uint32_t inside = inside_.load(std::memory_order_relaxed);
  while ((inside & kClosed) == 0) {
    if (inside_.compare_exchange_weak(inside, inside + 1, std::memory_order_acquire,
                                      std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

bool Workers::help() {
  if (next_helper_.load(std::memory_order_relaxed) >= size() || !enter()) return false;
  const unsigned member = next_helper_.fetch_add(1, std::memory_order_relaxed);
  const bool has_room = member < size();
  if (has_room) attempt(member);
  leave();
  return has_room;
}

void Workers::leave() {
  if (inside_.fetch_sub(1, std::memory_order_acq_rel) == kClosed + 1) inside_.notify_one();
}

void Workers::wake() {
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
}

void Workers::share(const std::function<void(unsigned)>& body) {
  body_ = &body;
  next_helper_.store(1, std::memory_order_relaxed);
  inside_.store(0, std::memory_order_release);
  if (!threads_.empty()) wake();
  attempt(0);
  std::uint32_t inside = inside_.fetch_or(kClosed, std::memory_order_acq_rel) | kClosed;
  while (inside != kClosed) inside = await_change(inside_, inside);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Workers::for_each(std::size_t count, std::size_t grain,
                       const std::function<void(unsigned, std::size_t, std::size_t)>& body) {
  if (count <= grain || size() == 1) {
    if (count != 0) body(0, 0, count);
    return;
  }
  std::atomic<std::size_t> next{0};
  share([&](unsigned member) {
    for (std::size_t begin = next.fetch_add(grain, std::memory_order_relaxed); begin < count;
         begin = next.fetch_add(grain, std::memory_order_relaxed)) {
      body(member, begin, std::min(begin + grain, count));
    }
  });
}

}  // namespace nearkv
