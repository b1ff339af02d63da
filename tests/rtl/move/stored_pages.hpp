// Pages that an APPEND of the model's has left in nkv_move's memory, for commands that read them,
// and where such a command takes them.
#pragma once

#include <algorithm>
#include <vector>

#include "Vnkv_move_bench.h"
#include "append_commands.hpp"
#include "page.hpp"

namespace nearkv::rtl_test {

/// From one case to the next that is tried: NEARKV_TEST_EVERY.
inline unsigned case_step() { return static_cast<unsigned>(test::test_every()); }

using MoveUnit = CommandUnit<Vnkv_move_bench>;

inline std::uint64_t place_of(const nkv_page_entry& entry) {
  return std::uint64_t{entry.page} * NKV_PAGE_GRAIN_BYTES;
}

/// Elements that DELTA4 cannot hold, a few in each page's rows of a tensor.
inline void strew_exceptions(MoveUnit& unit, std::uint64_t rows, std::uint32_t stride,
                             std::uint32_t dim, std::uint32_t tokens, bool finite,
                             test::Random& random) {
  constexpr std::uint16_t kPatterns[] = {0x7FC0, 0x7F80, 0xFF80, 0x0001, 0x8000, 0x8040};
  for (std::uint32_t first = 0; first < tokens; first += NKV_PAGE_TOKENS) {
    const std::uint32_t count = test::pick(random, 0, NKV_EXCEPTIONS);
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t token = first + test::pick(random, 0, NKV_PAGE_TOKENS - 1);
      unit.put(rows + std::uint64_t{token} * stride + 2 * test::pick(random, 0, dim - 1),
               kPatterns[test::pick(random, finite ? 3 : 0, 5)]);
    }
  }
}

/// The entries of new pages in both memories. With `codec` they are compressed.
inline std::vector<nkv_page_entry> store_pages(MoveUnit& unit, const AppendShape& shape,
                                               std::uint32_t pages, test::Random& random,
                                               std::uint8_t codec = NKV_CODEC_NONE) {
  const nkv_append_command append = prepare_append(unit, shape, pages, random);
  if (shape.dtype == NKV_DTYPE_BF16 && !shape.any_patterns) {
    strew_exceptions(unit, append.keys, append.key_stride, shape.head_dim, append.tokens,
                     shape.finite, random);
    if (shape.v_form != NKV_ROW_FORM_NONE) {
      strew_exceptions(unit, append.values, append.value_stride, shape.value_dim, append.tokens,
                       shape.finite, random);
    }
  }
  const model::Domain domain = unit.models_domain();
  if (!model::append(domain, append).verdict.ok()) return {};
  std::uint64_t list = append.page_list;
  if (codec != NKV_CODEC_NONE) {
    nkv_pages_command command{};
    command.opcode = NKV_OPCODE_TRANSCODE;
    command.codec = codec;
    command.count = pages;
    command.slot_bytes = 2 * shape.page_bytes();
    command.source = append.page_list;
    command.destination = list = unit.allocate(pages * sizeof(nkv_page_entry), 8);
    command.result = unit.allocate(pages * sizeof(std::uint32_t), 4);
    for (std::uint32_t page = 0; page < pages; ++page) {
      nkv_page_entry entry{};
      entry.page = static_cast<std::uint32_t>(
          unit.allocate(command.slot_bytes, NKV_PAGE_GRAIN_BYTES) / NKV_PAGE_GRAIN_BYTES);
      std::memcpy(&unit.models_window()[list + page * sizeof(entry)], &entry, sizeof(entry));
    }
    if (!model::transcode(domain, command).verdict.ok()) return {};
  }
  unit.adopt_models_memory();
  std::vector<nkv_page_entry> entries(pages);
  std::memcpy(entries.data(), &unit.window()[list], pages * sizeof(nkv_page_entry));
  return entries;
}

/// What a header says of its page's bytes.
inline std::uint32_t stored_bytes(MoveUnit& unit, const nkv_page_entry& entry) {
  const auto header = unit.get<nkv_page_header>(place_of(entry));
  const nkv_page_shape shape = model::shape_of(header);
  nkv_page_layout layout{};
  nkv_lay_out_page(&shape, &layout);
  if (header.codec == NKV_CODEC_NONE) return layout.total_bytes;
  return (NKV_PAGE_HEADER_BYTES + header.payload_bytes + NKV_PAGE_GRAIN_BYTES - 1) /
         NKV_PAGE_GRAIN_BYTES * NKV_PAGE_GRAIN_BYTES;
}

inline bool can_be_found(MoveUnit& unit, const nkv_page_entry& entry) {
  return unit.get<std::uint32_t>(place_of(entry)) == NKV_PAGE_MAGIC;
}

/// Takes over what a command left of `bytes` at a place, where only no page may be found.
inline void forget_place(MoveUnit& unit, const nkv_page_entry& entry, std::uint32_t bytes) {
  const std::uint64_t place = place_of(entry);
  if (place + bytes > MoveUnit::kWindowBytes) return;
  EXPECT_FALSE(can_be_found(unit, entry)) << "place " << entry.page;
  std::ranges::copy(unit.window().subspan(place, bytes),
                    unit.models_window().subspan(place).begin());
}

/// Pages, the places that a command takes them to, and what of each place it may write.
struct Moves {
  std::vector<nkv_page_entry> sources;
  std::vector<nkv_page_entry> destinations;
  std::vector<std::uint32_t> bytes;
  nkv_pages_command command{};
};

/// Of the places from `first` on only that no page can be found there.
inline void forget_places(MoveUnit& unit, const Moves& moves, std::uint32_t first) {
  for (std::size_t page = first; page < moves.destinations.size(); ++page) {
    forget_place(unit, moves.destinations[page], moves.bytes[page]);
  }
}

/// COPY or TRANSCODE of the model's.
using Move = model::Outcome (*)(const model::Domain&, const nkv_pages_command&);

/// As the model, but for places behind the page that stops both.
inline void expect_moved_as_far(MoveUnit& unit, const Moves& moves, Move execute) {
  const model::Outcome outcome = unit.run(moves.command, execute);
  if (!unit.models_outcome().verdict.ok()) forget_places(unit, moves, outcome.count);
  expect_models(unit, outcome);
}

/// As the model if only the pages before `page` had been asked for.
inline void expect_stopped_at(MoveUnit& unit, const Moves& moves, std::uint32_t page,
                              std::uint8_t status, Move execute) {
  const model::Outcome outcome =
      unit.run(moves.command, [&](const model::Domain& domain, nkv_pages_command command) {
        command.count = page;
        return page == 0 ? model::Outcome{} : execute(domain, command);
      });
  EXPECT_TRUE(unit.models_outcome().verdict.ok());
  EXPECT_EQ(int{outcome.verdict.status}, int{status});
  EXPECT_EQ(outcome.verdict.detail, page);
  EXPECT_EQ(outcome.count, page);
  forget_places(unit, moves, page);
  EXPECT_TRUE(std::ranges::equal(unit.window(), unit.models_window()));
}

/// How many pages can be found in their places: each is the model's, to the byte.
inline unsigned expect_found_whole(MoveUnit& unit, const Moves& moves) {
  unsigned found = 0;
  for (const nkv_page_entry& entry : moves.destinations) {
    if (!can_be_found(unit, entry)) continue;
    ++found;
    const std::uint32_t bytes = stored_bytes(unit, entry);
    EXPECT_TRUE(std::ranges::equal(unit.window().subspan(place_of(entry), bytes),
                                   unit.models_window().subspan(place_of(entry), bytes)))
        << "place " << entry.page;
  }
  return found;
}

/// Changes a bit somewhere in a page: in the header, every fourth time.
inline void damage(MoveUnit& unit, const nkv_page_entry& entry, unsigned number,
                   test::Random& random) {
  const std::uint32_t at =
      number % 4 == 0 ? test::pick(random, 0, NKV_PAGE_HEADER_BYTES - 1)
                      : test::pick(random, NKV_PAGE_HEADER_BYTES, stored_bytes(unit, entry) - 1);
  const std::uint64_t address = place_of(entry) + at;
  unit.put(address, static_cast<std::uint8_t>(unit.get<std::uint8_t>(address) ^ 1U << number % 8));
}

}  // namespace nearkv::rtl_test
