#include "router.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "edge.hpp"

namespace nearkv::router {
namespace {

/// The workers that a request may go to, with what they have and do.
std::vector<Candidate> candidates_of(const WorkerTable& workers, const PrefixMatch& match,
                                     std::span<const WorkerId> among) {
  std::vector<Candidate> candidates;
  candidates.reserve(match.prefixes().size());
  for (std::size_t i = 0; i < match.prefixes().size(); ++i) {
    const auto id = static_cast<WorkerId>(i);
    if (!workers.is_active(id) || workers.pools().has(id)) continue;
    if (!among.empty() && std::ranges::find(among, id) == among.end()) continue;
    candidates.push_back(
        {id, match.prefixes()[i], workers.load(id), workers.prefill_tokens_per_s(id)});
  }
  return candidates;
}

}  // namespace

Status Router::create(const RouterOptions& options, std::unique_ptr<Router>* router) {
  if (options.index_limit_bytes < kLeastIndexBytes) return Status::kBadArgument;
  std::unique_ptr<Policy> policy;
  const Status status = make_policy(options.policy, options.policy_options, &policy);
  if (status != Status::kOk) return status;
  return at_edge([&] {
    *router = std::unique_ptr<Router>(new Router(options, std::move(policy)));
    return Status::kOk;
  });
}

Status Router::add_worker(std::string_view name, const WorkerOptions& options, WorkerId* id) {
  return workers_.add(name, options, id);
}

Status Router::remove_worker(std::string_view name) {
  WorkerId id = 0;
  if (const Status status = workers_.retire(name, &id); status != Status::kOk) return status;
  const Status status = index_.clear(id);
  // What could not be cleared must not become another worker's.
  if (status == Status::kOk) workers_.release(id);
  return status;
}

Status Router::store(WorkerId worker, Tier tier, std::span<const std::uint64_t> hashes) {
  if (worker >= kMaxWorkers || !workers_.is_active(worker)) return Status::kNotFound;
  return index_.store(worker, tier, hashes);
}

Status Router::remove(WorkerId worker, Tier tier, std::span<const std::uint64_t> hashes) {
  if (worker >= kMaxWorkers || !workers_.is_active(worker)) return Status::kNotFound;
  return index_.remove(worker, tier, hashes);
}

Status Router::clear(WorkerId worker, TierMask tiers) {
  if (worker >= kMaxWorkers || !workers_.is_active(worker)) return Status::kNotFound;
  return index_.clear(worker, tiers);
}

Status Router::route(const RouteRequest& request, Decision* decision) const {
  const std::uint64_t blocks = request.hashes.size();
  if (blocks * cost_.block_tokens > request.tokens) return Status::kBadArgument;
  return at_edge([&] {
    PrefixMatch match;
    index_.match(request.hashes, workers_.pools(), workers_.size(), &match);
    const std::vector<Candidate> candidates = candidates_of(workers_, match, request.among);
    if (candidates.empty()) return Status::kNotFound;
    const Prompt prompt{request.tokens, static_cast<std::uint32_t>(blocks)};
    Choice choice;
    const Status status = policy_->choose(prompt, candidates, &choice);
    if (status != Status::kOk) return status;
    const Candidate& chosen = candidates[choice.candidate];
    const auto length = [](const Candidate& each) { return each.prefix.total(); };
    const auto longest = std::ranges::max_element(candidates, {}, length);
    const bool copies = choice.copy_from != Choice::kNobody;
    const std::uint32_t usable =
        copies ? candidates[choice.copy_from].prefix.total() : chosen.prefix.total();
    *decision = {
        .worker = chosen.worker,
        .cost = choice.cost,
        .reason = choice.reason,
        .prefix = chosen.prefix,
        .load = chosen.load,
        .tokens = prompt.tokens,
        .blocks = prompt.blocks,
        .uncached_tokens = uncached_tokens(prompt, usable, cost_.block_tokens),
        .copy_from = copies ? std::optional(candidates[choice.copy_from].worker) : std::nullopt,
        .longest_worker = longest->worker,
        .longest_blocks = longest->prefix.total(),
        .candidates = static_cast<std::uint32_t>(candidates.size()),
    };
    return Status::kOk;
  });
}

Status Router::match(std::span<const std::uint64_t> hashes, PrefixMatch* match) const {
  return at_edge([&] {
    index_.match(hashes, workers_.pools(), workers_.size(), match);
    return Status::kOk;
  });
}

Status Router::start(const Decision& decision, Ticket* ticket) {
  return workers_.start(decision.worker, decision.uncached_tokens, decision.blocks, ticket);
}

}  // namespace nearkv::router
