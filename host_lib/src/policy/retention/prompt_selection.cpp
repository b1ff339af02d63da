// prompt_selection: what the end of the prompt attends to, chosen once.
//
// The last queries of a prompt ask for what the answer will need (SnapKV: Li et al., NeurIPS 2024).
// Their attention is summed over a window and spread to neighbours, so that what is kept is phrases
// rather than single tokens. Generated tokens come first, the newest before all. It costs nothing
// while generating, and does not learn that the subject has changed.
#include "policy/retention/observation.hpp"
#include "policy/retention/policies.hpp"
#include "policy/retention/pooled.hpp"

namespace nearkv {
namespace {

constexpr ParameterTable<2> kParameters = {
    {{"window", 32, 1, 1 << 20, "last queries of the prompt that choose"},
     {"pool", 7, 1, 1023, "tokens among which the largest sum counts for each"}}};

class PromptSelection final : public RetentionPolicy {
 public:
  PromptSelection(float window, float pool)
      : RetentionPolicy("prompt_selection", {window, pool}, {}, 1, 2),
        window_(window),
        pool_(pool) {}

 private:
  enum Scalar : std::uint8_t { kWindowBegin, kPromptTokens };

  /// What its parent's prompt had behind the cut is not this one's.
  void on_cut() override {
    const auto left = static_cast<float>(tokens());
    scalar(kPromptTokens) = std::min(scalar(kPromptTokens), left);
    if (scalar(kWindowBegin) >= left) scalar(kWindowBegin) = -window_;
  }

  void on_observe(const Observation& seen) override {
    if (!seen.is_prompt) return;
    const auto position = static_cast<float>(seen.position);
    const auto sums = column(0);
    // Of a prompt that comes in chunks, each with its last queries, the last window counts.
    if (position >= scalar(kWindowBegin) + window_) {
      std::ranges::fill(sums, 0.0F);
      scalar(kWindowBegin) = position;
    }
    scalar(kPromptTokens) = std::max(scalar(kPromptTokens), position + 1);
    const float share = 1.0F / (static_cast<float>(seen.rows) * window_);
    each_named(seen, [&](std::uint32_t id, float mass, std::size_t) { sums[id] += share * mass; });
  }

  void on_worth(std::span<float> worth) const override {
    const float tokens = std::clamp(scalar(kPromptTokens), 0.0F, static_cast<float>(worth.size()));
    const auto known = std::min(static_cast<std::size_t>(tokens), worth.size());
    pool_largest(column(0).first(known), static_cast<std::size_t>(pool_), worth);
    for (std::size_t i = known; i < worth.size(); ++i) worth[i] = 2 + static_cast<float>(i);
  }

  [[nodiscard]] std::unique_ptr<RetentionPolicy> empty() const override {
    return std::make_unique<PromptSelection>(window_, pool_);
  }

  float window_;
  float pool_;
};

std::unique_ptr<RetentionPolicy> make(const Parameters& parameters) {
  return std::make_unique<PromptSelection>(parameters.at("window"), parameters.at("pool"));
}

}  // namespace

NamedRetentionPolicy prompt_selection() { return {"prompt_selection", kParameters, make}; }

}  // namespace nearkv
