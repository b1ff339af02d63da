// The two stores that are compared: one in this process, one behind a daemon in another.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "nearkv/object_store.hpp"

namespace nearkv::bench {

struct Options {
  std::size_t working_set_bytes = std::size_t{256} << 20;  ///< Objects; no cache holds them.
  std::size_t window_bytes = std::size_t{64} << 20;        ///< Of targets and sources.
  int rounds = 9;
  int calls = 4000;  ///< Of which latencies are taken, in one round.
};

/// Gives this process and the daemon's child cores of their own while it lives: this one the first
/// that it may use, the child the others. Of one core both have the same.
class OwnCores {
 public:
  explicit OwnCores(pid_t child);
  OwnCores(const OwnCores&) = delete;
  OwnCores& operator=(const OwnCores&) = delete;
  ~OwnCores();

 private:
  pid_t child_;
  cpu_set_t all_{};
};

/// A daemon in a child process, over memory of its own; gone with its owner.
class ChildDaemon {
 public:
  /// Call it before this process has threads.
  explicit ChildDaemon(std::uint64_t pool_bytes);
  ChildDaemon(const ChildDaemon&) = delete;
  ChildDaemon& operator=(const ChildDaemon&) = delete;
  ~ChildDaemon();

  [[nodiscard]] pid_t process() const { return process_; }
  [[nodiscard]] std::string socket() const { return (folder_ / "socket").string(); }

 private:
  std::filesystem::path folder_;
  pid_t process_ = -1;
};

/// A store with memory that its jobs reach directly. Throws std::runtime_error.
struct Contestant {
  std::unique_ptr<ObjectStore> store;
  std::uint32_t space = 0;
  std::span<std::byte> memory;

  void set_up(std::size_t memory_bytes);
};

Contestant local_contestant(std::uint64_t pool_bytes, std::size_t memory_bytes);
Contestant daemon_contestant(const std::string& socket, std::size_t memory_bytes);

/// 32 bytes that follow from a number.
std::vector<std::byte> key_of(std::uint64_t number);

/// Runs a job; throws std::runtime_error unless all of it went well.
void run(Contestant* contestant, const Job& job);

}  // namespace nearkv::bench
