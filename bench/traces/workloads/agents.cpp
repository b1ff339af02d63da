#include "workloads/draw.hpp"
#include "workloads/kinds.hpp"

namespace nearkv::traces {
namespace {

class Agents final : public Workload {
 public:
  explicit Agents(const WorkloadConfig& config) : config_(config), draw_(config.seed) {}

  [[nodiscard]] std::optional<Arrival> next() override {
    if (begun_ == config_.users || number_ == config_.requests) return std::nullopt;
    // Users begin one after the other within a think time.
    const double share = static_cast<double>(begun_) / static_cast<double>(config_.users);
    return step(begun_++, 0, share * config_.think_s);
  }

  [[nodiscard]] std::optional<Arrival> follow_up(std::uint64_t tag, Seconds now_s) override {
    if (number_ == config_.requests) return std::nullopt;
    const std::uint64_t user = tag % config_.users;
    const std::uint64_t before = tag / config_.users % config_.agents;
    return step(user, (before + 1) % config_.agents, now_s + config_.think_s);
  }

  void describe(scheduler::AgentStepGraph* graph) const override {
    using Join = scheduler::AgentStepGraph::Join;
    for (std::uint64_t agent = 0; agent < config_.agents; ++agent) {
      std::vector<scheduler::BlockHash> prompt;
      name_blocks(fixed(agent), config_.fixed_tokens, config_.block_tokens, &prompt);
      graph->set_fixed_prompt(graph->add_agent(Join::kAny), prompt);
    }
    const auto agents = static_cast<std::uint32_t>(config_.agents);
    for (std::uint32_t agent = 0; agent < agents; ++agent) {
      graph->add_edge(agent, (agent + 1) % agents);
    }
  }

 private:
  [[nodiscard]] static std::uint64_t fixed(std::uint64_t agent) { return 1 + agent; }

  /// The tag tells the user and the agent.
  Arrival step(std::uint64_t user, std::uint64_t agent, Seconds at_s) {
    const double sigma = config_.lognormal_sigma;
    const std::uint32_t own = draw_.tokens(config_.prompt_tokens, config_.prompt_spread, sigma);
    scheduler::Request request{
        .tag = agent * config_.users + user,
        .prompt_tokens = static_cast<std::uint32_t>(config_.fixed_tokens) + own,
        .most_output_tokens = draw_.tokens(config_.output_tokens, config_.output_spread, sigma),
        .agent = static_cast<std::uint32_t>(agent)};
    name_blocks(fixed(agent), config_.fixed_tokens, config_.block_tokens, &request.block_hashes);
    name_blocks(~number_++, request.prompt_tokens, config_.block_tokens, &request.block_hashes);
    return {.at_s = at_s, .request = std::move(request)};
  }

  WorkloadConfig config_;
  Draw draw_;
  std::uint64_t begun_ = 0;
  std::uint64_t number_ = 0;
};

}  // namespace

std::unique_ptr<Workload> make_agents(const WorkloadConfig& config) {
  return std::make_unique<Agents>(config);
}

}  // namespace nearkv::traces
