// READ and GATHER of pages that were stored, to nkv_read and the model at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "crc32c.hpp"
#include "stored_pages.hpp"

namespace nearkv::rtl_test {

/// Pages of a list.
struct Listed {
  AppendShape shape;
  std::vector<nkv_page_entry> entries;
  std::uint64_t page_list = 0;

  [[nodiscard]] std::uint32_t tokens() const {
    return static_cast<std::uint32_t>(entries.size()) * NKV_PAGE_TOKENS;
  }
};

inline void list_pages(MoveUnit& unit, Listed* listed) {
  listed->page_list = unit.allocate(listed->entries.size() * sizeof(nkv_page_entry) + 64, 64);
  listed->page_list += 8 * (listed->entries.size() % 8);
  unit.put_bytes(listed->page_list, std::as_bytes(std::span(listed->entries)));
}

/// Forms may differ from page to page, types and sizes do not.
inline Listed random_list(MoveUnit& unit, test::Random& random) {
  unit.fill_with_garbage(random);
  Listed listed{.shape = random_append_shape(random), .entries = {}, .page_list = 0};
  while (listed.entries.empty() || random() % 3 != 0) {
    AppendShape shape = random_append_shape(random);
    shape.codes = random() % 2 == 0;
    shape.head_dim = listed.shape.head_dim;
    shape.value_dim = listed.shape.value_dim;
    if (listed.shape.value_dim == 0 || shape.value_dim > shape.head_dim) {
      shape.v_form = listed.shape.value_dim == 0 ? NKV_ROW_FORM_NONE : NKV_ROW_FORM_RAW;
    }
    shape.dtype = listed.shape.dtype;
    if (shape.dtype != NKV_DTYPE_BF16) {
      shape.k_form = NKV_ROW_FORM_RAW;
      if (shape.v_form == NKV_ROW_FORM_DELTA4) shape.v_form = NKV_ROW_FORM_RAW;
    }
    for (const nkv_page_entry& entry : store_pages(unit, shape, test::pick(random, 1, 3), random)) {
      listed.entries.push_back(entry);
    }
    if (listed.entries.size() > 6) break;
  }
  std::ranges::shuffle(listed.entries, random);
  list_pages(unit, &listed);
  return listed;
}

inline std::uint64_t room_for(const Listed& listed, std::uint32_t rows) {
  return std::uint64_t{rows} * 2 * (listed.shape.head_dim + listed.shape.value_dim) + 192;
}

inline nkv_read_command read_of(MoveUnit& unit, const Listed& listed, test::Random& random) {
  nkv_read_command command{};
  command.opcode = NKV_OPCODE_READ;
  command.tensor = static_cast<std::uint8_t>(test::pick(random, 0, 2));
  command.first = test::pick(random, 0, listed.tokens() - 1);
  command.count = test::pick(random, 1, listed.tokens() - command.first);
  command.page_list = listed.page_list;
  command.result = unit.allocate(room_for(listed, command.count), 64);
  return command;
}

/// Ids of any kind: anywhere, in runs, or over and over.
inline nkv_gather_command gather_of(MoveUnit& unit, const Listed& listed, test::Random& random) {
  nkv_gather_command command{};
  command.opcode = NKV_OPCODE_GATHER;
  command.tensor = static_cast<std::uint8_t>(test::pick(random, 0, 2));
  command.tokens = listed.tokens();
  command.count = test::pick(random, 1, 150);
  command.page_list = listed.page_list;
  std::vector<std::uint32_t> ids(command.count);
  const unsigned kind = random() % 4;
  const std::uint32_t step = test::pick(random, 0, 5);
  std::uint32_t id = test::pick(random, 0, listed.tokens() - 1);
  for (std::uint32_t& next : ids) {
    next = id;
    id = kind == 0 ? test::pick(random, 0, listed.tokens() - 1) : (id + step) % listed.tokens();
  }
  if (kind == 1) std::ranges::sort(ids, std::greater{});
  command.ids = unit.allocate(4ULL * command.count + 64, 64) + 4ULL * (random() % 16);
  unit.put_bytes(command.ids, std::as_bytes(std::span(ids)));
  command.result = unit.allocate(room_for(listed, command.count), 64);
  return command;
}

inline std::uint8_t expect_read(MoveUnit& unit, const nkv_read_command& command) {
  const model::Outcome outcome = unit.run(command, &model::read);
  expect_models(unit, outcome);
  return outcome.verdict.status;
}

inline std::uint8_t expect_gather(MoveUnit& unit, const nkv_gather_command& command) {
  const model::Outcome outcome = unit.run(command, &model::gather);
  expect_models(unit, outcome);
  return outcome.verdict.status;
}

/// A stored page that becomes another, as whole as before.
class ForgedPage {
 public:
  ForgedPage(MoveUnit& unit, const nkv_page_entry& entry)
      : header(unit.get<nkv_page_header>(place_of(entry))), unit_(unit), place_(place_of(entry)) {
    const nkv_page_shape shape = model::shape_of(header);
    nkv_lay_out_page(&shape, &layout_);
  }

  [[nodiscard]] std::uint32_t bytes(nkv_page_array array) const { return layout_.bytes[array]; }

  template <typename Element>
  void put(nkv_page_array array, const std::vector<Element>& elements) {
    const std::uint64_t place = place_ + layout_.offset[array];
    unit_.put_bytes(place, std::as_bytes(std::span(elements)));
    model::stored_checksum(header, array) =
        model::crc32c(unit_.window().subspan(place, bytes(array)));
  }

  void seal() {
    model::seal(header);
    unit_.put(place_, header);
  }

  nkv_page_header header;

 private:
  MoveUnit& unit_;
  std::uint64_t place_;
  nkv_page_layout layout_{};
};

}  // namespace nearkv::rtl_test
