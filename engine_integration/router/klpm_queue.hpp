// In which order waiting requests are routed: k-LPM, fair among tenants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nearkv/status.hpp"

namespace nearkv::router {

/// A request that waits for a worker with room.
struct WaitingRequest {
  std::uint64_t id = 0;
  std::string tenant;
  std::uint32_t blocks = 0;  ///< Of its prompt.
};

/// k-LPM (Dexter et al., "LLM Query Scheduling with Prefix Reuse and Latency Constraints", 2025):
/// the request that has waited longest, then k - 1 times the one of which workers have most; and so
/// on. k = 1 is first come, first served; a large k is longest prefix match, under which a request
/// may wait for ever. Here no request waits for more than k times those that came before it.
///
/// Fair among tenants: the first turn is the oldest request's of the tenant to whom the fewest
/// blocks were given (VTC, Sheng et al., OSDI '24, with blocks for tokens); a tenant who comes anew
/// starts with as many as the least served of those who wait. With one tenant that is the paper's
/// algorithm.
///
/// Thread safety: one thread at a time.
class KlpmQueue {
 public:
  /// How many leading blocks of a waiting request its best worker with room has, now. Nothing: no
  /// worker that it may go to has room, and its turn is another's.
  using Measure = std::function<std::optional<std::uint32_t>(const WaitingRequest&)>;

  /// `k` from 1; at most `most` requests wait.
  KlpmQueue(std::uint32_t k, std::size_t most) : k_(k == 0 ? 1 : k), most_(most) {}

  /// kPoolFull: there are too many. kExists: one of that id waits.
  Status push(WaitingRequest request);

  /// The next one. kNotFound: none waits that can go. On k - 1 of k turns it measures all of them.
  Status pop(const Measure& measure, WaitingRequest* request);

  /// Its client has gone. kNotFound.
  Status erase(std::uint64_t id);

  [[nodiscard]] std::size_t size() const { return waiting_.size(); }

 private:
  [[nodiscard]] std::optional<std::size_t> fairest(const Measure& measure) const;
  [[nodiscard]] std::optional<std::size_t> longest(const Measure& measure) const;
  void lift(const std::string& tenant);

  std::uint32_t k_;
  std::size_t most_;
  std::uint32_t turn_ = 0;
  std::vector<WaitingRequest> waiting_;         ///< In the order of their arrival.
  std::map<std::string, std::uint64_t> given_;  ///< Blocks, to each tenant who waits or waited.
};

}  // namespace nearkv::router
