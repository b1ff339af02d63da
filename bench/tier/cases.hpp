// What the bench measures, one function per source. All throw std::runtime_error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "rows.hpp"

namespace nearkv::tier_bench {

struct CopyOptions {
  std::size_t working_set_bytes = std::size_t{512} << 20;  ///< Of sources, and of targets.
  std::vector<std::size_t> object_bytes;
  std::size_t batch = 16;  ///< Objects of a job.
  unsigned rounds = 9;
};

/// set and get in anonymous memory, each byte verified, beside memcpy of the same bytes in turns.
void compare_copies(const CopyOptions& options, Rows* rows);

struct LookupOptions {
  std::uint64_t objects = 1'000'000;  ///< Scaled down, with a message, where there is no room.
  std::uint32_t object_bytes = 4096;
  std::string folder;  ///< Of the store's file; empty: /dev/shm, or else the temporary folder.
  unsigned rounds = 5;
  std::uint64_t seed = 1;  ///< Of which chains there are.
};

/// exists, the longest prefix and a restart of one store that is full of small objects.
void measure_lookups(const LookupOptions& options, Rows* rows);

struct TraceOptions {
  std::vector<std::string> traces;
  std::uint32_t scale = 64;  ///< Objects have 1/scale of the bytes of a block of 512 tokens.
  unsigned thin = 32;        ///< One conversation of so many.
  unsigned hours = 24;
  double day_speed = 2000;          ///< Simulated hours pass at most so many times as fast.
  std::uint64_t most_requests = 0;  ///< Of each trace; 0: all.
  double speed = 50;
  std::vector<std::string> policies{"chain_lhd"};
  double capacity = 0.05;  ///< Of the bytes of all unique blocks.
  std::uint64_t block_bytes = 256 << 10;
};

/// How much of the slabs that objects hold is lost, over a simulated time of the traces' requests
/// by tenants with models of their own.
void measure_fragmentation(const TraceOptions& options, Rows* rows);

/// Requests at `speed` times their pace against a store: do they fall behind?
void measure_paced_replay(const TraceOptions& options, Rows* rows);

struct TurnOptions {
  std::size_t object_bytes = 1 << 20;
  std::size_t objects = 256;
  std::size_t batch = 16;
  std::string path;  ///< Of a file to map; empty: anonymous memory.
};

/// Does what lines on standard input ask for, and says on standard output how long it took:
/// see bench/peers/README.md.
void take_turns(const TurnOptions& options);

}  // namespace nearkv::tier_bench
