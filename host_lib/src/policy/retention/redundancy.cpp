// redundancy: tokens that are important, less those that say what a newer one says too.
//
// Reasoning models repeat themselves, and attention to a repeated thought keeps all its copies
// (R-KV: Cai et al., 2025). Worth is `importance` times recent attention, as a share of the best
// token's, less the rest times the mean likeness of newer keys to this one. Likeness comes from
// sketches of keys taken when they are appended (key_sketch()), so that no key is read again;
// each is compared with the `compared` ones after it. Where R-KV spares the newest of like tokens,
// here all but the newest count as copies.
#include "policy/retention/observation.hpp"
#include "policy/retention/policies.hpp"
#include "policy/retention/pooled.hpp"

namespace nearkv {
namespace {

constexpr ParameterTable<4> kParameters = {
    {{"importance", 0.1F, 0, 1, "weight of attention; likeness has the rest"},
     {"decay", 0.875F, 0, 1, "what recent attention keeps of itself from one query to the next"},
     {"pool", 7, 1, 1023, "tokens among which the largest attention counts for each"},
     {"compared", 2048, 1, 1 << 20, "newer tokens that a key is compared with"}}};

class Redundancy final : public RetentionPolicy {
 public:
  Redundancy(float importance, float decay, float pool, float compared)
      : RetentionPolicy("redundancy", {importance, decay, pool, compared}, {.key_sketches = true},
                        2),
        importance_(importance),
        decay_(decay),
        pool_(pool),
        compared_(compared) {}

 private:
  enum Column : std::uint8_t { kAttention, kLikeness };

  void on_append(std::uint32_t first) override {
    const auto keys = sketches();
    const auto likeness = column(kLikeness);
    const auto reach = static_cast<std::size_t>(compared_);
    for (std::size_t newer = first; newer < keys.size(); ++newer) {
      for (std::size_t i = newer - std::min(newer, reach); i < newer; ++i) {
        likeness[i] += std::max(sketched_cosine(keys[i], keys[newer]), 0.0F);
      }
    }
  }

  void on_cut() override {
    std::ranges::fill(column(kLikeness), 0.0F);
    on_append(0);
  }

  void on_observe(const Observation& seen) override {
    const auto attention = column(kAttention);
    for (float& one : attention) one *= decay_;
    const float share = (1 - decay_) / static_cast<float>(seen.rows);
    each_named(seen, [&](std::uint32_t id, float mass) { attention[id] += share * mass; });
  }

  void on_worth(std::span<float> worth) const override {
    if (worth.empty()) return;
    pool_largest(column(kAttention), static_cast<std::size_t>(pool_), worth);
    const float best = std::max(*std::ranges::max_element(worth), 1e-30F);
    const auto likeness = column(kLikeness);
    for (std::size_t i = 0; i < worth.size(); ++i) {
      const auto newer = static_cast<float>(worth.size() - 1 - i);
      const float mean = likeness[i] / std::clamp(newer, 1.0F, compared_);
      worth[i] = importance_ * worth[i] / best - (1 - importance_) * mean;
    }
  }

  [[nodiscard]] std::unique_ptr<RetentionPolicy> empty() const override {
    return std::make_unique<Redundancy>(importance_, decay_, pool_, compared_);
  }

  float importance_;
  float decay_;
  float pool_;
  float compared_;
};

std::unique_ptr<RetentionPolicy> make(const Parameters& parameters) {
  return std::make_unique<Redundancy>(parameters.at("importance"), parameters.at("decay"),
                                      parameters.at("pool"), parameters.at("compared"));
}

}  // namespace

NamedRetentionPolicy redundancy() { return {"redundancy", kParameters, make}; }

}  // namespace nearkv
