// One independent request: what poisson and closed have in common.
#pragma once

#include "workloads/draw.hpp"

namespace nearkv::traces {

class Chat {
 public:
  explicit Chat(const WorkloadConfig& config) : config_(config), draw_(config.seed) {}

  [[nodiscard]] Draw& draw() { return draw_; }

  scheduler::Request request(std::uint64_t number) {
    const double sigma = config_.lognormal_sigma;
    scheduler::Request request{
        .tag = number,
        .prompt_tokens = draw_.tokens(config_.prompt_tokens, config_.prompt_spread, sigma),
        .most_output_tokens = draw_.tokens(config_.output_tokens, config_.output_spread, sigma)};
    const double shared = std::min<double>(config_.prefix_tokens, request.prompt_tokens);
    name_blocks(1 + number % config_.prefixes, shared, config_.block_tokens, &request.block_hashes);
    if (config_.names_all_blocks) {
      name_blocks(~number, request.prompt_tokens, config_.block_tokens, &request.block_hashes);
    }
    return request;
  }

 private:
  WorkloadConfig config_;
  Draw draw_;
};

}  // namespace nearkv::traces
