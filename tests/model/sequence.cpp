#include "sequence.hpp"

#include <cstring>
#include <stdexcept>
#include <string>

namespace nearkv::test {

namespace {

Sequence finish_append(Device& device, const nkv_append_command& command, uint64_t source_mark) {
  const nkv_completion completion = device.run(command);
  if (completion.status != NKV_STATUS_OK) {
    throw std::runtime_error(std::string("APPEND: ") + nkv_status_message(completion.status));
  }
  // Pages and list were allocated first, so that the source rows can be given back.
  device.release(source_mark);
  return {.page_list = command.page_list, .tokens = command.tokens};
}

}  // namespace

double normal(Random& random) { return std::normal_distribution<double>()(random); }

double uniform(Random& random, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random);
}

Rows make_rows(uint8_t dtype, uint32_t count, uint32_t dim,
               const std::function<double(uint32_t, uint32_t)>& number) {
  Rows rows{.dtype = dtype, .count = count, .dim = dim, .patterns = {}};
  rows.patterns.reserve(size_t{count} * dim);
  for (uint32_t row = 0; row < count; ++row) {
    for (uint32_t channel = 0; channel < dim; ++channel) {
      rows.patterns.push_back(encode(dtype, number(row, channel)));
    }
  }
  return rows;
}

Rows normal_rows(uint8_t dtype, uint32_t count, uint32_t dim, double deviation, Random& random) {
  std::normal_distribution<double> distribution(0.0, deviation);
  return make_rows(dtype, count, dim, [&](uint32_t, uint32_t) { return distribution(random); });
}

nkv_page_layout layout_of(uint8_t dtype, uint32_t head_dim, uint32_t value_dim, PageForm form,
                          uint8_t flags) {
  const nkv_page_shape shape{.k_form = form.k_form,
                             .v_form = form.v_form,
                             .dtype = dtype,
                             .flags = flags,
                             .head_dim = static_cast<uint16_t>(head_dim),
                             .value_dim = static_cast<uint16_t>(value_dim)};
  nkv_page_layout layout;
  nkv_lay_out_page(&shape, &layout);
  return layout;
}

uint64_t make_page_list(Device& device, uint32_t pages, uint64_t page_bytes) {
  std::vector<nkv_page_entry> entries;
  for (uint32_t page = 0; page < pages; ++page) {
    const uint64_t place = device.allocate(page_bytes);
    entries.push_back({.page = static_cast<uint32_t>(place / NKV_PAGE_GRAIN_BYTES),
                       .generation = 1,
                       .k_exponent = 0,
                       .v_exponent = 0});
  }
  return device.put<nkv_page_entry>(entries);
}

nkv_append_command append_command(const Rows& keys, uint32_t value_dim, PageForm form) {
  nkv_append_command command{};
  command.opcode = NKV_OPCODE_APPEND;
  command.head_dim = static_cast<uint16_t>(keys.dim);
  command.value_dim = static_cast<uint16_t>(value_dim);
  command.tokens = keys.count;
  command.sequence_id = 42;
  command.layer = 3;
  command.kv_head = 5;
  command.key_stride = keys.dim * nkv_element_bytes(keys.dtype);
  command.value_stride = value_dim * nkv_element_bytes(keys.dtype);
  command.dtype = keys.dtype;
  command.k_form = form.k_form;
  command.v_form = form.v_form;
  return command;
}

Sequence append(Device& device, const Rows& keys, const Rows& values, PageForm form) {
  const uint64_t page_bytes = layout_of(keys.dtype, keys.dim, values.dim, form).total_bytes;
  nkv_append_command command = append_command(keys, values.dim, form);
  command.page_list = make_page_list(device, keys.count / NKV_PAGE_TOKENS, page_bytes);
  const uint64_t source_mark = device.mark();
  command.keys = device.put<std::byte>(keys.bytes());
  if (form.v_form != NKV_ROW_FORM_NONE) command.values = device.put<std::byte>(values.bytes());
  return finish_append(device, command, source_mark);
}

Sequence append_coded(Device& device, const Rows& keys, const Rows& values, PageForm form,
                      std::span<const int8_t> gains) {
  const uint64_t page_bytes =
      layout_of(keys.dtype, keys.dim, values.dim, form, NKV_PAGE_FLAG_CODES).total_bytes;
  const uint32_t pages = keys.count / NKV_PAGE_TOKENS;
  nkv_append_command command = append_command(keys, values.dim, form);
  command.flags = NKV_APPEND_FLAG_CODES;
  const auto entries =
      device.read<nkv_page_entry>(make_page_list(device, pages, page_bytes), pages);
  command.page_list = device.allocate(entries.size() * sizeof(nkv_page_entry) + keys.dim);
  device.write<nkv_page_entry>(command.page_list, entries);
  device.write<int8_t>(command.page_list + entries.size() * sizeof(nkv_page_entry), gains);
  const uint64_t source_mark = device.mark();
  command.keys = device.put<std::byte>(keys.bytes());
  if (form.v_form != NKV_ROW_FORM_NONE) command.values = device.put<std::byte>(values.bytes());
  return finish_append(device, command, source_mark);
}

Sequence append_scaled(Device& device, const Rows& keys, std::span<const float> scales) {
  const PageForm form{.k_form = NKV_ROW_FORM_RAW, .v_form = NKV_ROW_FORM_NONE};
  const uint64_t page_bytes =
      layout_of(keys.dtype, keys.dim, 0, form, NKV_PAGE_FLAG_KEY_SCALES).total_bytes;
  nkv_append_command command = append_command(keys, 0, form);
  command.flags = NKV_APPEND_FLAG_KEY_SCALES;
  command.page_list = make_page_list(device, keys.count / NKV_PAGE_TOKENS, page_bytes);
  const uint64_t source_mark = device.mark();

  const auto elements = keys.bytes();
  const size_t row_bytes = command.key_stride;
  std::vector<std::byte> rows;
  for (size_t row = 0; row < keys.count; ++row) {
    const auto element = std::span(elements).subspan(row * row_bytes, row_bytes);
    const auto scale = std::as_bytes(scales.subspan(row, 1));
    rows.insert(rows.end(), element.begin(), element.end());
    rows.insert(rows.end(), scale.begin(), scale.end());
  }
  command.key_stride += static_cast<uint32_t>(sizeof(float));
  command.keys = device.put<std::byte>(rows);
  return finish_append(device, command, source_mark);
}

}  // namespace nearkv::test
