#include "workloads/draw.hpp"
#include "workloads/kinds.hpp"

namespace nearkv::traces {
namespace {

class Rag final : public Workload {
 public:
  explicit Rag(const WorkloadConfig& config) : config_(config), draw_(config.seed) {
    double sum = 0;
    for (std::uint64_t rank = 1; rank <= config.documents; ++rank) {
      sum += std::pow(static_cast<double>(rank), -config.zipf_exponent);
      up_to_.push_back(sum);
    }
  }

  [[nodiscard]] std::optional<Arrival> next() override {
    if (number_ == config_.requests) return std::nullopt;
    at_s_ += draw_.exponential(1 / config_.rate_per_s);
    const double sigma = config_.lognormal_sigma;
    scheduler::Request request{.tag = number_};
    double tokens = 0;
    std::uint64_t what = 0;
    for (std::uint64_t i = 0; i < config_.documents_per_prompt; ++i) {
      tokens += config_.document_tokens;
      // Equal only behind equal documents.
      what = block_hash(what, document());
      name_blocks(what, tokens, config_.block_tokens, &request.block_hashes);
    }
    tokens += draw_.tokens(config_.prompt_tokens, config_.prompt_spread, sigma);
    request.prompt_tokens = static_cast<std::uint32_t>(tokens);
    request.most_output_tokens = draw_.tokens(config_.output_tokens, config_.output_spread, sigma);
    if (config_.names_all_blocks) {
      name_blocks(~number_, tokens, config_.block_tokens, &request.block_hashes);
    }
    ++number_;
    return Arrival{.at_s = at_s_, .request = std::move(request)};
  }

 private:
  std::uint64_t document() {
    const auto found = std::ranges::lower_bound(up_to_, draw_.uniform() * up_to_.back());
    return static_cast<std::uint64_t>(found - up_to_.begin());
  }

  WorkloadConfig config_;
  Draw draw_;
  std::vector<double> up_to_;  ///< Fame of this document and of those before it.
  std::uint64_t number_ = 0;
  Seconds at_s_ = 0;
};

}  // namespace

std::unique_ptr<Workload> make_rag(const WorkloadConfig& config) {
  return std::make_unique<Rag>(config);
}

}  // namespace nearkv::traces
