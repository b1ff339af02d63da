#include "workloads/draw.hpp"
#include "workloads/kinds.hpp"

namespace nearkv::traces {
namespace {

class Rollouts final : public Workload {
 public:
  explicit Rollouts(const WorkloadConfig& config) : config_(config), draw_(config.seed) {}

  [[nodiscard]] std::optional<Arrival> next() override {
    constexpr double kSampleSpread = 0.2;
    if (number_ == config_.requests * config_.samples) return std::nullopt;
    const std::uint64_t group = number_ / config_.samples;
    if (number_ % config_.samples == 0) {
      const double sigma = config_.lognormal_sigma;
      prompt_tokens_ = draw_.tokens(config_.prompt_tokens, config_.prompt_spread, sigma);
      scale_tokens_ = draw_.tokens(config_.output_tokens, config_.output_spread, sigma);
    }
    scheduler::Request request{
        .tag = number_++,
        .prompt_tokens = prompt_tokens_,
        .most_output_tokens = draw_.tokens(scale_tokens_, Spread::kLognormal, kSampleSpread),
        .group = static_cast<std::uint32_t>(group)};
    name_blocks(1 + group, prompt_tokens_, config_.block_tokens, &request.block_hashes);
    return Arrival{.at_s = 0, .request = std::move(request)};
  }

 private:
  WorkloadConfig config_;
  Draw draw_;
  std::uint64_t number_ = 0;
  std::uint32_t prompt_tokens_ = 1;
  std::uint32_t scale_tokens_ = 1;
};

}  // namespace

std::unique_ptr<Workload> make_rollouts(const WorkloadConfig& config) {
  return std::make_unique<Rollouts>(config);
}

}  // namespace nearkv::traces
