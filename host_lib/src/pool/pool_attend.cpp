// ATTEND: a batch of requests, each over the pages of one (layer, KV head).
#include <algorithm>
#include <chrono>

#include "pool/pool_impl.hpp"
#include "round_up.hpp"

namespace nearkv {

/// What has become of each request of a batch. A request's own error is its alone; of what ends a
/// batch of commands nothing is known, so it fails all that have no answer yet.
class Pool::Impl::Outcomes {
 public:
  /// `last_error`: what is said about the status that is noted; in the end, about first().
  Outcomes(std::size_t requests, std::vector<Status>* statuses, std::string* last_error)
      : statuses_(*statuses), last_error_(*last_error) {
    statuses_.assign(requests, Status::kOk);
  }
  Outcomes(const Outcomes&) = delete;
  Outcomes& operator=(const Outcomes&) = delete;
  ~Outcomes() {
    if (first_ != Status::kOk) last_error_ = first_error_;
  }

  [[nodiscard]] bool is_ok(std::size_t request) const { return statuses_[request] == Status::kOk; }

  void note(std::size_t request, Status status) {
    statuses_[request] = status;
    if (status == Status::kOk || first_ != Status::kOk) return;
    first_ = status;
    first_error_ = last_error_;
  }

  /// Fails those of the requests from this one on that have not failed yet.
  void fail_from(std::size_t request, Status status) {
    for (; request < statuses_.size(); ++request) {
      if (is_ok(request)) note(request, status);
    }
  }

  /// Of what was noted; kOk if nothing has failed.
  [[nodiscard]] Status first() const { return first_; }

 private:
  std::vector<Status>& statuses_;
  std::string& last_error_;
  Status first_ = Status::kOk;
  std::string first_error_;
};

namespace {

/// Whether a status may be that of commands which did not end, rather than of what one was about.
bool may_be_of_all(Status status) {
  return status == Status::kTimeout || status == Status::kAborted || status == Status::kNoDevice ||
         status == Status::kInternal;
}

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

Status Pool::Impl::attend(std::span<const AttendRequest> requests, const AttendOptions& options,
                          std::vector<Status>* statuses) {
  using Clock = std::chrono::steady_clock;
  const std::uint64_t tokens = options.if_faster && options.mode != NKV_ATTEND_MODE_DENSE
                                   ? tokens_by_codes(requests, options)
                                   : 0;
  if (tokens == 0) return attend_so(requests, options, statuses);
  speeds_.resize(options_.shape.layers);
  CodeSpeed& speed = speeds_[requests.front().layer][options.mode == NKV_ATTEND_MODE_TAIL ? 1 : 0];
  const bool by_codes = speed.takes_codes();
  AttendOptions chosen = options;
  if (!by_codes) {
    chosen.mode = NKV_ATTEND_MODE_DENSE;
    stats_.dense_fallbacks += static_cast<std::uint32_t>(requests.size());
  }
  const auto start = Clock::now();
  const Status status = attend_so(requests, chosen, statuses);
  if (status != Status::kOk) return status;
  const std::chrono::duration<double, std::nano> taken = Clock::now() - start;
  speed.note(by_codes, taken.count() / static_cast<double>(tokens));
  return Status::kOk;
}

Status Pool::Impl::attend_so(std::span<const AttendRequest> requests, const AttendOptions& options,
                             std::vector<Status>* statuses) {
  Outcomes outcomes(requests.size(), statuses, &last_error_);
  for (std::size_t done = 0; done < requests.size();) {
    std::size_t next = done;
    const Status status = attend_some(requests, options, &outcomes, &next);
    if (status != Status::kOk) {
      outcomes.fail_from(done, status);
      return outcomes.first();
    }
    done = next;
  }
  if (options.cold != ColdPages::kDecode || cold_.empty()) return outcomes.first();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (!outcomes.is_ok(i)) continue;
    const Status status = add_decoded(requests[i], options);
    outcomes.note(i, status);
    if (may_be_of_all(status)) outcomes.fail_from(i, status);
  }
  return outcomes.first();
}

Status Pool::Impl::attend_some(std::span<const AttendRequest> requests,
                               const AttendOptions& options, Outcomes* outcomes,
                               std::size_t* next) {
  const std::size_t begin = *next;
  batch_->clear();
  commands_.clear();
  for (; *next < requests.size(); ++*next) {
    std::uint64_t result = 0;
    Status status = add_attend(requests[*next], options, &result);
    // Full means: run what there is, then go on. What does not fit an empty batch never will.
    if (status == Status::kQueueFull && *next > begin) break;
    if (status == Status::kQueueFull) {
      status = fail(status, "a request is larger than the staging area");
    }
    outcomes->note(*next, status);
    if (status == Status::kOk) commands_.emplace_back(*next, result);
  }
  const Status status = run_batch();
  if (status != Status::kOk) return status;
  for (std::size_t i = 0; i < commands_.size(); ++i) {
    const auto& [request, result] = commands_[i];
    outcomes->note(request,
                   settle_attend(requests[request], options, batch_->completions()[i], result));
  }
  return Status::kOk;
}

Status Pool::Impl::settle_attend(const AttendRequest& request, const AttendOptions& options,
                                 const nkv_completion& completion, std::uint64_t result) {
  if (completion.status == NKV_STATUS_OK) {
    take_result(request, result);
    return Status::kOk;
  }
  std::vector<std::uint32_t> numbers;
  if (options.cold != ColdPages::kRefuse) {
    numbers = pages_that_are(Temperature::kWarm,
                             *find_head(request.sequence, request.layer, request.kv_head));
  }
  return fail_completion(completion,
                         "attending to " + place(request.sequence, request.layer, request.kv_head),
                         numbers);
}

}  // namespace nearkv
