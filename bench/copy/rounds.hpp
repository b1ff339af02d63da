// Timed runs in turns, and the table and JSON they end in.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace nearkv::bench {

/// One way to do the same work.
struct Contender {
  std::string name;
  std::function<void()> run;
};

/// What was measured beside what: the first contender is the peer of all.
struct Comparison {
  std::string name;       ///< Words joined by slashes, the group first.
  std::size_t bytes = 0;  ///< Moved by one run of any contender.
  nlohmann::json extra;   ///< Sizes and threads.
};

/// Runs contenders in turns and keeps medians.
class Report {
 public:
  explicit Report(int rounds) : rounds_(rounds) {}

  /// Each contender once unmeasured, then `rounds` times in turns; prints one line for each: GB/s
  /// (median, least, most) and the median over rounds of its rate by the peer's in that round.
  void compare(const Comparison& comparison, const std::vector<Contender>& contenders);

  [[nodiscard]] const nlohmann::json& results() const { return results_; }

 private:
  int rounds_;
  nlohmann::json results_ = nlohmann::json::array();
};

/// Writes results as JSON; without a path, nothing. The program's exit status.
[[nodiscard]] int save_results(const std::string& path, const nlohmann::json& results);

/// Calls body(thread) on `threads` threads at once and waits for all.
void on_threads(unsigned threads, const std::function<void(unsigned)>& body);

}  // namespace nearkv::bench
