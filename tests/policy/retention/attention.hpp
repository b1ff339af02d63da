// Attention made up for tests: observations with what their spans point to.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "nearkv/retention.hpp"
#include "policy/retention/observation.hpp"
#include "support/seed.hpp"

namespace nearkv::test {

/// An observation that owns its numbers.
struct Attention {
  std::uint32_t position = 0;
  std::uint32_t stride = 0;
  std::vector<std::uint32_t> counts;
  std::vector<std::uint32_t> ids;
  std::vector<float> mass;

  [[nodiscard]] Observation seen() const {
    return {position, static_cast<std::uint32_t>(counts.size()), stride, counts, ids, mass};
  }
};

/// One row that names every token: masses[i] of token i, for the query at the last of them.
inline Attention attention_to(std::vector<float> masses) {
  Attention attention;
  attention.position = static_cast<std::uint32_t>(masses.size()) - 1;
  attention.stride = static_cast<std::uint32_t>(masses.size());
  attention.counts = {attention.stride};
  attention.ids.resize(masses.size());
  std::iota(attention.ids.begin(), attention.ids.end(), 0);
  attention.mass = std::move(masses);
  return attention;
}

/// Some rows that name a few tokens each, of a query at `position`.
inline Attention random_attention(Random& random, std::uint32_t position) {
  Attention attention;
  attention.position = position;
  attention.stride = pick(random, 1, 8);
  attention.counts.resize(pick(random, 1, 4));
  for (std::uint32_t& count : attention.counts) {
    count = pick(random, 0, std::min(attention.stride, position + 1));
    std::vector<std::uint32_t> all(position + 1);
    std::iota(all.begin(), all.end(), 0);
    std::ranges::shuffle(all, random);
    all.resize(attention.stride);
    attention.ids.insert(attention.ids.end(), all.begin(), all.end());
    float left = 1;
    for (std::uint32_t i = 0; i < attention.stride; ++i) {
      const float mass = left * static_cast<float>(pick(random, 0, 100)) / 100;
      attention.mass.push_back(mass);
      left = std::max(left - mass, 0.0F);
    }
  }
  return attention;
}

/// A policy by its name, with parameters that are its own unless given.
inline std::unique_ptr<RetentionPolicy> retention(std::string_view name,
                                                  const Parameters& parameters = {}) {
  std::unique_ptr<RetentionPolicy> policy;
  std::string reason;
  return make_retention_policy(name, parameters, &policy, &reason) == Status::kOk
             ? std::move(policy)
             : nullptr;
}

/// What a policy thinks its tokens are worth.
inline std::vector<float> worth_of(const RetentionPolicy& policy) {
  std::vector<float> worth(policy.tokens());
  policy.worth(worth);
  return worth;
}

/// Tokens from the best to the worst, the earlier of equals first.
inline std::vector<std::uint32_t> order_of(const RetentionPolicy& policy) {
  const std::vector<float> worth = worth_of(policy);
  std::vector<std::uint32_t> order(worth.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](auto a, auto b) { return worth[a] > worth[b]; });
  return order;
}

}  // namespace nearkv::test
