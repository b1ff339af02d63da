// Commands that read sequences: TOPK, GATHER, READ, SCRUB.
#include <algorithm>

#include "pool/pool_impl.hpp"
#include "round_up.hpp"

namespace nearkv {

bool Pool::Impl::limit_tokens(const HeadList& list, std::uint32_t wanted, std::uint32_t* tokens) {
  const auto present = static_cast<std::uint32_t>(list.entries.size() * NKV_PAGE_TOKENS);
  *tokens = wanted == 0 ? present : wanted;
  return *tokens <= present;
}

Status Pool::Impl::top_k(const TopKRequest& request) {
  const std::string what = "searching " + place(request.sequence, request.layer, request.kv_head);
  const HeadList* const list = find_head(request.sequence, request.layer, request.kv_head);
  if (list == nullptr) return fail(Status::kNotFound, what);
  PageRun pages{list->address};
  if (!limit_tokens(*list, request.tokens, &pages.tokens)) return fail(Status::kBadArgument, what);
  Status status = check_cold(request.cold, what);
  if (status != Status::kOk) return status;
  batch_->clear();
  if (request.cold == ColdPages::kRefuse || !has_cold(*list)) return top_k_of(pages, {}, request);
  const bool is_limited = request.tokens != 0 || request.window != 0;
  status = warm_pages(*list, is_limited, what, &pages);
  if (status == Status::kQueueFull) return fail(status, what + ": larger than the staging area");
  if (status != Status::kOk) return status;
  const std::vector<std::uint32_t> warm = pages_that_are(Temperature::kWarm, *list);
  status = top_k_of(pages, warm, request);
  return status == Status::kOk ? merge_top_k(*list, warm, request) : status;
}

Status Pool::Impl::top_k_of(const PageRun& pages, std::span<const std::uint32_t> numbers,
                            const TopKRequest& request) {
  const ModelShape& shape = options_.shape;
  const std::string what = "searching " + place(request.sequence, request.layer, request.kv_head);
  if (request.top_k == 0) {
    return fail(Status::kBadArgument, what, "top_k is 0; ask for one token at least");
  }
  nkv_topk_command command{};
  const bool indexer = request.mode == NKV_SELECT_INDEXER;
  const std::size_t lists = indexer ? 1 : request.rows;
  const std::size_t places = lists * request.top_k;
  const std::uint64_t query_bytes =
      std::uint64_t{request.rows} *
      nkv_row_bytes(NKV_ROW_FORM_RAW, request.query_dtype, shape.head_dim);
  if (request.rows == 0 || request.rows > NKV_MAX_GROUP || request.query.size() != query_bytes ||
      request.weights.size() != (indexer ? request.rows : 0) || request.ids.size() != places ||
      request.scores.size() != places || request.counts.size() != lists) {
    return fail(Status::kBadArgument, what);
  }
  const std::uint64_t table_bytes = whole_bursts(places * sizeof(std::uint32_t));
  if (!batch_->reserve(query_bytes, &command.query) ||
      (indexer && !batch_->reserve(request.weights.size_bytes(), &command.weights)) ||
      !batch_->reserve(2 * table_bytes + whole_bursts(lists * sizeof(std::uint32_t)),
                       &command.result)) {
    return fail(Status::kBadArgument, what + ": larger than the staging area");
  }
  batch_->write(command.query, request.query);
  if (indexer) batch_->write(command.weights, std::as_bytes(request.weights));
  command.opcode = NKV_OPCODE_TOPK;
  command.head_dim = shape.head_dim;
  command.tokens = pages.tokens;
  command.window = request.window;
  command.page_list = pages.address;
  command.scale = request.scale;
  command.sinks = request.sinks;
  command.top_k = request.top_k;
  command.mode = request.mode;
  if (request.mode == NKV_SELECT_STATISTICAL &&
      are_too_few(pages.tokens, request.window, request.sinks)) {
    command.mode = NKV_SELECT_FULL;
  }
  command.group = static_cast<std::uint8_t>(request.rows);
  command.query_dtype = request.query_dtype;
  command.z = request.z16;
  Status status = batch_->add(command);
  if (status == Status::kOk) status = run_batch();
  if (status != Status::kOk) return status;
  const nkv_completion& completion = batch_->completions().front();
  if (completion.status != NKV_STATUS_OK) return fail_completion(completion, what, numbers);
  batch_->read(command.result, std::as_writable_bytes(request.ids));
  batch_->read(command.result + table_bytes, std::as_writable_bytes(request.scores));
  batch_->read(command.result + 2 * table_bytes, std::as_writable_bytes(request.counts));
  return Status::kOk;
}

Status Pool::Impl::copy_rows(std::uint64_t id, std::uint16_t layer, std::uint16_t kv_head,
                             std::uint32_t count, std::span<std::byte> keys,
                             std::span<std::byte> values, const AddRows& add) {
  const ModelShape& shape = options_.shape;
  const std::string what = "reading " + place(id, layer, kv_head);
  const HeadList* const list = find_head(id, layer, kv_head);
  if (list == nullptr) return fail(Status::kNotFound, what);
  const std::uint64_t key_bytes = nkv_row_bytes(NKV_ROW_FORM_RAW, shape.dtype, shape.head_dim);
  const std::uint64_t value_bytes = nkv_row_bytes(NKV_ROW_FORM_RAW, shape.dtype, shape.value_dim);
  if ((!keys.empty() && keys.size() != count * key_bytes) ||
      (!values.empty() && values.size() != count * value_bytes)) {
    return fail(Status::kBadArgument, what + ": a buffer has the wrong size");
  }
  // Half of the staging area for rows leaves room for whatever `add` stages itself.
  const std::uint64_t most = std::max(key_bytes, value_bytes);
  const auto run = static_cast<std::uint32_t>(plan_.staging_bytes / 2 / most);
  for (const std::uint8_t tensor : {NKV_TENSOR_KEYS, NKV_TENSOR_VALUES}) {
    const std::span<std::byte> out = tensor == NKV_TENSOR_KEYS ? keys : values;
    const std::uint64_t row_bytes = tensor == NKV_TENSOR_KEYS ? key_bytes : value_bytes;
    for (std::uint32_t begin = 0; begin < count && !out.empty(); begin += run) {
      const std::uint32_t rows = std::min(run, count - begin);
      std::uint64_t result = 0;
      batch_->clear();
      Status status = batch_->reserve(rows * row_bytes, &result) ? Status::kOk : Status::kInternal;
      if (status == Status::kOk) status = add(tensor, *list, begin, rows, result);
      if (status == Status::kOk) status = run_batch();
      if (status != Status::kOk) return status;
      const nkv_completion& completion = batch_->completions().front();
      if (completion.status != NKV_STATUS_OK) return fail_completion(completion, what);
      batch_->read(result, out.subspan(begin * row_bytes, rows * row_bytes));
    }
  }
  return Status::kOk;
}

Status Pool::Impl::gather(std::uint64_t id, std::uint16_t layer, std::uint16_t kv_head,
                          std::span<const std::uint32_t> ids, std::span<std::byte> keys,
                          std::span<std::byte> values) {
  return copy_rows(id, layer, kv_head, static_cast<std::uint32_t>(ids.size()), keys, values,
                   [&](std::uint8_t tensor, const HeadList& list, std::uint32_t begin,
                       std::uint32_t rows, std::uint64_t result) {
                     nkv_gather_command command{};
                     if (!batch_->reserve(rows * sizeof(std::uint32_t), &command.ids)) {
                       return Status::kInternal;
                     }
                     batch_->write(command.ids, std::as_bytes(ids.subspan(begin, rows)));
                     command.opcode = NKV_OPCODE_GATHER;
                     command.tensor = tensor;
                     command.tokens =
                         static_cast<std::uint32_t>(list.entries.size() * NKV_PAGE_TOKENS);
                     command.count = rows;
                     command.page_list = list.address;
                     command.result = result;
                     return batch_->add(command);
                   });
}

Status Pool::Impl::read(std::uint64_t id, std::uint16_t layer, std::uint16_t kv_head,
                        std::uint32_t first, std::uint32_t count, std::span<std::byte> keys,
                        std::span<std::byte> values) {
  const HeadList* const list = find_head(id, layer, kv_head);
  if (list != nullptr && std::uint64_t{first} + count > list->entries.size() * NKV_PAGE_TOKENS) {
    return fail(Status::kBadArgument, "reading beyond the end of " + place(id, layer, kv_head));
  }
  return copy_rows(id, layer, kv_head, count, keys, values,
                   [&](std::uint8_t tensor, const HeadList& of, std::uint32_t begin,
                       std::uint32_t rows, std::uint64_t result) {
                     nkv_read_command command{};
                     command.opcode = NKV_OPCODE_READ;
                     command.tensor = tensor;
                     command.first = first + begin;
                     command.count = rows;
                     command.page_list = of.address;
                     command.result = result;
                     return batch_->add(command);
                   });
}

Status Pool::Impl::scrub(std::uint64_t id, std::uint64_t* pages) {
  *pages = 0;
  const Sequence* const sequence = find(id);
  if (sequence == nullptr)
    return fail(Status::kNotFound, "scrubbing sequence " + std::to_string(id));
  for (std::size_t i = 0; i < sequence->heads.size(); ++i) {
    const HeadList& head = sequence->heads[i];
    if (head.entries.empty()) continue;
    batch_->clear();
    nkv_pages_command command{};
    command.opcode = NKV_OPCODE_SCRUB;
    command.count = static_cast<std::uint32_t>(head.entries.size());
    command.source = head.address;
    Status status = batch_->add(command);
    if (status == Status::kOk) status = run_batch();
    if (status != Status::kOk) return status;
    const nkv_completion& completion = batch_->completions().front();
    *pages += completion.count;
    if (completion.status != NKV_STATUS_OK) {
      const std::uint16_t heads = options_.shape.kv_heads;
      return fail_completion(completion,
                             "scrubbing " + place(id, static_cast<std::uint16_t>(i / heads),
                                                  static_cast<std::uint16_t>(i % heads)));
    }
  }
  return Status::kOk;
}

}  // namespace nearkv
