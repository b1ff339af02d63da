// What is asked of a cluster: arrivals, from a trace or made up.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent_step_graph.hpp"
#include "nearkv/status.hpp"
#include "request.hpp"

namespace nearkv::traces {

using scheduler::Seconds;

/// A request and when it comes. Its tag is the workload's own.
struct Arrival {
  Seconds at_s = 0;
  scheduler::Request request;
};

/// A stream of requests, the same for the same seed. Thread safety: one thread at a time.
class Workload {
 public:
  Workload() = default;
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;
  virtual ~Workload() = default;

  /// Those that come of themselves, in the order of time; none: no more.
  [[nodiscard]] virtual std::optional<Arrival> next() = 0;
  /// What comes because a request of this tag has ended.
  [[nodiscard]] virtual std::optional<Arrival> follow_up(std::uint64_t /*tag*/, Seconds /*now_s*/) {
    return std::nullopt;
  }
  /// Adds the agents whose steps the requests are.
  virtual void describe(scheduler::AgentStepGraph* /*graph*/) const {}
};

/// How lengths are spread about their mean.
enum class Spread : std::uint8_t { kConstant, kExponential, kLognormal };

/// All settings of [workload]; each kind reads some. Lengths are in tokens.
struct WorkloadConfig {
  std::string kind = "poisson";
  std::uint64_t seed = 1;
  std::uint64_t requests = 1000;
  double rate_per_s = 1;  ///< Of poisson and rag.
  double prompt_tokens = 1000;
  double output_tokens = 100;
  Spread prompt_spread = Spread::kConstant;
  Spread output_spread = Spread::kConstant;
  double lognormal_sigma = 1;      ///< Of the logarithm.
  double prefix_tokens = 0;        ///< Of poisson and closed: shared by
  std::uint64_t prefixes = 1;      ///< a part of the requests each.
  std::uint64_t users = 1;         ///< Of closed and agents.
  Seconds think_s = 0;             ///< Between an end and the user's next request.
  std::uint64_t agents = 4;        ///< Of agents: a ring of steps,
  double fixed_tokens = 1000;      ///< each with a fixed prompt of its own.
  std::uint64_t documents = 1000;  ///< Of rag: ranked by Zipf's law,
  double document_tokens = 2000;
  double zipf_exponent = 1;
  std::uint64_t documents_per_prompt = 1;
  std::uint64_t samples = 8;               ///< Of rollout: of each prompt.
  double trace_speed = 1;                  ///< Of trace: how much faster it is replayed.
  std::uint64_t trace_block_tokens = 512;  ///< Of trace: what each of its hash_ids stands for.
  std::vector<std::string> traces{};       ///< Files; given by the command line.
  std::uint64_t block_tokens = 16;         ///< The engine's.
  bool names_all_blocks = false;           ///< Blocks that nobody shares have hashes too.
};

/// Reads [workload] of a cluster's file; other tables are ignored. Errors as parse_cluster().
Status parse_workload(const std::string& text, const std::string& file, WorkloadConfig* config,
                      std::string* reason);

/// Makes the workload. kBadArgument or kIoError with a `reason` for a trace that is none.
Status make_workload(const WorkloadConfig& config, std::unique_ptr<Workload>* workload,
                     std::string* reason);

}  // namespace nearkv::traces
