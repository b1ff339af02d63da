// nkv_copy against the model's copy: pages of every shape and codec, to the byte; what it leaves
// when places or pages are wrong or everything stops in the middle; and its cycles per burst.
#include <gtest/gtest.h>

#include <array>

#include "stored_pages.hpp"

namespace nearkv::rtl_test {
namespace {

Moves copies_of(MoveUnit& unit, std::vector<nkv_page_entry> sources, test::Random& random) {
  // More than any page, so that a page moved next to another one lies on no list.
  constexpr std::uint64_t kGapBytes = 1 << 16;
  Moves copies{.sources = std::move(sources), .destinations = {}, .bytes = {}, .command = {}};
  copies.command.opcode = NKV_OPCODE_COPY;
  copies.command.count = static_cast<std::uint32_t>(copies.sources.size());
  const std::uint64_t list_bytes = copies.command.count * sizeof(nkv_page_entry);
  unit.allocate(kGapBytes, 8);
  copies.command.source = unit.allocate(list_bytes, 8);
  copies.command.destination = unit.allocate(list_bytes + 8, 8) + random() % 2 * 8;
  unit.allocate(kGapBytes, 8);
  for (const nkv_page_entry& source : copies.sources) {
    copies.bytes.push_back(stored_bytes(unit, source));
    nkv_page_entry entry{};
    entry.page = static_cast<std::uint32_t>(
        unit.allocate(copies.bytes.back(), NKV_PAGE_GRAIN_BYTES) / NKV_PAGE_GRAIN_BYTES);
    entry.generation = static_cast<std::uint16_t>(random());
    copies.destinations.push_back(entry);
  }
  unit.put_bytes(copies.command.source, std::as_bytes(std::span(copies.sources)));
  unit.put_bytes(copies.command.destination, std::as_bytes(std::span(copies.destinations)));
  return copies;
}

/// Bytes of pages that belong to no array are copied too, whatever they are.
void fill_gaps(MoveUnit& unit, const nkv_page_entry& entry, test::Random& random) {
  const auto header = unit.get<nkv_page_header>(place_of(entry));
  if (header.codec != NKV_CODEC_NONE) return;
  const nkv_page_shape shape = model::shape_of(header);
  nkv_page_layout layout{};
  nkv_lay_out_page(&shape, &layout);
  std::vector<bool> is_used(layout.total_bytes);
  std::fill_n(is_used.begin(), NKV_PAGE_HEADER_BYTES, true);
  for (int array = 0; array < NKV_PAGE_ARRAY_COUNT; ++array) {
    std::fill_n(is_used.begin() + layout.offset[array], layout.bytes[array], true);
  }
  for (std::uint32_t at = 0; at < layout.total_bytes; ++at) {
    if (!is_used[at]) unit.put(place_of(entry) + at, static_cast<std::uint8_t>(random()));
  }
}

/// A few pages of one shape after the other; some are compressed.
Moves random_copies(MoveUnit& unit, test::Random& random) {
  unit.fill_with_garbage(random);
  std::vector<nkv_page_entry> sources;
  while (sources.empty() || random() % 3 != 0) {
    AppendShape shape = random_append_shape(random);
    shape.codes = random() % 2 == 0;
    const std::uint8_t codec = random() % 3 == 0 ? NKV_CODEC_PLANES_LZ4 : NKV_CODEC_NONE;
    for (const nkv_page_entry& entry :
         store_pages(unit, shape, test::pick(random, 1, 3), random, codec)) {
      fill_gaps(unit, entry, random);
      sources.push_back(entry);
    }
    if (sources.size() > 8) break;
  }
  std::ranges::shuffle(sources, random);
  return copies_of(unit, std::move(sources), random);
}

Moves plain_copies(MoveUnit& unit, const AppendShape& shape, std::uint32_t pages,
                   test::Random& random) {
  unit.fill_with_garbage(random);
  return copies_of(unit, store_pages(unit, shape, pages, random), random);
}

TEST(CopyTest, AnyPagesOverAnyMemory) {
  unsigned compressed = 0;
  for (const emulator::MemoryTiming& timing : kTimings) {
    MoveUnit unit(timing);
    for (unsigned number = 0; number < 24 && !testing::Test::HasFailure(); number += case_step()) {
      test::Random random = test::case_random(1000 + number);
      unit.set_pace({.reads = kPaces[number % 3], .writes = kPaces[number / 3 % 3]});
      const Moves copies = random_copies(unit, random);
      SCOPED_TRACE(test::case_name(1000 + number));
      for (const nkv_page_entry& entry : copies.sources) {
        if (unit.get<nkv_page_header>(place_of(entry)).codec != NKV_CODEC_NONE) ++compressed;
      }
      expect_models(unit, unit.run(copies.command, &model::copy));
      EXPECT_TRUE(unit.models_outcome().verdict.ok());
    }
  }
  EXPECT_GT(compressed, 20U / case_step());
}

TEST(CopyTest, DamageAnywhereInASource) {
  MoveUnit unit;
  test::Random random = test::case_random(2);
  unsigned stopped = 0;
  for (unsigned number = 0; number < 120 && !testing::Test::HasFailure(); number += case_step()) {
    const Moves copies = random_copies(unit, random);
    SCOPED_TRACE("round " + std::to_string(number));
    const std::uint32_t page = test::pick(random, 0, copies.command.count - 1);
    damage(unit, copies.sources[page], number, random);
    expect_moved_as_far(unit, copies, &model::copy);
    if (unit.models_outcome().verdict.status == NKV_STATUS_CORRUPT) ++stopped;
  }
  EXPECT_GT(stopped, 60U / case_step());
}

TEST(CopyTest, EntriesThatAreWrong) {
  MoveUnit unit;
  test::Random random = test::case_random(3);
  std::array<unsigned, 256> statuses{};
  for (unsigned number = 0; number < 60 && !testing::Test::HasFailure(); ++number) {
    Moves copies = random_copies(unit, random);
    SCOPED_TRACE("round " + std::to_string(number));
    const std::uint32_t page = test::pick(random, 0, copies.command.count - 1);
    const bool source = number % 2 == 0;
    nkv_page_entry& entry = source ? copies.sources[page] : copies.destinations[page];
    const std::uint32_t end = MoveUnit::kWindowBytes / NKV_PAGE_GRAIN_BYTES;
    const std::uint32_t grains = copies.bytes[page] / NKV_PAGE_GRAIN_BYTES;
    const std::uint32_t places[] = {end, end - grains, end - grains + 1, 0xFFFFFFFF};
    switch (number % 5) {
      case 4:
        entry.generation ^= static_cast<std::uint16_t>(1U << number % 16);
        break;
      default:
        entry.page = places[number % 5];
    }
    const std::uint64_t list = source ? copies.command.source : copies.command.destination;
    unit.put(list + page * sizeof(entry), entry);
    expect_moved_as_far(unit, copies, &model::copy);
    ++statuses[unit.models_outcome().verdict.status];
  }
  EXPECT_GT(statuses[NKV_STATUS_ADDRESS_FAULT], 0U);
  EXPECT_GT(statuses[NKV_STATUS_STALE_PAGE], 0U);
  EXPECT_GT(statuses[NKV_STATUS_OK], 0U);
}

// Pages of other sizes, close to one another, one of which may be where another one goes or lies.
TEST(CopyTest, PlacesThatMeet) {
  MoveUnit unit;
  test::Random random = test::case_random(4);
  unsigned refused = 0;
  unsigned done = 0;
  for (unsigned number = 0; number < 160 && !testing::Test::HasFailure(); number += case_step()) {
    Moves copies = random_copies(unit, random);
    SCOPED_TRACE("round " + std::to_string(number));
    const std::uint32_t page = test::pick(random, 0, copies.command.count - 1);
    const std::uint32_t other = test::pick(random, 0, copies.command.count - 1);
    const auto grains = [&](std::uint32_t of) { return copies.bytes[of] / NKV_PAGE_GRAIN_BYTES; };
    const auto& others = number % 2 == 0 ? copies.sources : copies.destinations;
    const std::uint32_t behind = others[other].page + grains(other) - number / 2 % 2;
    const std::uint32_t before = others[other].page - grains(page) + number / 2 % 2;
    copies.destinations[page].page = number / 4 % 2 == 0 ? behind : before;
    unit.put(copies.command.destination + page * sizeof(nkv_page_entry), copies.destinations[page]);
    const model::Outcome outcome = unit.run(copies.command, &model::copy);
    expect_models(unit, outcome);
    (outcome.verdict.ok() ? done : refused) += 1;
  }
  EXPECT_GT(refused, 40U / case_step());
  EXPECT_GT(done, 10U / case_step());
}

// More pages than are compared at once, two of which meet.
TEST(CopyTest, OneCollisionAmongManyPages) {
  MoveUnit unit;
  test::Random random = test::case_random(5);
  const AppendShape small{.dtype = NKV_DTYPE_INT8, .head_dim = 16, .value_dim = 16};
  for (unsigned number = 0; number < 24 && !testing::Test::HasFailure(); ++number) {
    Moves copies = plain_copies(unit, small, 50, random);
    const std::uint32_t page = test::pick(random, 0, 49);
    const std::uint32_t other = test::pick(random, 0, 49);
    const auto& others = number % 2 == 0 ? copies.sources : copies.destinations;
    copies.destinations[page].page = others[other].page + test::pick(random, 0, 1);
    unit.put(copies.command.destination + page * sizeof(nkv_page_entry), copies.destinations[page]);
    expect_models(unit, unit.run(copies.command, &model::copy));
    EXPECT_EQ(
        unit.models_outcome().verdict.ok(),
        number % 2 != 0 && copies.destinations[page].page == others[other].page && page == other);
  }
}

TEST(CopyTest, PoisonedPagesAndLists) {
  MoveUnit unit;
  test::Random random = test::case_random(6);
  for (unsigned number = 0; number < 40 && !testing::Test::HasFailure(); ++number) {
    const Moves copies = random_copies(unit, random);
    const std::uint32_t page = test::pick(random, 0, copies.command.count - 1);
    const std::uint64_t burst =
        (place_of(copies.sources[page]) + test::pick(random, 0, copies.bytes[page] - 1)) / 64 * 64;
    unit.set_faults({.poisoned = {MoveUnit::kWindowBase + burst}});
    expect_stopped_at(unit, copies, page, NKV_STATUS_POISON, &model::copy);
  }
  for (const bool source : {false, true}) {
    const Moves copies = random_copies(unit, random);
    const std::uint64_t list = source ? copies.command.source : copies.command.destination;
    unit.set_faults({.poisoned = {MoveUnit::kWindowBase + list / 64 * 64}});
    const std::vector<std::byte> before(unit.window().begin(), unit.window().end());
    const model::Outcome outcome = unit.run(copies.command, &model::copy);
    EXPECT_EQ(int{outcome.verdict.status}, NKV_STATUS_POISON);
    EXPECT_EQ(outcome.count, 0U);
    EXPECT_TRUE(std::ranges::equal(unit.window(), before));
  }
  unit.set_faults({});
  const Moves copies = random_copies(unit, random);
  expect_models(unit, unit.run(copies.command, &model::copy));
}

// Whenever it stops: a page that can be found is whole, and no entry speaks of one that cannot.
TEST(CopyTest, StoppedAtAnyMoment) {
  MoveUnit unit;
  test::Random random = test::case_random(7);
  unsigned found = 0;
  constexpr std::uint32_t kPages = 4;
  for (unsigned number = 0; number < 60 && !testing::Test::HasFailure(); ++number) {
    const Moves copies = plain_copies(unit, {.head_dim = 32, .value_dim = 32}, kPages, random);
    ASSERT_TRUE(model::copy(unit.models_domain(), copies.command).verdict.ok());
    unit.begin(copies.command, test::pick(random, 1, 1400));
    const unsigned found_now = expect_found_whole(unit, copies);
    found += found_now;
    for (std::uint32_t page = 0; page < kPages; ++page) {
      const std::uint64_t at = copies.command.destination + page * sizeof(nkv_page_entry);
      EXPECT_TRUE(found_now == kPages || unit.get<nkv_page_entry>(at).v_exponent == 0)
          << "entry " << page;
    }
    number % 2 == 0 ? unit.clear() : unit.power_up();
    const Moves others = random_copies(unit, random);
    expect_models(unit, unit.run(others.command, &model::copy));
  }
  EXPECT_GT(found, 10U);
}

/// Cycles over the bursts that are read, of which as many are written.
double cycles_per_burst(MoveUnit& unit, const AppendShape& shape, std::uint32_t pages) {
  test::Random random = test::case_random(8);
  const Moves copies = plain_copies(unit, shape, pages, random);
  expect_models(unit, unit.run(copies.command, &model::copy));
  const double bursts = static_cast<double>(copies.bytes[0]) / NKV_BURST_BYTES * pages;
  const double ratio = static_cast<double>(unit.run_cycles()) / bursts;
  std::printf("  %s: %.0f bursts per page, %.3f cycles per burst of the pages\n",
              shape.name().c_str(), bursts / pages, ratio);
  return ratio;
}

TEST(CopyTest, CyclesPerBurst) {
  MoveUnit unit({.latency_cycles = 60});
  EXPECT_LE(cycles_per_burst(unit, {}, 24), 1.1);
  EXPECT_LE(cycles_per_burst(unit, {.dtype = NKV_DTYPE_INT8, .head_dim = 16, .value_dim = 16}, 48),
            2.0);
}

}  // namespace
}  // namespace nearkv::rtl_test
