#include "blocks/codes_work.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>
#include <thread>

#include "attend/dense.hpp"
#include "device/pause.hpp"
#include "edge.hpp"
#include "nearkv/block_codes.hpp"

namespace nearkv {

CodesWork::CodesWork(const BatchPlan& plan, const BlockCache& cache,
                     const BlockAttention& attention, const BlockQueries& queries, unsigned members,
                     CodesBuffers* buffers)
    : plan_(plan),
      cache_(cache),
      attention_(attention),
      buffers_(*buffers),
      pages_(attention.approximation.codes->pages()),
      rows_(cache, queries),
      exact_(cache),
      heads_(cache.kv_heads),
      members_(members) {
  while (buffers_.members.size() < members) {
    buffers_.members.push_back(std::make_unique<CodesMember>());
  }
  for (const auto& member : buffers_.members) {
    if (member->order.size() != cache.head_dim) member->order = kernel_order(cache.head_dim);
    member->row.resize(cache.head_dim);
    member->sums.resize(std::size_t{queries.group} * (cache.head_dim + 2));
    member->counts = {};
  }
  buffers_.uncoded.clear();
  for (const QueryPlace& query : plan_.far()) {
    seen_tokens_ += query.seen(attention_.window) * heads_;
  }
  unanswered_ = tasks();
}

CodesWork::~CodesWork() {
  if (status() != Status::kOk) pages_.give_up(buffers_.uncoded);
  pages_.counts.pages += encodings();
  for (const auto& member : buffers_.members) {
    pages_.counts.approximate += member->counts.approximate;
    pages_.counts.exact += member->counts.exact;
    pages_.counts.read_bytes += member->counts.read_bytes;
    pages_.counts.cached_bytes += member->counts.cached_bytes;
  }
}

void CodesWork::prepare() {
  for (const QueryPlace& query : plan_.far()) {
    pages_.bring_up_to_date(plan_.blocks_of(query.request), query.first_seen(attention_.window),
                            query.length, &buffers_.uncoded);
  }
}

void CodesWork::encode() noexcept {
  for (std::size_t i = next_encoding_.fetch_add(1, std::memory_order_relaxed); i < encodings();
       i = next_encoding_.fetch_add(1, std::memory_order_relaxed)) {
    const Status status = at_edge([&] {
      pages_.encode(buffers_.uncoded[i / heads_], i % heads_);
      return Status::kOk;
    });
    if (status != Status::kOk) fail(status);
  }
}

void CodesWork::attend() noexcept {
  const std::size_t number = next_member_.fetch_add(1, std::memory_order_relaxed);
  if (number >= buffers_.members.size()) return;
  CodesMember* const member = buffers_.members[number].get();
  for (std::size_t i = next_task_.fetch_add(1, std::memory_order_relaxed); i < tasks();
       i = next_task_.fetch_add(1, std::memory_order_relaxed)) {
    const Status status = at_edge([&] { return attend(i, member); });
    if (status != Status::kOk) fail(status);
    unanswered_.fetch_sub(1, std::memory_order_release);
  }
}

void CodesWork::help() noexcept {
  constexpr int kPauses = 2000;  // Between pieces of work that can be shared lie some microseconds.
  int pauses = 0;
  while (unanswered_.load(std::memory_order_acquire) != 0) {
    bool has_helped = false;
    for (unsigned i = 0; i < members_; ++i) has_helped |= buffers_.members[i]->workers.help();
    if (has_helped) {
      pauses = 0;
    } else if (++pauses < kPauses) {
      pause_core();
    } else {
      std::this_thread::yield();
    }
  }
}

/// As many as there are threads for so large a part of all work. While there is a task for every
/// thread, only a task that is more than a thread's part has any.
void CodesWork::admit_helpers(std::size_t task, std::size_t tokens, CodesMember* member) const {
  const std::size_t share = (members_ * tokens + seen_tokens_ - 1) / seen_tokens_;
  const bool is_alone = share == 1 && task + members_ < tasks();
  const auto workers =
      is_alone ? 1 : static_cast<unsigned>(std::min<std::size_t>(share + 1, members_));
  member->workers.admit(workers);
  if (member->dense.size() < workers) member->dense.resize(workers);
}

Status CodesWork::attend(std::size_t task, CodesMember* member) {
  const QueryPlace& place = plan_.far()[task / heads_];
  const std::size_t head = task % heads_;
  const BlockApproximation& wanted = attention_.approximation;
  const std::size_t first = place.first_seen(attention_.window);
  const std::size_t seen = place.seen(attention_.window);
  const std::uint64_t seen_bytes = 2 * rows_.row_bytes() * seen;
  member->counts.cached_bytes += seen_bytes;
  const bool is_finite =
      member->query
          .load(rows_.queries(place.token, head), rows_.group(), cache_.head_dim, cache_.dtype)
          .ok() &&
      pages_.list(plan_.blocks_of(place.request), head, first, place.length, &member->entries);
  if (!is_finite) {
    attend_exactly(place, head, member);
    member->counts.read_bytes += seen_bytes;
    ++member->counts.exact;
    return Status::kOk;
  }
  member->list.assign(pages_.window(), member->entries);
  admit_helpers(task, seen, member);
  const Visibility visibility{static_cast<std::uint32_t>(place.length), attention_.window, 0};
  AttendSpec request;
  request.value_dim = cache_.head_dim;
  request.scale = attention_.scale;
  request.top_k = wanted.top_k;
  request.error = wanted.error;
  AttendContext context{member->list, visibility, member->query, &member->workers, &member->dense};
  context.sums_in_order = true;
  AttendResult result;
  const Outcome outcome = attend_by_mode(context, request, wanted.mode, &member->codes, &result);
  if (!outcome.ok()) return outcome.status;
  answer(place, head, result.state, member);
  ++(result.dense_fallback ? member->counts.exact : member->counts.approximate);
  member->counts.read_bytes += result.traffic.total() * NKV_BURST_BYTES;
  return Status::kOk;
}

/// Codes leave out what is not finite, which an engine would not notice then.
void CodesWork::attend_exactly(const QueryPlace& place, std::size_t head, CodesMember* member) {
  const std::size_t dim = cache_.head_dim;
  BlockRun run;
  run.cache = &cache_;
  run.table = plan_.blocks_of(place.request);
  run.first_head = head;
  run.first_token = place.first_seen(attention_.window);
  run.end_token = place.length;
  run.query = rows_.queries(place.token, head).data();
  run.group = rows_.group();
  run.queries = {&place, 1};
  run.window = attention_.window;
  run.factor = attention_.scale * std::numbers::log2e_v<float>;
  float* const values = member->sums.data();
  const RowSums sums{values + run.group * dim, values + run.group * (dim + 1), values};
  exact_.attend(run, sums);
  for (std::size_t row = 0; row < run.group; ++row) {
    const std::span output(values + row * dim, dim);
    for (float& value : output) value /= sums.weight[row];
    rows_.answer(place.token, head * run.group + row, output,
                 sums.maximum[row] + std::log2(sums.weight[row]));
  }
}

void CodesWork::answer(const QueryPlace& place, std::size_t head, const SoftmaxState& state,
                       CodesMember* member) {
  for (std::size_t row = 0; row < rows_.group(); ++row) {
    const float sum = state.sum[row];
    const std::span<const float> values = state.values(row);
    for (std::size_t c = 0; c < member->row.size(); ++c) {
      member->row[c] = sum > 0 ? values[member->order[c]] / sum : 0.0F;
    }
    const float lse2 =
        sum > 0 ? state.maximum[row] + std::log2(sum) : -std::numeric_limits<float>::infinity();
    rows_.answer(place.token, head * rows_.group() + row, member->row, lse2);
  }
}

void CodesWork::fail(Status status) {
  Status none = Status::kOk;
  status_.compare_exchange_strong(none, status);
}

}  // namespace nearkv
