#include "blocks/codes_work.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>

#include "attend/dense.hpp"
#include "blocks/layer_work.hpp"
#include "edge.hpp"
#include "nearkv/block_codes.hpp"

namespace nearkv {

CodesWork::CodesWork(const BatchPlan& plan, const BlockCache& cache,
                     const BlockAttention& attention, const BlockQueries& queries, unsigned members,
                     CodesBuffers* buffers)
    : plan_(plan),
      cache_(cache),
      attention_(attention),
      queries_(queries),
      buffers_(*buffers),
      pages_(attention.approximation.codes->pages()),
      heads_(cache.kv_heads),
      row_bytes_(cache.row_bytes()) {
  while (buffers_.members.size() < members) {
    buffers_.members.push_back(std::make_unique<CodesMember>());
  }
  for (const auto& member : buffers_.members) {
    if (member->order.size() != cache.head_dim) member->order = kernel_order(cache.head_dim);
    member->row.resize(cache.head_dim);
    member->counts = {};
  }
  buffers_.uncoded.clear();
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
    const Status status =
        at_edge([&] { return attend(plan_.far()[i / heads_], i % heads_, member); });
    if (status != Status::kOk) fail(status);
  }
}

Status CodesWork::attend(const QueryPlace& place, std::size_t head, CodesMember* member) {
  const BlockApproximation& wanted = attention_.approximation;
  const std::size_t group_bytes = queries_.group * row_bytes_;
  const std::span rows(
      queries_.queries + place.token * queries_.query_stride_bytes + head * group_bytes,
      group_bytes);
  const Outcome loaded = member->query.load(rows, queries_.group, cache_.head_dim, cache_.dtype);
  if (!loaded.ok()) {
    answer_nan(place, head);
    return Status::kOk;
  }
  const std::size_t first = place.first_seen(attention_.window);
  pages_.list(plan_.blocks_of(place.request), head, first, place.length, &member->entries);
  member->list.assign(pages_.window(), member->entries);
  const Visibility visibility{static_cast<std::uint32_t>(place.length), attention_.window, 0};
  AttendSpec request;
  request.value_dim = cache_.head_dim;
  request.scale = attention_.scale;
  request.top_k = wanted.top_k;
  request.error = wanted.error;
  const AttendContext context{member->list, visibility, member->query, &member->workers,
                              &member->dense};
  AttendResult result;
  const Outcome outcome = attend_by_mode(context, request, wanted.mode, &member->codes, &result);
  if (!outcome.ok()) return outcome.status;
  answer(place, head, result, member);
  ++(result.dense_fallback ? member->counts.exact : member->counts.approximate);
  member->counts.read_bytes += result.traffic.total() * NKV_BURST_BYTES;
  member->counts.cached_bytes += 2 * row_bytes_ * (place.length - first);
  return Status::kOk;
}

void CodesWork::answer(const QueryPlace& place, std::size_t head, const AttendResult& result,
                       CodesMember* member) {
  for (std::size_t row = 0; row < queries_.group; ++row) {
    const float sum = result.state.sum[row];
    const std::span<const float> values = result.state.values(row);
    for (std::size_t c = 0; c < member->row.size(); ++c) {
      member->row[c] = sum > 0 ? values[member->order[c]] / sum : 0.0F;
    }
    const float lse2 = sum > 0 ? result.state.maximum[row] + std::log2(sum)
                               : -std::numeric_limits<float>::infinity();
    store(place, head * queries_.group + row, member->row, lse2 * std::numbers::ln2_v<float>);
  }
}

void CodesWork::answer_nan(const QueryPlace& place, std::size_t head) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> output(cache_.head_dim, kNan);
  for (std::size_t row = 0; row < queries_.group; ++row) {
    store(place, head * queries_.group + row, output, kNan);
  }
}

void CodesWork::store(const QueryPlace& place, std::size_t query_head,
                      std::span<const float> output, float lse) {
  store_row(
      output, cache_.dtype,
      queries_.outputs + place.token * queries_.output_stride_bytes + query_head * row_bytes_);
  if (queries_.lse != nullptr) {
    queries_.lse[place.token * heads_ * queries_.group + query_head] = lse;
  }
}

void CodesWork::fail(Status status) {
  Status none = Status::kOk;
  status_.compare_exchange_strong(none, status);
}

}  // namespace nearkv
