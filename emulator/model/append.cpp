// APPEND: rows to pages, all or nothing.
#include <vector>

#include "commands.hpp"
#include "page.hpp"
#include "page_builder.hpp"
#include "places.hpp"
#include "transform.hpp"

namespace nearkv::model {

namespace {

Verdict check_fields(const nkv_append_command& command) {
  Verdict verdict;
  verdict.status = nkv_check_append_command(&command, &verdict.detail);
  if (!verdict.ok()) return verdict;
  const bool is_bf16 = command.dtype == NKV_DTYPE_BF16;
  const bool has_values = command.v_form != NKV_ROW_FORM_NONE;
  if (has_values ? command.value_dim == 0 : command.value_dim > command.head_dim) {
    return bad_field(offsetof(nkv_append_command, value_dim));
  }
  if (command.dtype == NKV_DTYPE_FP32) return bad_field(offsetof(nkv_append_command, dtype));
  if (command.k_form == NKV_ROW_FORM_NONE || (command.k_form == NKV_ROW_FORM_DELTA4 && !is_bf16)) {
    return bad_field(offsetof(nkv_append_command, k_form));
  }
  if (command.v_form == NKV_ROW_FORM_DELTA4 && !is_bf16) {
    return bad_field(offsetof(nkv_append_command, v_form));
  }
  return {};
}

bool has_codes(const nkv_append_command& command) {
  return (command.flags & NKV_APPEND_FLAG_CODES) != 0;
}

uint64_t entries_bytes(const nkv_append_command& command) {
  return command.tokens / NKV_PAGE_TOKENS * sizeof(nkv_page_entry);
}

// Rows of one tensor in the source, as the command describes them.
struct SourceTensor {
  uint64_t address;
  uint64_t stride;
  uint64_t row_bytes;       // Elements of a row.
  uint64_t trailing_bytes;  // What follows them in the row: the key's scale.

  [[nodiscard]] uint64_t span_bytes(uint64_t rows) const {
    return (rows - 1) * stride + row_bytes + trailing_bytes;
  }
};

SourceTensor key_source(const nkv_append_command& command) {
  const bool has_scales = (command.flags & NKV_APPEND_FLAG_KEY_SCALES) != 0;
  return {.address = command.keys,
          .stride = command.key_stride,
          .row_bytes = uint64_t{command.head_dim} * nkv_element_bytes(command.dtype),
          .trailing_bytes = has_scales ? sizeof(float) : 0};
}

SourceTensor value_source(const nkv_append_command& command) {
  return {.address = command.values,
          .stride = command.value_stride,
          .row_bytes = uint64_t{command.value_dim} * nkv_element_bytes(command.dtype),
          .trailing_bytes = 0};
}

nkv_page_header identity_of(const Domain& domain, const nkv_append_command& command,
                            const nkv_page_entry& entry, uint32_t page) {
  nkv_page_header header{};
  header.magic = NKV_PAGE_MAGIC;
  header.version = NKV_PAGE_VERSION;
  header.state = NKV_PAGE_STATE_CLOSED;
  if ((command.flags & NKV_APPEND_FLAG_KEY_SCALES) != 0) header.flags |= NKV_PAGE_FLAG_KEY_SCALES;
  if (has_codes(command)) header.flags |= NKV_PAGE_FLAG_CODES;
  header.k_form = command.k_form;
  header.v_form = command.v_form;
  header.dtype = command.dtype;
  header.codec = NKV_CODEC_NONE;
  header.head_dim = command.head_dim;
  header.value_dim = command.value_dim;
  header.generation = entry.generation;
  header.tokens = NKV_PAGE_TOKENS;
  header.sequence_id = command.sequence_id;
  header.first_token = command.first_token + page * NKV_PAGE_TOKENS;
  header.layer = command.layer;
  header.kv_head = command.kv_head;
  header.tenant = domain.tenant;
  return header;
}

// The rows of one page, packed.
struct PackedRows {
  std::vector<std::byte> elements;
  std::vector<float> trailing;
};

PackedRows pack(const Window& window, const SourceTensor& source, uint64_t first_row) {
  PackedRows packed;
  for (uint64_t row = first_row; row < first_row + NKV_PAGE_TOKENS; ++row) {
    const uint64_t address = source.address + row * source.stride;
    const auto elements = window.at(address, source.row_bytes);
    packed.elements.insert(packed.elements.end(), elements.begin(), elements.end());
    if (source.trailing_bytes != 0) {
      packed.trailing.push_back(window.load<float>(address + source.row_bytes, 1)[0]);
    }
  }
  return packed;
}

Verdict check_addresses(const Domain& domain, const nkv_append_command& command) {
  const Verdict keys =
      domain.window.check(command.keys, key_source(command).span_bytes(command.tokens));
  if (!keys.ok()) return keys;
  if (command.v_form != NKV_ROW_FORM_NONE) {
    const Verdict values =
        domain.window.check(command.values, value_source(command).span_bytes(command.tokens));
    if (!values.ok()) return values;
  }
  const uint64_t gains_bytes = has_codes(command) ? command.head_dim : 0;
  return domain.window.check(command.page_list, entries_bytes(command) + gains_bytes);
}

Verdict check_places(const Domain& domain, const nkv_append_command& command,
                     std::span<const nkv_page_entry> entries) {
  const nkv_page_shape shape = shape_of(identity_of(domain, command, {}, 0));
  nkv_page_layout layout;
  nkv_lay_out_page(&shape, &layout);
  const SourceTensor keys = key_source(command);
  std::vector<Place> places = {
      {keys.address, keys.address + keys.span_bytes(command.tokens), false}};
  if (command.v_form != NKV_ROW_FORM_NONE) {
    const SourceTensor values = value_source(command);
    places.push_back({values.address, values.address + values.span_bytes(command.tokens), false});
  }
  for (size_t page = 0; page < entries.size(); ++page) {
    const uint64_t address = uint64_t{entries[page].page} * NKV_PAGE_GRAIN_BYTES;
    if (!domain.window.contains(address, layout.total_bytes)) {
      return {NKV_STATUS_ADDRESS_FAULT, page};
    }
    places.push_back({address, address + layout.total_bytes, true});
  }
  return collide(places) ? bad_field(offsetof(nkv_append_command, page_list)) : Verdict{};
}

}  // namespace

Outcome append(const Domain& domain, const nkv_append_command& command) {
  Verdict verdict = check_fields(command);
  if (!verdict.ok()) return failure(verdict);
  verdict = check_addresses(domain, command);
  if (!verdict.ok()) return failure(verdict);
  const uint32_t pages = command.tokens / NKV_PAGE_TOKENS;
  auto entries = domain.window.load<nkv_page_entry>(command.page_list, pages);
  verdict = check_places(domain, command, entries);
  if (!verdict.ok()) return failure(verdict);

  const auto gains = domain.window.load<int8_t>(command.page_list + entries_bytes(command),
                                                has_codes(command) ? command.head_dim : 0);
  const uint32_t sign_run = command.sign_run == 0 ? NKV_SIGN_RUN : command.sign_run;
  std::vector<BuiltPage> built;
  for (uint32_t page = 0; page < pages; ++page) {
    const uint64_t first_row = uint64_t{page} * NKV_PAGE_TOKENS;
    const PackedRows keys = pack(domain.window, key_source(command), first_row);
    const PackedRows values = command.v_form == NKV_ROW_FORM_NONE
                                  ? PackedRows{}
                                  : pack(domain.window, value_source(command), first_row);
    const nkv_page_header identity = identity_of(domain, command, entries[page], page);
    const uint32_t place = identity.first_token / NKV_PAGE_TOKENS;
    const auto built_page = build_page(identity, {.keys = keys.elements,
                                                  .values = values.elements,
                                                  .key_scales = keys.trailing,
                                                  .gains = gains,
                                                  .sign_set = sign_set_of(place, sign_run)});
    if (!built_page) return failure({NKV_STATUS_PAGE_OVERFLOW, page});
    built.push_back(*built_page);
  }

  for (uint32_t page = 0; page < pages; ++page) {
    publish(domain.window, built[page], &entries[page]);
  }
  domain.window.store<nkv_page_entry>(command.page_list, entries);
  return {.count = pages};
}

}  // namespace nearkv::model
