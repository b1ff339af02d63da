// APPEND: rows of new tokens become pages of every KV head of a layer, or nothing changes.
#include <algorithm>
#include <cstring>

#include "pool/pool_impl.hpp"

namespace nearkv {
namespace {

std::uint8_t stored_form(const ModelShape& shape, bool raw, bool keys) {
  const std::uint8_t form = keys ? shape.k_form : shape.v_form;
  return raw && form == NKV_ROW_FORM_DELTA4 ? std::uint8_t{NKV_ROW_FORM_RAW} : form;
}

}  // namespace

struct Pool::Impl::HeadAppend {
  std::uint64_t sequence = 0;
  std::uint16_t layer = 0;
  std::uint16_t kv_head = 0;
  std::uint32_t first_token = 0;
  HostRows keys;
  HostRows values;
};

Status Pool::Impl::append_staged(const HeadAppend& work, std::size_t begin, std::size_t end,
                                 bool raw, std::vector<nkv_page_entry>* entries,
                                 std::size_t* overflow) {
  const ModelShape& shape = options_.shape;
  const bool stores_values = shape.v_form != NKV_ROW_FORM_NONE;
  const std::uint64_t key_bytes = nkv_row_bytes(NKV_ROW_FORM_RAW, shape.dtype, shape.head_dim);
  const std::uint64_t value_bytes =
      stores_values ? nkv_row_bytes(NKV_ROW_FORM_RAW, shape.dtype, shape.value_dim) : 0;
  const std::size_t tokens = (end - begin) * NKV_PAGE_TOKENS;
  const std::uint64_t entries_bytes = (end - begin) * sizeof(nkv_page_entry);
  std::vector<std::int8_t> gains;
  if (options_.codes) gains = gains_of(work.layer, work.kv_head);
  batch_->clear();
  nkv_append_command command{};
  std::uint64_t values_at = 0;
  if (!batch_->reserve(entries_bytes + gains.size(), &command.page_list) ||
      !batch_->reserve(tokens * key_bytes, &command.keys) ||
      !batch_->reserve(tokens * value_bytes, &values_at)) {
    return Status::kInternal;  // append_head chooses runs that fit.
  }
  command.values = stores_values ? values_at : 0;
  batch_->write(command.page_list, std::as_bytes(std::span(*entries).subspan(begin, end - begin)));
  batch_->write(command.page_list + entries_bytes, std::as_bytes(std::span(gains)));
  const auto stage = [&](const HostRows& rows, std::uint64_t bytes, std::uint64_t address) {
    const std::byte* row = rows.first + work.kv_head * rows.head_stride_bytes +
                           begin * NKV_PAGE_TOKENS * rows.token_stride_bytes;
    for (std::size_t token = 0; token < tokens; ++token, row += rows.token_stride_bytes) {
      batch_->write(address + token * bytes, {row, bytes});
    }
  };
  stage(work.keys, key_bytes, command.keys);
  if (stores_values) stage(work.values, value_bytes, values_at);
  command.opcode = NKV_OPCODE_APPEND;
  command.flags = options_.codes ? std::uint8_t{NKV_APPEND_FLAG_CODES} : std::uint8_t{0};
  command.head_dim = shape.head_dim;
  command.value_dim = shape.value_dim;
  command.tokens = static_cast<std::uint32_t>(tokens);
  command.first_token = work.first_token + static_cast<std::uint32_t>(begin * NKV_PAGE_TOKENS);
  command.sequence_id = work.sequence;
  command.layer = work.layer;
  command.kv_head = work.kv_head;
  command.key_stride = static_cast<std::uint32_t>(key_bytes);
  command.value_stride = static_cast<std::uint32_t>(value_bytes);
  command.dtype = shape.dtype;
  command.k_form = stored_form(shape, raw, true);
  command.v_form = stored_form(shape, raw, false);
  Status status = batch_->add(command);
  if (status == Status::kOk) status = run_batch();
  if (status != Status::kOk) return status;
  const nkv_completion& completion = batch_->completions().front();
  if (completion.status == NKV_STATUS_PAGE_OVERFLOW) {
    *overflow = begin + static_cast<std::size_t>(completion.detail);
    return Status::kPageOverflow;
  }
  if (completion.status != NKV_STATUS_OK) {
    return fail_completion(completion, "appending to sequence " + std::to_string(work.sequence) +
                                           ", layer " + std::to_string(work.layer) + ", KV head " +
                                           std::to_string(work.kv_head));
  }
  std::vector<nkv_page_entry> told(end - begin);
  batch_->read(command.page_list, std::as_writable_bytes(std::span(told)));
  // Not the device's: entries keep the pages that are to be released.
  if (device_->is_gone()) return Status::kNoDevice;
  std::ranges::copy(told, entries->begin() + static_cast<std::ptrdiff_t>(begin));
  return Status::kOk;
}

Status Pool::Impl::append_head(const HeadAppend& work, std::size_t begin, std::size_t end, bool raw,
                               std::vector<nkv_page_entry>* entries) {
  const std::uint64_t source_bytes =
      new_page_bytes(/*raw=*/true) + std::uint64_t{4} * NKV_PAGE_GRAIN_BYTES;
  const std::size_t run = std::max<std::size_t>(plan_.staging_bytes / source_bytes, 1);
  while (begin < end) {
    const std::size_t stop = std::min(begin + run, end);
    std::size_t overflow = 0;
    const Status status = append_staged(work, begin, stop, raw, entries, &overflow);
    if (status == Status::kPageOverflow && !raw) {
      // One page that the compact form cannot hold: it alone is stored raw, in a larger slot.
      const Status before = append_head(work, begin, overflow, false, entries);
      if (before != Status::kOk) return before;
      std::vector<Slot> slots;
      if (!slabs_.allocate(new_page_bytes(/*raw=*/true), 1, &slots)) {
        return fail(Status::kPoolFull, "appending a page in raw form");
      }
      nkv_page_entry& entry = (*entries)[overflow];
      slabs_.release(entry.page);
      entry.page = slots.front().page;
      entry.generation = slots.front().generation;
      const Status alone = append_head(work, overflow, overflow + 1, true, entries);
      if (alone != Status::kOk) return alone;
      begin = overflow + 1;
      continue;
    }
    if (status != Status::kOk) return status;
    begin = stop;
  }
  return Status::kOk;
}

Status Pool::Impl::find_heads(std::uint64_t id, std::uint16_t layer, std::size_t pages,
                              const std::string& what, std::span<HeadList>* heads) {
  const ModelShape& shape = options_.shape;
  Sequence* const sequence = find(id);
  if (sequence == nullptr || layer >= shape.layers) return fail(Status::kNotFound, what);
  *heads = std::span(sequence->heads).subspan(std::size_t{layer} * shape.kv_heads, shape.kv_heads);
  if ((heads->front().entries.size() + pages) * NKV_PAGE_TOKENS > NKV_MAX_TOKENS) {
    return fail(Status::kBadArgument, what + ": a sequence holds at most 1048576 tokens");
  }
  return Status::kOk;
}

Status Pool::Impl::find_list_room(std::span<const HeadList> heads, std::size_t pages,
                                  const std::string& what, std::vector<ListBlock>* blocks) {
  if (find_room(heads, pages, blocks)) return Status::kOk;
  return fail(Status::kPoolFull, what + ": no room for page lists");
}

Status Pool::Impl::extend_layer(std::span<HeadList> heads, std::span<const ListBlock> blocks,
                                std::span<const std::vector<nkv_page_entry>> entries,
                                Status status) {
  if (status == Status::kOk) {
    for (std::size_t head = 0; head < heads.size(); ++head) {
      extend_list(&heads[head], blocks[head], entries[head]);
    }
    return status;
  }
  give_back(blocks);
  for (const std::vector<nkv_page_entry>& list : entries) {
    for (const nkv_page_entry& entry : list) give_up(entry.page);
  }
  return status;
}

Status Pool::Impl::append(std::uint64_t id, std::uint16_t layer, const HostRows& keys,
                          const HostRows& values, std::uint32_t tokens) {
  const ModelShape& shape = options_.shape;
  const std::string what = "appending " + std::to_string(tokens) + " tokens to sequence " +
                           std::to_string(id) + ", layer " + std::to_string(layer);
  const std::size_t pages = tokens / NKV_PAGE_TOKENS;
  std::span<HeadList> heads;
  Status status = find_heads(id, layer, pages, what, &heads);
  if (status != Status::kOk) return status;
  const bool stores_values = shape.v_form != NKV_ROW_FORM_NONE;
  if (tokens % NKV_PAGE_TOKENS != 0 || keys.first == nullptr ||
      (stores_values && values.first == nullptr)) {
    return fail(Status::kBadArgument, what + ": whole pages of 64 tokens, keys and values");
  }
  const std::size_t present = heads.front().entries.size();

  std::vector<ListBlock> blocks;
  status = find_list_room(heads, pages, what, &blocks);
  if (status != Status::kOk) return status;
  std::vector<Slot> slots;
  if (!slabs_.allocate(new_page_bytes(/*raw=*/false), pages * shape.kv_heads, &slots)) {
    give_back(blocks);
    return fail(Status::kPoolFull, what);
  }
  std::vector<std::vector<nkv_page_entry>> entries(shape.kv_heads);
  for (std::size_t head = 0; head < entries.size(); ++head) {
    for (const Slot& slot : std::span(slots).subspan(head * pages, pages)) {
      nkv_page_entry entry{};
      entry.page = slot.page;
      entry.generation = slot.generation;
      entries[head].push_back(entry);
    }
  }
  for (std::uint16_t head = 0; head < shape.kv_heads && status == Status::kOk; ++head) {
    const HeadAppend work{id,   layer, head, static_cast<std::uint32_t>(present * NKV_PAGE_TOKENS),
                          keys, values};
    status = append_head(work, 0, pages, false, &entries[head]);
  }
  status = extend_layer(heads, blocks, entries, status);
  if (status == Status::kOk && options_.codes && pages != 0) keep_gains(layer);
  return status;
}

}  // namespace nearkv
