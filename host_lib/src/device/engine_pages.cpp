// APPEND, READ and GATHER.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "codes/code_form.hpp"
#include "codes/code_reader.hpp"
#include "device/engine.hpp"
#include "page/encode.hpp"
#include "page/page_reader.hpp"
#include "page/places.hpp"
#include "round_up.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kGrainPages = 4;

/// Rules of APPEND that join several fields.
Outcome check_append(const nkv_append_command& command) {
  using Command = nkv_append_command;
  const bool bf16 = command.dtype == NKV_DTYPE_BF16;
  const bool fits = command.v_form == NKV_ROW_FORM_NONE ? command.value_dim <= command.head_dim
                                                        : command.value_dim != 0;
  if (!fits) return bad_field(offsetof(Command, value_dim));
  if (command.dtype == NKV_DTYPE_FP32) return bad_field(offsetof(Command, dtype));
  if (command.k_form == NKV_ROW_FORM_NONE || (command.k_form == NKV_ROW_FORM_DELTA4 && !bf16)) {
    return bad_field(offsetof(Command, k_form));
  }
  if (command.v_form == NKV_ROW_FORM_DELTA4 && !bf16) return bad_field(offsetof(Command, v_form));
  return {};
}

/// Rows [tokens] of `stride` bytes, the last one only `row_bytes` long.
std::span<std::byte> rows_at(const Window& window, std::uint64_t address, std::uint64_t tokens,
                             std::uint64_t stride, std::uint64_t row_bytes) {
  return window.at(address, (tokens - 1) * stride + row_bytes);
}

/// Where a tensor's rows go in the output of READ and GATHER.
struct RowOutput {
  std::span<std::byte> bytes;
  std::size_t row_bytes = 0;

  [[nodiscard]] std::span<std::byte> row(std::size_t index) const {
    return bytes.subspan(index * row_bytes, row_bytes);
  }
};

/// What READ and GATHER ask for.
struct RowRequest {
  std::span<const std::uint32_t> tokens;
  std::uint64_t result = 0;
  std::vector<Place> places;  ///< Of all that is read: page list, ids, touched pages.
};

/// Both tensors' outputs. Empty spans where nothing is wanted.
struct ReadOutput {
  RowOutput keys;
  RowOutput values;

  /// kAddressFault if it does not fit the window, kBadField if it lies on what is read.
  Outcome place(const Window& window, RowRequest request, std::uint8_t tensor,
                std::size_t key_bytes, std::size_t value_bytes) {
    const std::size_t count = request.tokens.size();
    std::uint64_t end = request.result;
    if (tensor != NKV_TENSOR_VALUES) {
      keys = {window.at(end, count * key_bytes), key_bytes};
      if (keys.bytes.empty()) return {Status::kAddressFault, request.result};
      end += count * key_bytes;
    }
    if (tensor != NKV_TENSOR_KEYS) {
      end = request.result + whole_bursts(end - request.result);
      values = {window.at(end, count * value_bytes), value_bytes};
      if (values.bytes.empty()) return {Status::kAddressFault, request.result};
      end += count * value_bytes;
    }
    request.places.push_back({request.result, end, true});
    if (collide(std::move(request.places))) return bad_field(offsetof(nkv_read_command, result));
    return {};
  }
};

Place place_of_list(std::uint64_t address, const PageList& list) {
  return {address, address + list.pages() * sizeof(nkv_page_entry), false};
}

/// Opens the pages that the request's tokens lie in, each once and in list order, and adds their
/// places; the others stay unopened. All must have rows of the same kind. `Reader`: PageReader
/// or CodeReader, with what its open() takes.
template <typename Reader, typename Selector>
Outcome open_pages(const PageList& list, const Selector& selector, RowRequest* request,
                   std::vector<Reader>* pages) {
  std::vector<bool> touched(list.pages());
  for (const std::uint32_t token : request->tokens) touched[token / NKV_PAGE_TOKENS] = true;
  pages->resize(list.pages());
  const nkv_page_header* first = nullptr;
  for (std::size_t index = 0; index < touched.size(); ++index) {
    if (!touched[index]) continue;
    Reader& page = (*pages)[index];
    Status status = page.open(list, index, selector);
    if (status != Status::kOk) return {status, index};
    const nkv_page_header& header = page.header();
    if (first == nullptr) first = &header;
    if (header.dtype != first->dtype || header.head_dim != first->head_dim ||
        header.value_dim != first->value_dim) {
      return {Status::kBadPage, index};
    }
    status = page.verify();
    if (status != Status::kOk) return {status, index};
    const std::uint64_t address = address_of(list.entry(index));
    request->places.push_back({address, address + page_bytes(header), false});
  }
  return {};
}

/// Rows of tokens of a list, in order, as a Reader gives them; nothing is written on an error.
template <typename Reader, typename Selector>
Outcome copy_rows(const PageList& list, const Window& window, std::uint8_t tensor,
                  const Selector& selector, RowRequest request) {
  const std::span<const std::uint32_t> tokens = request.tokens;
  std::vector<Reader> pages;
  Outcome outcome = open_pages(list, selector, &request, &pages);
  if (!outcome.ok()) return outcome;
  const Reader& first = pages[tokens.front() / NKV_PAGE_TOKENS];
  ReadOutput out;
  outcome = out.place(window, std::move(request), tensor, first.key_bytes(), first.value_bytes());
  if (!outcome.ok()) return outcome;
  for (std::size_t index = 0; index < tokens.size(); ++index) {
    const Reader& page = pages[tokens[index] / NKV_PAGE_TOKENS];
    const std::size_t token = tokens[index] % NKV_PAGE_TOKENS;
    if (tensor != NKV_TENSOR_VALUES) page.read_key(token, out.keys.row(index));
    if (tensor != NKV_TENSOR_KEYS) page.read_value(token, out.values.row(index));
  }
  return {};
}

}  // namespace

Outcome Engine::append(const nkv_append_command& command, const Window& window,
                       nkv_completion* completion) {
  nkv_page_shape shape{};
  shape.k_form = command.k_form;
  shape.v_form = command.v_form;
  shape.dtype = command.dtype;
  const bool has_scales = (command.flags & NKV_APPEND_FLAG_KEY_SCALES) != 0;
  const bool has_codes = (command.flags & NKV_APPEND_FLAG_CODES) != 0;
  shape.flags = static_cast<std::uint8_t>((has_scales ? NKV_PAGE_FLAG_KEY_SCALES : 0U) |
                                          (has_codes ? NKV_PAGE_FLAG_CODES : 0U));
  shape.head_dim = command.head_dim;
  shape.value_dim = command.value_dim;
  if (const Outcome outcome = check_append(command); !outcome.ok()) return outcome;

  const std::size_t pages = command.tokens / NKV_PAGE_TOKENS;
  const std::uint64_t key_bytes = nkv_row_bytes(NKV_ROW_FORM_RAW, command.dtype, command.head_dim) +
                                  (has_scales ? sizeof(float) : 0);
  const std::uint64_t value_bytes =
      nkv_row_bytes(NKV_ROW_FORM_RAW, command.dtype, command.value_dim);
  const bool stores_values = command.v_form != NKV_ROW_FORM_NONE;
  const std::span<std::byte> keys =
      rows_at(window, command.keys, command.tokens, command.key_stride, key_bytes);
  const std::span<std::byte> values =
      stores_values
          ? rows_at(window, command.values, command.tokens, command.value_stride, value_bytes)
          : std::span<std::byte>();
  if (keys.empty()) return {Status::kAddressFault, command.keys};
  if (stores_values && values.empty()) return {Status::kAddressFault, command.values};
  const std::size_t entries_bytes = pages * sizeof(nkv_page_entry);
  std::vector<std::int8_t> gains(has_codes ? command.head_dim : 0);
  const std::span<std::byte> table = window.at(command.page_list, entries_bytes + gains.size());
  if (table.empty()) return {Status::kAddressFault, command.page_list};
  std::vector<nkv_page_entry> entries(pages);
  std::memcpy(entries.data(), table.data(), entries_bytes);
  std::memcpy(gains.data(), table.data() + entries_bytes, gains.size());
  struct nkv_page_layout layout{};
  nkv_lay_out_page(&shape, &layout);
  std::vector<std::span<std::byte>> slots(pages);
  std::vector<Place> places = {{command.keys, command.keys + keys.size(), false},
                               {command.values, command.values + values.size(), false}};
  for (std::size_t page = 0; page < pages; ++page) {
    slots[page] = window.at(address_of(entries[page]), layout.total_bytes);
    if (slots[page].empty()) return {Status::kAddressFault, page};
    places.push_back(
        {address_of(entries[page]), address_of(entries[page]) + slots[page].size(), true});
  }
  if (collide(std::move(places))) return bad_field(offsetof(nkv_append_command, page_list));

  Persistence& persistence = window.persistence();
  FirstFault fault;
  workers_->for_each(pages, kGrainPages, [&](unsigned, std::size_t begin, std::size_t end) {
    for (std::size_t page = begin; page < end && !fault.precludes(page); ++page) {
      PageIdentity identity;
      identity.sequence = command.sequence_id;
      identity.first_token =
          command.first_token + static_cast<std::uint32_t>(page * NKV_PAGE_TOKENS);
      identity.layer = command.layer;
      identity.kv_head = command.kv_head;
      identity.tenant = window.tenant();
      identity.generation = entries[page].generation;
      const std::size_t first = page * NKV_PAGE_TOKENS;
      const PageContents contents{
          {keys.data() + first * command.key_stride, command.key_stride},
          {stores_values ? values.data() + first * command.value_stride : nullptr,
           command.value_stride},
          gains,
          sign_set_of(identity.first_token / NKV_PAGE_TOKENS, command.sign_run)};
      vacate_slot(slots[page], &persistence);
      const Status status = encode_page(shape, contents, identity, slots[page], &entries[page]);
      if (status != Status::kOk) fault.record(page, status);
      persistence.write_back(slots[page]);
    }
    persistence.fence();  // Of what this member wrote.
  });
  if (fault.any()) return fault.outcome();
  // All pages are complete and durable before the first can be found.
  for (const std::span<std::byte> slot : slots) publish_page(slot, shape.flags, window);
  persistence.fence();
  std::memcpy(table.data(), entries.data(), entries_bytes);
  completion->count = static_cast<std::uint32_t>(pages);
  return {};
}

Outcome Engine::read(const nkv_read_command& command, const Window& window,
                     nkv_completion* completion) {
  const bool from_codes = (command.flags & NKV_READ_FLAG_CODES) != 0;
  if (from_codes != (command.planes != 0)) {
    return bad_field(offsetof(nkv_read_command, planes));
  }
  const std::uint64_t end = std::uint64_t{command.first} + command.count;
  if (end > NKV_MAX_TOKENS) return bad_field(offsetof(nkv_read_command, count));
  Outcome outcome = list_.load(window, command.page_list, end);
  if (!outcome.ok()) return outcome;
  std::vector<std::uint32_t> tokens(command.count);
  std::iota(tokens.begin(), tokens.end(), command.first);
  RowRequest request{tokens, command.result, {place_of_list(command.page_list, list_)}};
  if (from_codes) {
    outcome =
        copy_rows<CodeReader>(list_, window, command.tensor,
                              CodeSelection{command.tensor, command.planes}, std::move(request));
  } else {
    outcome =
        copy_rows<PageReader>(list_, window, command.tensor, command.tensor, std::move(request));
  }
  if (outcome.ok()) completion->count = command.count;
  return outcome;
}

Outcome Engine::gather(const nkv_gather_command& command, const Window& window,
                       nkv_completion* completion) {
  const std::span<std::byte> bytes =
      window.at(command.ids, std::uint64_t{command.count} * sizeof(std::uint32_t));
  if (bytes.empty()) return {Status::kAddressFault, command.ids};
  std::vector<std::uint32_t> ids(command.count);
  std::memcpy(ids.data(), bytes.data(), bytes.size());
  const std::uint32_t last = *std::ranges::max_element(ids);
  if (last >= command.tokens) return bad_field(offsetof(nkv_gather_command, ids));
  Outcome outcome = list_.load(window, command.page_list, std::uint64_t{last} + 1);
  if (outcome.ok()) {
    const Place ids_place{command.ids, command.ids + bytes.size(), false};
    outcome = copy_rows<PageReader>(
        list_, window, command.tensor, command.tensor,
        {ids, command.result, {place_of_list(command.page_list, list_), ids_place}});
  }
  if (outcome.ok()) completion->count = command.count;
  return outcome;
}

}  // namespace nearkv
