// Random APPENDs of every shape, for units over a memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "command_unit.hpp"
#include "nkv_abi.h"

namespace nearkv::rtl_test {

/// Forms and sizes of the pages of an APPEND, and how its source rows lie.
struct AppendShape {
  std::uint8_t dtype = NKV_DTYPE_BF16;
  std::uint8_t k_form = NKV_ROW_FORM_RAW;
  std::uint8_t v_form = NKV_ROW_FORM_RAW;
  std::uint16_t head_dim = 128;
  std::uint16_t value_dim = 128;
  bool key_scales = false;
  bool codes = false;  ///< With gains, likely ones or any.
  std::uint8_t sign_run = 0;
  unsigned gap_bytes = 0;     ///< Between rows.
  unsigned skew_bytes = 0;    ///< Of the first row, to the start of a burst.
  bool any_patterns = false;  ///< Elements of any value at all; else normal numbers.
  bool finite = false;        ///< Of what is strewn in, nothing that is not.
  bool lopsided = false;  ///< Zeros that INT8 turns into ones, which DELTA4 does not hold there.

  [[nodiscard]] std::string name() const;
  [[nodiscard]] std::uint32_t page_bytes() const;
};

/// Any shape that heads of at most 128 channels can have.
AppendShape random_append_shape(test::Random& random);

/// Elements of one row; channels differ in size.
std::vector<std::byte> random_row(const AppendShape& shape, std::size_t dim, test::Random& random);

/// A gain for each channel of the keys.
std::vector<std::byte> random_gains(const AppendShape& shape, test::Random& random);

/// Random rows in both memories, and a list of places for their pages.
template <typename Bench>
nkv_append_command prepare_append(CommandUnit<Bench>& unit, const AppendShape& shape,
                                  std::uint32_t pages, test::Random& random) {
  const std::uint32_t element_bytes = nkv_element_bytes(shape.dtype);
  nkv_append_command command{};
  command.opcode = NKV_OPCODE_APPEND;
  if (shape.key_scales) command.flags |= NKV_APPEND_FLAG_KEY_SCALES;
  if (shape.codes) command.flags |= NKV_APPEND_FLAG_CODES;
  command.sign_run = shape.sign_run;
  command.head_dim = shape.head_dim;
  command.value_dim = shape.value_dim;
  command.tokens = pages * NKV_PAGE_TOKENS;
  command.first_token = NKV_PAGE_TOKENS * test::pick(random, 0, 1000);
  command.sequence_id = random();
  command.layer = static_cast<std::uint16_t>(random());
  command.kv_head = static_cast<std::uint16_t>(random());
  command.dtype = shape.dtype;
  command.k_form = shape.k_form;
  command.v_form = shape.v_form;
  command.key_stride =
      shape.head_dim * element_bytes + (shape.key_scales ? 4 : 0) + shape.gap_bytes;
  command.keys =
      unit.allocate(std::uint64_t{command.key_stride} * command.tokens + 64, 64) + shape.skew_bytes;
  if (shape.v_form != NKV_ROW_FORM_NONE) {
    command.value_stride = shape.value_dim * element_bytes + shape.gap_bytes;
    command.values = unit.allocate(std::uint64_t{command.value_stride} * command.tokens + 64, 64) +
                     shape.skew_bytes;
  }
  for (std::uint64_t row = 0; row < command.tokens; ++row) {
    unit.put_bytes(command.keys + row * command.key_stride,
                   random_row(shape, shape.head_dim, random));
    if (shape.v_form == NKV_ROW_FORM_NONE) continue;
    unit.put_bytes(command.values + row * command.value_stride,
                   random_row(shape, shape.value_dim, random));
  }
  const std::uint64_t entries_bytes = pages * sizeof(nkv_page_entry);
  command.page_list = unit.allocate(entries_bytes + (shape.codes ? shape.head_dim : 0), 8);
  if (shape.codes) {
    unit.put_bytes(command.page_list + entries_bytes, random_gains(shape, random));
  }
  for (std::uint32_t page = 0; page < pages; ++page) {
    nkv_page_entry entry{};
    entry.page = static_cast<std::uint32_t>(
        unit.allocate(shape.page_bytes(), NKV_PAGE_GRAIN_BYTES) / NKV_PAGE_GRAIN_BYTES);
    entry.generation = static_cast<std::uint16_t>(random());
    entry.k_exponent = static_cast<std::uint8_t>(random());
    unit.put(command.page_list + page * sizeof(entry), entry);
  }
  return command;
}

}  // namespace nearkv::rtl_test
