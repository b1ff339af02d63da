// ATTEND: a batch of requests, each over the pages of one (layer, KV head).
#include <algorithm>
#include <chrono>

#include "pool/pool_impl.hpp"
#include "round_up.hpp"

namespace nearkv {
namespace {

std::uint64_t visible_tokens(std::uint32_t tokens, std::uint32_t window, std::uint8_t sinks) {
  return window == 0 ? tokens : std::min<std::uint64_t>(tokens, std::uint64_t{window} + sinks);
}

/// Results of one ATTEND in device memory.
struct AttendLayout {
  std::uint64_t lse = 0;
  std::uint64_t bound = 0;
  std::uint64_t bytes = 0;

  AttendLayout(std::uint64_t rows, std::uint64_t value_dim)
      : lse(whole_bursts(rows * value_dim * sizeof(float))),
        bound(lse + whole_bursts(rows * sizeof(float))),
        bytes(bound + whole_bursts(rows * sizeof(float))) {}
};

}  // namespace

Status Pool::Impl::add_attend(const AttendRequest& request, const AttendOptions& options,
                              std::uint64_t* result) {
  const std::string what =
      "attending to " + place(request.sequence, request.layer, request.kv_head);
  const HeadList* const list = find_head(request.sequence, request.layer, request.kv_head);
  if (list == nullptr) return fail(Status::kNotFound, what);
  PageRun pages{list->address};
  if (!limit_tokens(*list, options.tokens, &pages.tokens)) return fail(Status::kBadArgument, what);
  Status status = check_cold(options.cold, what);
  if (status == Status::kOk && options.cold != ColdPages::kRefuse) {
    const bool is_limited = options.tokens != 0 || options.window != 0;
    status = warm_pages(*list, is_limited, what, &pages);
  }
  if (status != Status::kOk) return status;
  return add_attend_to(pages, request, of_parts(*list, options), result);
}

bool Pool::Impl::are_too_few(std::uint32_t tokens, std::uint32_t window, std::uint8_t sinks) const {
  return visible_tokens(tokens, window, sinks) < kLeastApproximateTokens && offers_codes(*device_);
}

std::uint64_t Pool::Impl::tokens_by_codes(std::span<const AttendRequest> requests,
                                          const AttendOptions& options) {
  std::uint64_t all = 0;
  for (const AttendRequest& request : requests) {
    const HeadList* const list = find_head(request.sequence, request.layer, request.kv_head);
    std::uint32_t tokens = 0;
    if (list == nullptr || !limit_tokens(*list, options.tokens, &tokens) ||
        are_too_few(tokens, options.window, options.sinks)) {
      return 0;
    }
    all += visible_tokens(tokens, options.window, options.sinks);
  }
  return all;
}

Status Pool::Impl::add_attend_to(const PageRun& pages, const AttendRequest& request,
                                 const AttendOptions& options, std::uint64_t* result) {
  const ModelShape& shape = options_.shape;
  nkv_attend_command command{};
  const std::uint64_t query_bytes =
      std::uint64_t{request.rows} *
      nkv_row_bytes(NKV_ROW_FORM_RAW, request.query_dtype, shape.head_dim);
  if (request.rows == 0 || request.rows > NKV_MAX_GROUP || request.query.size() != query_bytes ||
      request.output.size() != std::size_t{request.rows} * shape.value_dim ||
      request.lse.size() != request.rows ||
      (!request.bound.empty() && request.bound.size() != request.rows)) {
    return fail(Status::kBadArgument,
                "attending to " + place(request.sequence, request.layer, request.kv_head));
  }
  const AttendLayout layout(request.rows, shape.value_dim);
  if (!batch_->reserve(query_bytes, &command.query) || !batch_->reserve(layout.bytes, result)) {
    return Status::kQueueFull;
  }
  batch_->write(command.query, request.query);
  command.opcode = NKV_OPCODE_ATTEND;
  command.head_dim = shape.head_dim;
  command.value_dim = shape.value_dim;
  command.tokens = pages.tokens;
  command.window = options.window;
  command.page_list = pages.address;
  command.result = *result;
  command.scale = options.scale;
  command.soft_cap = options.soft_cap;
  command.sinks = options.sinks;
  command.byte_cap = options.byte_cap;
  command.top_k = options.top_k;
  command.mode = options.mode;
  const bool is_approximate =
      options.mode == NKV_ATTEND_MODE_BOUNDED || options.mode == NKV_ATTEND_MODE_TAIL;
  if (is_approximate && are_too_few(pages.tokens, options.window, options.sinks)) {
    command.mode = NKV_ATTEND_MODE_DENSE;
    ++stats_.dense_fallbacks;
  }
  command.group = static_cast<std::uint8_t>(request.rows);
  command.query_dtype = request.query_dtype;
  command.z = options.z16;
  command.error = options.error;
  return batch_->add(command);
}

void Pool::Impl::take_result(const AttendRequest& request, std::uint64_t result) {
  const AttendLayout layout(request.rows, options_.shape.value_dim);
  batch_->read(result, std::as_writable_bytes(request.output));
  batch_->read(result + layout.lse, std::as_writable_bytes(request.lse));
  if (!request.bound.empty()) {
    batch_->read(result + layout.bound, std::as_writable_bytes(request.bound));
  }
}

Status Pool::Impl::attend(std::span<const AttendRequest> requests, const AttendOptions& options) {
  using Clock = std::chrono::steady_clock;
  const std::uint64_t tokens = options.if_faster && options.mode != NKV_ATTEND_MODE_DENSE
                                   ? tokens_by_codes(requests, options)
                                   : 0;
  if (tokens == 0) return attend_so(requests, options);
  speeds_.resize(options_.shape.layers);
  CodeSpeed& speed = speeds_[requests.front().layer][options.mode == NKV_ATTEND_MODE_TAIL ? 1 : 0];
  const bool by_codes = speed.takes_codes();
  AttendOptions chosen = options;
  if (!by_codes) {
    chosen.mode = NKV_ATTEND_MODE_DENSE;
    stats_.dense_fallbacks += static_cast<std::uint32_t>(requests.size());
  }
  const auto start = Clock::now();
  const Status status = attend_so(requests, chosen);
  if (status != Status::kOk) return status;
  const std::chrono::duration<double, std::nano> taken = Clock::now() - start;
  speed.note(by_codes, taken.count() / static_cast<double>(tokens));
  return Status::kOk;
}

Status Pool::Impl::attend_so(std::span<const AttendRequest> requests,
                             const AttendOptions& options) {
  std::size_t done = 0;
  std::vector<std::uint64_t> results;
  while (done < requests.size()) {
    batch_->clear();
    results.clear();
    Status status = Status::kOk;
    while (done + results.size() < requests.size()) {
      std::uint64_t result = 0;
      status = add_attend(requests[done + results.size()], options, &result);
      if (status != Status::kOk) break;
      results.push_back(result);
    }
    // Full means: run what there is, then go on. A request that does not fit an empty batch never
    // will.
    const bool full = status == Status::kQueueFull;
    if (full && results.empty()) return fail(status, "a request is larger than the staging area");
    if (status != Status::kOk && !full) return status;
    status = run_batch();
    if (status != Status::kOk) return status;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const AttendRequest& request = requests[done + i];
      const nkv_completion& completion = batch_->completions()[i];
      if (completion.status != NKV_STATUS_OK) {
        std::vector<std::uint32_t> numbers;
        if (options.cold != ColdPages::kRefuse) {
          numbers = pages_that_are(Temperature::kWarm,
                                   *find_head(request.sequence, request.layer, request.kv_head));
        }
        return fail_completion(
            completion, "attending to " + place(request.sequence, request.layer, request.kv_head),
            numbers);
      }
      take_result(request, results[i]);
    }
    done += results.size();
  }
  if (options.cold != ColdPages::kDecode || cold_.empty()) return Status::kOk;
  for (const AttendRequest& request : requests) {
    const Status status = add_decoded(request, options);
    if (status != Status::kOk) return status;
  }
  return Status::kOk;
}

}  // namespace nearkv
