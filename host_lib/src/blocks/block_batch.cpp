#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "attend/code_speed.hpp"
#include "blocks/batch_plan.hpp"
#include "blocks/block_run.hpp"
#include "blocks/codes_work.hpp"
#include "blocks/layer_work.hpp"
#include "edge.hpp"
#include "nearkv/block_attention.hpp"
#include "nearkv/block_codes.hpp"
#include "nearkv/pool.hpp"

namespace nearkv {
namespace {

Status check_approximation(const BlockCache& cache, const BlockApproximation& wanted,
                           std::uint32_t group, const char** why) {
  const bool is_bounded = wanted.mode == NKV_ATTEND_MODE_BOUNDED;
  if (!is_bounded && wanted.mode != NKV_ATTEND_MODE_TAIL) {
    *why = "codes are for the modes BOUNDED and TAIL";
  } else if (is_bounded ? !(wanted.error > 0 && wanted.error <= 1) : wanted.top_k == 0) {
    *why = "error must be above 0 and at most 1, and top_k at least 1";
  } else if (group > NKV_MAX_GROUP) {
    *why = "codes answer at most 128 query heads of a KV head";
  } else if (!wanted.codes->pages().is_of(cache)) {
    *why = "the codes are of another cache";
  } else {
    return Status::kOk;
  }
  return Status::kBadArgument;
}

Status check_step(const BatchPlan& plan, const BlockCache& cache, const BlockAttention& attention,
                  const BlockQueries& queries, const char** why) {
  if (cache.block_tokens != plan.block_tokens()) {
    *why = "the cache has blocks of another size than the step";
  } else if (queries.group == 0 || queries.tokens < plan.step_tokens()) {
    *why = "queries must be those of all tokens of the step";
  } else if (!std::isfinite(attention.scale) || !(attention.soft_cap >= 0)) {
    *why = "scale must be finite, and soft_cap 0 or more";
  } else if (!plan.names_blocks_below(cache.blocks)) {
    *why = "the block table names a block that the cache does not have";
    return Status::kBadPage;
  } else if (attention.approximation.codes != nullptr) {
    return check_approximation(cache, attention.approximation, queries.group, why);
  } else {
    return Status::kOk;
  }
  return Status::kBadArgument;
}

/// From how many tokens on a query is answered by codes; 0: none is. Codes cannot say a capped
/// score, or a scale that counts as zero.
std::size_t far_tokens(const BlockAttention& attention) {
  const bool has_codes = attention.approximation.codes != nullptr;
  const bool can = !std::isnormal(attention.soft_cap) && std::isnormal(attention.scale);
  return has_codes && can ? kLeastApproximateTokens : 0;
}

}  // namespace

struct BlockBatch::State {
  BatchPlan plan;
  RunResults results;
  CodesBuffers codes;

  Status attend(const BlockCache& cache, const BlockAttention& attention,
                const BlockQueries& queries, const ThreadTeam& team, const char** why) {
    const Status status = check_step(plan, cache, attention, queries, why);
    if (status != Status::kOk) return status;
    const std::size_t least = far_tokens(attention);
    const BlockApproximation& approximation = attention.approximation;
    CodeSpeed* const speed =
        least != 0 && approximation.if_faster ? &approximation.codes->pages().speed : nullptr;
    const bool takes_codes = least != 0 && (speed == nullptr || speed->takes_codes());
    if (least != 0 && !takes_codes) ++approximation.codes->pages().counts.exact_calls;

    const unsigned members = team.run != nullptr ? std::max(team.members, 1U) : 1;
    plan.split({cache.kv_heads, queries.group, attention.window, members,
                cache.head_stride_bytes < cache.block_stride_bytes, takes_codes ? least : 0});
    results.reset(plan, cache.head_dim);
    LayerWork work(plan, cache, attention, queries, &results);
    std::optional<CodesWork> by_codes;
    if (!plan.far().empty()) {
      by_codes.emplace(plan, cache, attention, queries, members, &codes);
      by_codes->prepare();
      run(team, members, by_codes->encodings(), [&] { by_codes->encode(); });
      if (by_codes->status() != Status::kOk) return failure_of(*by_codes, why);
    }
    const auto start = Clock::now();
    // Far queries are work for all, few as they may be.
    run(team, members, by_codes ? members : plan.runs().size(), [&] {
      // First what takes longer.
      if (by_codes) by_codes->attend();
      work.take_runs();
      if (by_codes) by_codes->help();
    });
    if (by_codes && by_codes->status() != Status::kOk) return failure_of(*by_codes, why);
    if (speed != nullptr) note(start, takes_codes, attention.window, least, speed);
    return Status::kOk;
  }

 private:
  using Clock = std::chrono::steady_clock;

  static Status failure_of(const CodesWork& work, const char** why) {
    if (work.status() == Status::kOutOfMemory) return Status::kOutOfMemory;
    *why = "the codes do not fit the blocks";
    return Status::kInternal;
  }

  /// Tells what a layer took, if all of its queries were far ones.
  void note(Clock::time_point start, bool took_codes, std::size_t window, std::size_t least,
            CodeSpeed* speed) const {
    const std::chrono::duration<double, std::nano> taken = Clock::now() - start;
    const std::size_t tokens = plan.tokens_of_far(window, least);
    if (tokens != 0) speed->note(took_codes, taken.count() / static_cast<double>(tokens));
  }

  /// Body on as many of a team's threads as there is work for.
  template <typename Body>
  static void run(const ThreadTeam& team, unsigned members, std::size_t works, Body body) {
    if (members > 1 && works > 1) {
      team.run([](void* of) { (*static_cast<Body*>(of))(); }, &body, members);
    } else if (works > 0) {
      body();
    }
  }
};

BlockBatch::BlockBatch() : state_(std::make_unique<State>()) {}
BlockBatch::BlockBatch(BlockBatch&&) noexcept = default;
BlockBatch& BlockBatch::operator=(BlockBatch&&) noexcept = default;
BlockBatch::~BlockBatch() = default;

Status BlockBatch::begin_step(std::span<const std::int32_t> starts,
                              std::span<const std::int32_t> lengths, BlockTable table,
                              std::uint32_t block_tokens, std::uint32_t max_queries,
                              std::string* reason) {
  const char* why = "there is no memory for the step";
  const Status status = at_edge([&] {
    return state_->plan.begin_step({starts, lengths, table, block_tokens, max_queries}, &why);
  });
  if (status != Status::kOk && reason != nullptr) *reason = why;
  return status;
}

std::size_t BlockBatch::queries() const { return state_->plan.queries().size(); }

Status BlockBatch::attend(const BlockCache& cache, const BlockAttention& attention,
                          const BlockQueries& queries, const ThreadTeam& team,
                          std::string* reason) {
  const char* why = "there is no memory for the layer";
  const Status status = at_edge([&] {
    const Status checked = check_cache(cache, &why);
    return checked == Status::kOk ? state_->attend(cache, attention, queries, team, &why) : checked;
  });
  if (status != Status::kOk && reason != nullptr) *reason = why;
  return status;
}

}  // namespace nearkv
