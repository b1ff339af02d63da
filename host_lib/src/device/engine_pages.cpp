// APPEND, READ, GATHER and the commands on whole pages.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "device/engine.hpp"
#include "page/encode.hpp"
#include "page/maintain.hpp"
#include "page/page_reader.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kGrainPages = 4;

Outcome bad_field(std::size_t offset) { return {Status::kBadField, offset}; }

std::uint64_t section(std::uint64_t bytes) {
  return (bytes + NKV_BURST_BYTES - 1) / NKV_BURST_BYTES * NKV_BURST_BYTES;
}

/// Rules of APPEND that join several fields.
Outcome check_append(const nkv_append_command& command, const nkv_page_shape& shape) {
  using Command = nkv_append_command;
  const bool scaled = (shape.flags & NKV_PAGE_FLAG_KEY_SCALES) != 0;
  const std::uint64_t key_bytes = nkv_row_bytes(NKV_ROW_FORM_RAW, command.dtype, command.head_dim) +
                                  (scaled ? sizeof(float) : 0);
  const bool bf16 = command.dtype == NKV_DTYPE_BF16;
  if (command.dtype == NKV_DTYPE_FP32) return bad_field(offsetof(Command, dtype));
  if (command.k_form == NKV_ROW_FORM_NONE || (command.k_form == NKV_ROW_FORM_DELTA4 && !bf16)) {
    return bad_field(offsetof(Command, k_form));
  }
  if (command.v_form == NKV_ROW_FORM_DELTA4 && !bf16) return bad_field(offsetof(Command, v_form));
  if (command.key_stride < key_bytes) return bad_field(offsetof(Command, key_stride));
  if (command.v_form == NKV_ROW_FORM_NONE) {
    return command.value_dim > command.head_dim ? bad_field(offsetof(Command, value_dim))
                                                : Outcome{};
  }
  if (command.value_dim == 0) return bad_field(offsetof(Command, value_dim));
  const std::uint64_t value_bytes =
      nkv_row_bytes(NKV_ROW_FORM_RAW, command.dtype, command.value_dim);
  return command.value_stride < value_bytes ? bad_field(offsetof(Command, value_stride))
                                            : Outcome{};
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

/// Both tensors' outputs, sized by the first page that is read. Empty spans where nothing is
/// wanted.
struct ReadOutput {
  RowOutput keys;
  RowOutput values;

  /// False if it does not fit the window.
  bool place(const Window& window, std::uint64_t address, std::uint8_t tensor, std::size_t count,
             const PageReader& page) {
    std::uint64_t key_bytes = 0;
    if (tensor != NKV_TENSOR_VALUES) {
      keys.row_bytes = page.key_bytes();
      key_bytes = section(count * keys.row_bytes);
      keys.bytes = window.at(address, count * keys.row_bytes);
      if (keys.bytes.empty()) return false;
    }
    if (tensor != NKV_TENSOR_KEYS) {
      values.row_bytes = page.value_bytes();
      values.bytes = window.at(address + key_bytes, count * values.row_bytes);
      if (values.bytes.empty()) return false;
    }
    return true;
  }

  /// Whether a further page has rows of the same size.
  [[nodiscard]] bool suits(const PageReader& page) const {
    return (keys.bytes.empty() || keys.row_bytes == page.key_bytes()) &&
           (values.bytes.empty() || values.row_bytes == page.value_bytes());
  }

  void copy(const PageReader& page, std::size_t token, std::size_t index) const {
    if (!keys.bytes.empty()) page.read_key(token, keys.row(index));
    if (!values.bytes.empty()) page.read_value(token, values.row(index));
  }
};

/// Reads `tokens` of a list, in order, to `output`; consecutive tokens of a page open it once.
Outcome copy_rows(const PageList& list, const Window& window, std::uint64_t output,
                  std::uint8_t tensor, std::span<const std::uint32_t> tokens) {
  ReadOutput out;
  PageReader page;
  std::size_t open_page = ~std::size_t{0};
  for (std::size_t index = 0; index < tokens.size(); ++index) {
    const std::size_t wanted = tokens[index] / NKV_PAGE_TOKENS;
    if (wanted != open_page) {
      const Status status = page.open(list, wanted, tensor);
      if (status != Status::kOk) return {status, wanted};
      if (index == 0 && !out.place(window, output, tensor, tokens.size(), page)) {
        return {Status::kAddressFault, output};
      }
      if (!out.suits(page)) return {Status::kBadPage, wanted};
      open_page = wanted;
    }
    out.copy(page, tokens[index] % NKV_PAGE_TOKENS, index);
  }
  return {};
}

/// Keys at plane precision, as bf16.
Outcome copy_plane_rows(const PageList& list, const Window& window,
                        const nkv_read_command& command) {
  PlaneReader page;
  std::span<std::byte> out;
  std::size_t dim = 0;
  for (std::uint64_t index = 0; index < command.count; ++index) {
    const std::uint64_t token = command.first + index;
    const std::size_t wanted = token / NKV_PAGE_TOKENS;
    if (index == 0 || token % NKV_PAGE_TOKENS == 0) {
      const Status status = page.open(list, wanted, command.planes);
      if (status != Status::kOk) return {status, wanted};
      if (index == 0) {
        dim = page.dim();
        out = window.at(command.result, std::uint64_t{command.count} * dim * sizeof(std::uint16_t));
        if (out.empty()) return {Status::kAddressFault, command.result};
      }
      if (page.dim() != dim) return {Status::kBadPage, wanted};
    }
    page.read_key(token % NKV_PAGE_TOKENS,
                  reinterpret_cast<std::uint16_t*>(out.data()) + index * dim);
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
  shape.flags = (command.flags & NKV_APPEND_FLAG_KEY_SCALES) != 0 ? NKV_PAGE_FLAG_KEY_SCALES : 0;
  shape.head_dim = command.head_dim;
  shape.value_dim = command.value_dim;
  Outcome outcome = check_append(command, shape);
  if (!outcome.ok()) return outcome;

  const std::size_t pages = command.tokens / NKV_PAGE_TOKENS;
  const std::uint64_t key_bytes = nkv_row_bytes(NKV_ROW_FORM_RAW, command.dtype, command.head_dim) +
                                  (shape.flags != 0 ? sizeof(float) : 0);
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
  const std::span<std::byte> table = window.at(command.page_list, pages * sizeof(nkv_page_entry));
  if (table.empty()) return {Status::kAddressFault, command.page_list};
  std::vector<nkv_page_entry> entries(pages);
  std::memcpy(entries.data(), table.data(), table.size());
  struct nkv_page_layout layout{};
  nkv_lay_out_page(&shape, &layout);
  std::vector<std::span<std::byte>> slots(pages);
  for (std::size_t page = 0; page < pages; ++page) {
    slots[page] =
        window.at(std::uint64_t{entries[page].page} * NKV_PAGE_GRAIN_BYTES, layout.total_bytes);
    if (slots[page].empty()) return {Status::kAddressFault, page};
  }

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
      const SourceRows key_rows{keys.data() + first * command.key_stride, command.key_stride};
      const SourceRows value_rows{
          stores_values ? values.data() + first * command.value_stride : nullptr,
          command.value_stride};
      const Status status =
          encode_page(shape, key_rows, value_rows, identity, slots[page], &entries[page]);
      if (status != Status::kOk) fault.record(page, status);
    }
  });
  if (fault.any()) return fault.outcome();
  // All pages are complete before the first can be found.
  for (std::size_t page = 0; page < pages; ++page) publish_page(slots[page], shape.flags);
  std::memcpy(table.data(), entries.data(), table.size());
  completion->count = static_cast<std::uint32_t>(pages);
  return {};
}

Outcome Engine::read(const nkv_read_command& command, const Window& window,
                     nkv_completion* completion) {
  if (command.planes != 0 && command.tensor != NKV_TENSOR_KEYS) {
    return bad_field(offsetof(nkv_read_command, planes));
  }
  const std::uint64_t end = std::uint64_t{command.first} + command.count;
  if (end > NKV_MAX_TOKENS) return bad_field(offsetof(nkv_read_command, count));
  Outcome outcome = list_.load(window, command.page_list, end);
  if (!outcome.ok()) return outcome;
  if (command.planes != 0) {
    outcome = copy_plane_rows(list_, window, command);
  } else {
    std::vector<std::uint32_t> tokens(command.count);
    for (std::uint32_t i = 0; i < command.count; ++i) tokens[i] = command.first + i;
    outcome = copy_rows(list_, window, command.result, command.tensor, tokens);
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
  if (*std::ranges::max_element(ids) >= command.tokens) {
    return bad_field(offsetof(nkv_gather_command, ids));
  }
  Outcome outcome = list_.load(window, command.page_list, command.tokens);
  if (outcome.ok()) outcome = copy_rows(list_, window, command.result, command.tensor, ids);
  if (outcome.ok()) completion->count = command.count;
  return outcome;
}

Outcome Engine::maintain(const nkv_pages_command& command, const Window& window,
                         nkv_completion* completion) {
  const std::uint64_t table_bytes = std::uint64_t{command.count} * sizeof(nkv_page_entry);
  const std::span<std::byte> source = window.at(command.source, table_bytes);
  if (source.empty()) return {Status::kAddressFault, command.source};
  std::vector<nkv_page_entry> entries(command.count);
  std::memcpy(entries.data(), source.data(), source.size());
  std::span<std::byte> destination;
  std::vector<nkv_page_entry> targets(command.count);
  if (command.opcode == NKV_OPCODE_COPY) {
    destination = window.at(command.destination, table_bytes);
    if (destination.empty()) return {Status::kAddressFault, command.destination};
    std::memcpy(targets.data(), destination.data(), destination.size());
  } else if (command.opcode == NKV_OPCODE_TRANSCODE) {
    return {Status::kUnsupported, 0};
  }
  for (std::uint32_t page = 0; page < command.count; ++page) {
    Status status = Status::kOk;
    switch (command.opcode) {
      case NKV_OPCODE_SCRUB:
        status = scrub_page(window, entries[page]);
        break;
      case NKV_OPCODE_ERASE:
        status = erase_page(window, entries[page]);
        break;
      default:
        status = copy_page(window, entries[page], &targets[page]);
        if (status == Status::kOk) {
          std::memcpy(destination.data() + page * sizeof(nkv_page_entry), &targets[page],
                      sizeof(nkv_page_entry));
        }
    }
    if (status != Status::kOk) return {status, page};
    completion->count = page + 1;
  }
  return {};
}

}  // namespace nearkv
