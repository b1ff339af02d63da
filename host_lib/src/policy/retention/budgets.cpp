#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <numeric>

#include "nearkv/retention.hpp"
#include "policy/retention/parameters.hpp"

namespace nearkv {
namespace {

constexpr ParameterTable<2> kCascade = {
    {{"entropy_root", 1, 0.01F, 100, "root taken of a layer's entropy (the paper's tau 1)"},
     {"variance_root", 1, 0.01F, 100, "root taken of a layer's variance (its tau 2)"}}};
constexpr ParameterTable<2> kStableHeads = {
    {{"stable", 0.8F, 0, 1, "stability from which a head's last selection will do"},
     {"times", 4, 1, 1e6F, "what a token of another head weighs beside one of a stable head"}}};
constexpr ParameterTable<1> kWorkflow = {
    {{"power", 1, 0, 16, "of the steps to its next use by which a sequence's weight falls"}}};

constexpr std::array<NamedBudget, 5> kRules = {
    {{"uniform", "the same for every head", {}},
     {"cascade", "by layers: wide attention and changing attention get more (CAKE, ICLR 2025)",
      kCascade},
     {"stable_heads", "less to heads that select the same pages again and again (FlexiCache, 2025)",
      kStableHeads},
     {"layer_weights", "by what later layers make of each layer's output", {}},
     {"workflow", "by steps until the sequence's agent runs again (KVFlow, 2025)", kWorkflow}}};

using Weights = std::vector<double>;

Weights cascade(std::span<const HeadDemand> heads, const Parameters& parameters) {
  struct Layer {
    double entropy = 0, variance = 0, heads = 0;
  };
  std::map<std::uint16_t, Layer> layers;
  for (const HeadDemand& head : heads) {
    Layer& layer = layers[head.layer];
    layer.entropy += head.entropy;
    layer.variance += head.variance;
    layer.heads += 1;
  }
  const double entropy_power = 1 / parameters.at("entropy_root");
  const double variance_power = 1 / parameters.at("variance_root");
  Weights weights;
  for (const HeadDemand& head : heads) {
    const Layer& layer = layers.at(head.layer);
    weights.push_back(std::pow(layer.entropy / layer.heads, entropy_power) *
                      std::pow(layer.variance / layer.heads, variance_power));
  }
  return weights;
}

double weight_of(std::string_view rule, const HeadDemand& head, const Parameters& parameters) {
  if (rule == "stable_heads") {
    const bool is_stable = head.stability >= parameters.at("stable");
    return head.tokens * (is_stable ? 1.0 : parameters.at("times"));
  }
  if (rule == "layer_weights") return head.layer_weight;
  if (rule == "workflow") {
    return std::pow(1.0 + head.steps_to_next_use, -double{parameters.at("power")});
  }
  return 1;
}

Weights weights_of(std::string_view rule, std::span<const HeadDemand> heads,
                   const Parameters& parameters) {
  if (rule == "cascade") return cascade(heads, parameters);
  Weights weights;
  for (const HeadDemand& head : heads) weights.push_back(weight_of(rule, head, parameters));
  return weights;
}

/// Proportional parts of `total`, none above its head's tokens; what is left over goes to the rest.
std::vector<double> fill(std::span<const HeadDemand> heads, Weights weights, double total) {
  std::vector<double> parts(heads.size());
  std::vector<std::size_t> open(heads.size());
  std::iota(open.begin(), open.end(), 0);
  while (!open.empty()) {
    double sum = 0;
    for (const std::size_t i : open) sum += weights[i];
    if (!(sum > 0)) {  // Nothing tells those that are left apart.
      for (const std::size_t i : open) weights[i] = 1;
      sum = static_cast<double>(open.size());
    }
    const double left = total;
    const auto full = [&](std::size_t i) { return left * weights[i] / sum >= heads[i].tokens; };
    const auto rest = std::ranges::stable_partition(open, [&](std::size_t i) { return !full(i); });
    if (rest.empty()) {
      for (const std::size_t i : open) parts[i] = left * weights[i] / sum;
      return parts;
    }
    for (const std::size_t i : rest) {
      parts[i] = heads[i].tokens;
      total -= heads[i].tokens;
    }
    open.erase(rest.begin(), rest.end());
  }
  return parts;
}

/// Whole tokens: each part rounded down, and one more to those that lost most, the first of equals.
std::vector<std::uint32_t> whole_tokens(std::span<const double> parts, std::uint64_t total) {
  std::vector<std::uint32_t> shares;
  std::uint64_t dealt = 0;
  for (const double part : parts) {
    shares.push_back(static_cast<std::uint32_t>(part + 1e-9));
    dealt += shares.back();
  }
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), 0);
  const auto lost = [&](std::size_t i) { return parts[i] - shares[i]; };
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return lost(a) > lost(b) + 1e-9; });
  for (const std::size_t i : order) {
    if (dealt >= total) break;
    if (lost(i) <= 1e-9) continue;
    ++shares[i];
    ++dealt;
  }
  return shares;
}

bool is_sound(const HeadDemand& head) {
  const auto good = [](float number) { return std::isfinite(number) && number >= 0; };
  return good(head.entropy) && good(head.variance) && good(head.stability) &&
         good(head.layer_weight);
}

}  // namespace

std::span<const NamedBudget> shipped_budgets() { return kRules; }

Status share_budget(std::string_view rule, const Parameters& given,
                    std::span<const HeadDemand> heads, std::uint64_t total_tokens,
                    std::vector<std::uint32_t>* shares, std::string* reason) {
  const NamedBudget* const named = find_named(shipped_budgets(), rule);
  if (named == nullptr) {
    *reason = "no budget '" + std::string(rule) + "'; there are: " + names_of(shipped_budgets());
    return Status::kBadArgument;
  }
  Parameters parameters;
  if (const Status status = settle(rule, named->parameters, given, &parameters, reason);
      status != Status::kOk) {
    return status;
  }
  std::uint64_t there = 0;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    there += heads[i].tokens;
    if (is_sound(heads[i])) continue;
    *reason = "head " + std::to_string(i) + " has a statistic that is negative or not finite";
    return Status::kBadArgument;
  }
  const std::uint64_t total = std::min(total_tokens, there);
  const auto parts = fill(heads, weights_of(rule, heads, parameters), static_cast<double>(total));
  *shares = whole_tokens(parts, total);
  return Status::kOk;
}

}  // namespace nearkv
