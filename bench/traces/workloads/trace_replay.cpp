#include "round_up.hpp"
#include "trace.hpp"
#include "workloads/draw.hpp"
#include "workloads/kinds.hpp"

namespace nearkv::traces {
namespace {

class TraceReplay final : public Workload {
 public:
  TraceReplay(const WorkloadConfig& config, std::vector<replay::Trace> traces)
      : config_(config), traces_(std::move(traces)) {}

  [[nodiscard]] std::optional<Arrival> next() override {
    while (trace_ < traces_.size() && index_ == traces_[trace_].requests()) {
      begin_ms_ += static_cast<double>(traces_[trace_].arrivals_ms.back()) + 1;
      ++trace_;
      index_ = 0;
    }
    if (trace_ == traces_.size() || number_ == config_.requests) return std::nullopt;
    const replay::Trace& trace = traces_[trace_];
    const auto at_ms = static_cast<double>(trace.arrivals_ms[index_]);
    const Seconds at_s = (begin_ms_ + at_ms) / 1000 / config_.trace_speed;
    const std::size_t index = index_++;
    scheduler::Request request{.tag = number_++,
                               .prompt_tokens = std::max(trace.input_tokens[index], 1U),
                               .most_output_tokens = std::max(trace.output_tokens[index], 1U)};
    const std::uint64_t pieces = config_.trace_block_tokens / config_.block_tokens;
    const std::uint64_t full_blocks = request.prompt_tokens / config_.block_tokens;
    for (const std::uint32_t block : trace.request(index)) {
      for (std::uint64_t piece = 0; piece < pieces; ++piece) {
        if (request.block_hashes.size() == full_blocks) break;
        request.block_hashes.push_back(block_hash(trace_ << 48 | block, piece));
      }
    }
    return Arrival{.at_s = at_s, .request = std::move(request)};
  }

 private:
  WorkloadConfig config_;
  std::vector<replay::Trace> traces_;
  std::size_t trace_ = 0;
  std::size_t index_ = 0;
  std::uint64_t number_ = 0;
  double begin_ms_ = 0;
};

/// Whether each request has as many blocks as its tokens fill, where the last one may be part of
/// one and have no id: else the blocks are of another size.
bool has_blocks_of(std::uint64_t block_tokens, const replay::Trace& trace, std::string* reason) {
  for (std::size_t i = 0; i < trace.requests(); ++i) {
    const std::uint64_t tokens = trace.input_tokens[i];
    const std::uint64_t blocks = trace.request(i).size();
    if (blocks == tokens / block_tokens || blocks == round_up(tokens, block_tokens) / block_tokens)
      continue;
    *reason = "request " + std::to_string(i + 1) + " has " + std::to_string(blocks) +
              " hash_ids for " + std::to_string(tokens) +
              " tokens, which is no trace of blocks of " + std::to_string(block_tokens) +
              "; say its size by workload.trace_block_tokens";
    return false;
  }
  return true;
}

Status read_one(const std::string& path, std::uint64_t block_tokens, replay::Trace* trace,
                std::string* reason) {
  if (const Status status = load_trace(path, replay::TraceNeeds::kLengths, trace, reason);
      status != Status::kOk) {
    return status;
  }
  const auto later = std::ranges::is_sorted_until(trace->arrivals_ms);
  if (later != trace->arrivals_ms.end()) {
    const auto request = later - trace->arrivals_ms.begin() + 1;
    *reason = path + ": request " + std::to_string(request) +
              " comes before the one above it: sort the lines by timestamp";
    return Status::kBadArgument;
  }
  if (has_blocks_of(block_tokens, *trace, reason)) return Status::kOk;
  *reason = path + ": " + *reason;
  return Status::kBadArgument;
}

}  // namespace

Status make_trace(const WorkloadConfig& config, std::unique_ptr<Workload>* workload,
                  std::string* reason) {
  if (config.traces.empty()) {
    *reason = "a workload of kind trace needs a file: --trace FILE";
    return Status::kBadArgument;
  }
  if (config.trace_block_tokens % config.block_tokens != 0) {
    *reason = "engine.block_tokens is " + std::to_string(config.block_tokens) +
              "; with a trace it must divide the trace's blocks of " +
              std::to_string(config.trace_block_tokens) + " tokens";
    return Status::kBadArgument;
  }
  std::vector<replay::Trace> traces(config.traces.size());
  for (std::size_t i = 0; i < traces.size(); ++i) {
    if (const Status status =
            read_one(config.traces[i], config.trace_block_tokens, &traces[i], reason);
        status != Status::kOk) {
      return status;
    }
  }
  *workload = std::make_unique<TraceReplay>(config, std::move(traces));
  return Status::kOk;
}

}  // namespace nearkv::traces
