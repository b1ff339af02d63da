// What the index bench measures, and how.
#pragma once

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace nearkv::bench {

struct Options {
  std::size_t keys = 10'000'000;
  unsigned threads = 2;
  unsigned repeats = 5;
  std::uint64_t seed = 1;
  std::string trace;  ///< A file of requests with hash_ids; empty: made-up chains alone.
};

/// One figure, beside a peer's in the same unit; the keys are those of a result in bench/README.md.
struct Figure {
  std::string name;
  std::string unit;
  double value = 0;
  std::string peer;
  double peer_value = 0;
};

class Report {
 public:
  /// Prints the figure.
  void add(const Figure& figure);
  /// Writes all of them. False: the file cannot be written.
  [[nodiscard]] bool write_json(const std::string& path) const;

 private:
  std::vector<Figure> figures_;
};

void bench_flat(const Options& options, Report* report);
void bench_extents(const Options& options, Report* report);
void bench_prefix(const Options& options, Report* report);

template <typename Work>
double seconds(Work work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// The processor time of the calling thread, or of the process.
inline double core_seconds(clockid_t clock = CLOCK_THREAD_CPUTIME_ID) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Of the calling thread's processor time, or the process's, for work that waits for nobody: other
/// programs on the machine take no part of it.
template <typename Work>
double cpu_seconds(Work work, clockid_t clock = CLOCK_THREAD_CPUTIME_ID) {
  const double begin = core_seconds(clock);
  work();
  return core_seconds(clock) - begin;
}

inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Heap bytes in use.
std::size_t heap_bytes();

/// Times of single calls.
class Latencies {
 public:
  template <typename Work>
  void time(Work work) {
    add(1e9 * seconds(work));
  }
  void add(double ns) { ns_.push_back(ns); }
  [[nodiscard]] double percentile(double percent) {
    const auto at = static_cast<std::size_t>(percent / 100 * static_cast<double>(ns_.size() - 1));
    std::ranges::nth_element(ns_, ns_.begin() + static_cast<std::ptrdiff_t>(at));
    return ns_[at];
  }

 private:
  std::vector<double> ns_;
};

/// Keeps what a loop computes from being optimised away.
template <typename Value>
void keep(const Value& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

}  // namespace nearkv::bench
