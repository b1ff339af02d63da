// Threads that share out work: a software device's own, each pinned to one core near the memory it
// reads, or those that somebody lends.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace nearkv {

/// A team that shares out one piece of work at a time. The caller of for_each() is member 0.
///
/// Thread safety: one caller of for_each() at a time.
class Workers {
 public:
  struct Options {
    unsigned threads = 0;  ///< Members, the caller included; 0: one for each core.
    int node = -1;         ///< Of the cores, as process_cores() has it.
    /// The team has no threads of its own: others help(). It begins with no room for them.
    bool are_lent = false;
  };

  /// Throws std::system_error if the system refuses a thread.
  explicit Workers(const Options& options);
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers();

  [[nodiscard]] unsigned size() const { return size_.load(std::memory_order_relaxed); }

  /// Room for so many members, the caller of for_each() included. Of lent threads, and not amid
  /// for_each().
  void admit(unsigned members) { size_.store(members, std::memory_order_relaxed); }

  /// A lent thread takes part in the for_each() at hand, as long as there is work; from any thread
  /// at any time. False at once if there is no for_each(), or no room for another member.
  bool help();

  /// Those that members are pinned to, in turn.
  [[nodiscard]] const std::vector<int>& cores() const { return cores_; }

  /// Pins the calling thread to member 0's core.
  void pin_caller() const;

  /// Splits [0, count) into pieces of `grain` that members take as they become free.
  /// body(member, begin, end); a count of one piece runs on the caller alone. A member that has not
  /// woken up when the work is done is not waited for. What a member throws, the caller rethrows;
  /// of several, the first.
  void for_each(
      std::size_t count, std::size_t grain,
      const std::function<void(unsigned member, std::size_t begin, std::size_t end)>& body);

 private:
  static constexpr std::uint32_t kClosed = std::uint32_t{1} << 31;  ///< Nobody may enter.

  void end();
  void serve(unsigned member);
  void attempt(unsigned member);
  void share(const std::function<void(unsigned)>& body);
  void wake();
  bool enter();
  void leave();

  std::vector<int> cores_;
  std::vector<std::thread> threads_;
  std::atomic<unsigned> size_{1};
  const std::function<void(unsigned)>* body_ = nullptr;
  std::atomic<std::uint32_t> round_{0};
  std::atomic<std::uint32_t> inside_{kClosed};  ///< Members besides the caller, and kClosed.
  std::atomic<unsigned> next_helper_{0};
  std::atomic<bool> stop_{false};
  std::mutex failure_mutex_;
  std::exception_ptr failure_;
};

/// Waits until `value` differs from `seen`: spins for some tens of microseconds, since device work
/// comes in bursts, then sleeps. Returns the new value.
std::uint32_t await_change(const std::atomic<std::uint32_t>& value, std::uint32_t seen);

}  // namespace nearkv
