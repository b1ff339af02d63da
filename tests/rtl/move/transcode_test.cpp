// TRANSCODE against the model's: pages of every shape from every codec to every other one that the
// unit offers, to the byte; pages that are wrong, too large or not offered; and its cycles per
// burst of rows.
#include <gtest/gtest.h>

#include <array>

#include "transcodes.hpp"

namespace nearkv::rtl_test {
namespace {

TEST(TranscodeTest, AnyPagesIntoAnyCodecOverAnyMemory) {
  std::array<unsigned, 256> statuses{};
  for (const emulator::MemoryTiming& timing : kTimings) {
    MoveUnit unit(timing);
    for (unsigned number = 0; number < 30 && !testing::Test::HasFailure(); number += case_step()) {
      test::Random random = test::case_random(3000 + number);
      unit.set_pace({.reads = kPaces[number % 3], .writes = kPaces[number / 3 % 3]});
      const Moves work = random_transcodes(unit, random);
      SCOPED_TRACE(test::case_name(3000 + number));
      expect_moved_as_far(unit, work, &model::transcode);
      ++statuses[unit.models_outcome().verdict.status];
    }
  }
  EXPECT_GT(statuses[NKV_STATUS_OK], 30U / case_step());
  EXPECT_GT(statuses[NKV_STATUS_BAD_PAGE], 3U / case_step());
}

TEST(TranscodeTest, RowsThatDelta4NoLongerHoldsBecomeRaw) {
  MoveUnit unit;
  test::Random random = test::case_random(10);
  unsigned raw_instead = 0;
  unsigned overflows = 0;
  for (unsigned number = 0; number < 40 && !testing::Test::HasFailure(); number += case_step()) {
    unit.fill_with_garbage(random);
    AppendShape shape = any_codecs_shape(random);
    shape.k_form = NKV_ROW_FORM_DELTA4;
    std::vector<nkv_page_entry> sources;
    for (const unsigned lopsided : {0U, 1U, number % 3, number % 2}) {
      shape.lopsided = lopsided == 1;
      for (const nkv_page_entry& entry : store_pages(unit, shape, 1, random, NKV_CODEC_INT8)) {
        sources.push_back(entry);
      }
    }
    if (sources.empty()) continue;
    // Now and then too small for what RAW takes.
    const std::uint32_t slot_bytes = number % 4 == 3 ? shape.page_bytes() : kEnoughBytes;
    const Moves work = transcodes_of(unit, std::move(sources), NKV_CODEC_NONE, slot_bytes, random);
    SCOPED_TRACE("round " + std::to_string(number) + ": " + shape.name());
    expect_moved_as_far(unit, work, &model::transcode);
    overflows += unit.models_outcome().verdict.status == NKV_STATUS_PAGE_OVERFLOW;
    for (std::uint32_t page = 0; page < unit.models_outcome().count; ++page) {
      raw_instead +=
          unit.get<nkv_page_header>(place_of(work.destinations[page])).k_form == NKV_ROW_FORM_RAW;
    }
  }
  EXPECT_GT(raw_instead, 20U / case_step());
  EXPECT_GT(overflows, 3U / case_step());
}

TEST(TranscodeTest, DamageAnywhereInASource) {
  MoveUnit unit;
  test::Random random = test::case_random(2);
  unsigned stopped = 0;
  for (unsigned number = 0; number < 100 && !testing::Test::HasFailure(); number += case_step()) {
    const Moves work = random_transcodes(unit, random);
    SCOPED_TRACE("round " + std::to_string(number));
    const std::uint32_t page = test::pick(random, 0, work.command.count - 1);
    damage(unit, work.sources[page], number, random);
    expect_moved_as_far(unit, work, &model::transcode);
    stopped += unit.models_outcome().verdict.status == NKV_STATUS_CORRUPT;
  }
  EXPECT_GT(stopped, 40U / case_step());
}

// Every checksum is right, and still the payload is none.
TEST(TranscodeTest, PayloadsThatAreNotWhatTheirHeaderSays) {
  MoveUnit unit;
  test::Random random = test::case_random(3);
  unsigned stopped = 0;
  for (unsigned number = 0; number < 120 && !testing::Test::HasFailure(); number += case_step()) {
    unit.fill_with_garbage(random);
    const AppendShape shape = any_codecs_shape(random);
    const Moves work =
        transcodes_of(unit, store_pages(unit, shape, 3, random, kCodecs[1 + number % 3]),
                      kCodecs[test::pick(random, 0, 3)], kEnoughBytes, random);
    SCOPED_TRACE("round " + std::to_string(number) + ": " + shape.name());
    const nkv_page_entry& entry = work.sources[1];
    auto header = unit.get<nkv_page_header>(place_of(entry));
    const std::uint64_t payload = place_of(entry) + NKV_PAGE_HEADER_BYTES;
    const std::uint64_t block = payload + 64;
    switch (number % 8) {
      case 0:
        unit.put(payload, unit.get<std::uint32_t>(payload) + (random() % 2 == 0 ? 1U : -64U));
        break;
      case 1:
        unit.put(payload + 4, unit.get<std::uint32_t>(payload + 4) + 64U);
        break;
      case 2:
        unit.put(payload + 8 + random() % 8, std::uint8_t{1});
        break;
      case 3:
        header.payload_bytes = test::pick(random, 0, header.payload_bytes);
        break;
      case 4:
        header.dtype = NKV_DTYPE_FP16;
        header.k_form = NKV_ROW_FORM_RAW;
        if (header.v_form == NKV_ROW_FORM_DELTA4) header.v_form = NKV_ROW_FORM_RAW;
        break;
      case 5:  // A parameter, or an FP8 scale.
        unit.put(block + test::pick(random, 0, 15), static_cast<std::uint8_t>(0xFF));
        break;
      case 6:  // FP8: not a number. Else a code like any other.
        unit.put(block + unit.get<std::uint32_t>(payload) - 1 - test::pick(random, 0, 100),
                 static_cast<std::uint8_t>(0x7F | random() % 2 << 7));
        break;
      default:
        header.codec = kCodecs[1 + (number + 1) % 3];
        break;
    }
    reseal(unit, entry, header);
    expect_moved_as_far(unit, work, &model::transcode);
    stopped += unit.models_outcome().verdict.status == NKV_STATUS_CORRUPT;
  }
  EXPECT_GT(stopped, 60U / case_step());
}

TEST(TranscodeTest, SlotsThatAreTooSmall) {
  MoveUnit unit;
  test::Random random = test::case_random(4);
  std::array<unsigned, 256> statuses{};
  for (unsigned number = 0; number < 80 && !testing::Test::HasFailure(); ++number) {
    unit.fill_with_garbage(random);
    const AppendShape shape = any_codecs_shape(random);
    const std::uint8_t codec = kCodecs[number % 4];
    const std::vector<nkv_page_entry> sources =
        store_pages(unit, shape, 2, random, kCodecs[test::pick(random, 0, 3)]);
    const Moves whole = transcodes_of(unit, sources, codec, kEnoughBytes, random);
    ASSERT_TRUE(model::transcode(unit.models_domain(), whole.command).verdict.ok());
    std::uint32_t bytes = 0;
    std::memcpy(&bytes, &unit.models_window()[whole.command.result], sizeof(bytes));
    unit.adopt_models_memory();
    const std::uint32_t sizes[] = {bytes, bytes - 1, bytes + 1, bytes - 256,
                                   test::pick(random, 1, 300)};
    const Moves work = transcodes_of(unit, sources, codec, sizes[test::pick(random, 0, 4)], random);
    SCOPED_TRACE("round " + std::to_string(number) + ": " + shape.name());
    expect_moved_as_far(unit, work, &model::transcode);
    ++statuses[unit.models_outcome().verdict.status];
  }
  EXPECT_GT(statuses[NKV_STATUS_OK], 20U);
  EXPECT_GT(statuses[NKV_STATUS_PAGE_OVERFLOW], 20U);
}

// Rooms, not pages, must not meet.
TEST(TranscodeTest, PlacesThatMeet) {
  MoveUnit unit;
  test::Random random = test::case_random(5);
  unsigned refused = 0;
  unsigned done = 0;
  for (unsigned number = 0; number < 100 && !testing::Test::HasFailure(); ++number) {
    std::vector<nkv_page_entry> sources = random_sources(unit, random);
    const std::uint32_t slot = kEnoughBytes + test::pick(random, 0, 256);
    Moves work = transcodes_of(unit, std::move(sources), kCodecs[number % 4], slot, random);
    SCOPED_TRACE("round " + std::to_string(number));
    const std::uint32_t room = (slot + NKV_PAGE_GRAIN_BYTES - 1) / NKV_PAGE_GRAIN_BYTES;
    const std::uint32_t page = test::pick(random, 0, work.command.count - 1);
    const std::uint32_t other = test::pick(random, 0, work.command.count - 1);
    const bool source = number % 2 == 0;
    const std::uint32_t grains =
        source ? stored_bytes(unit, work.sources[other]) / NKV_PAGE_GRAIN_BYTES : room;
    const std::uint32_t at = (source ? work.sources : work.destinations)[other].page;
    work.destinations[page].page =
        number / 4 % 2 == 0 ? at + grains - number / 2 % 2 : at - room + number / 2 % 2;
    unit.put(work.command.destination + page * sizeof(nkv_page_entry), work.destinations[page]);
    const model::Outcome outcome = unit.run(work.command, &model::transcode);
    if (!outcome.verdict.ok() && outcome.verdict.status != NKV_STATUS_BAD_FIELD) {
      forget_places(unit, work, outcome.count);
    }
    expect_models(unit, outcome);
    (outcome.verdict.status == NKV_STATUS_BAD_FIELD ? refused : done) += 1;
  }
  EXPECT_GT(refused, 30U);
  EXPECT_GT(done, 6U);
}

TEST(TranscodeTest, PoisonedPages) {
  MoveUnit unit;
  test::Random random = test::case_random(6);
  for (unsigned number = 0; number < 40 && !testing::Test::HasFailure(); number += case_step()) {
    unit.fill_with_garbage(random);
    const AppendShape shape = any_codecs_shape(random);
    const Moves work =
        transcodes_of(unit, store_pages(unit, shape, 3, random, any_source_codec(random)),
                      kCodecs[test::pick(random, 0, 3)], kEnoughBytes, random);
    SCOPED_TRACE("round " + std::to_string(number) + ": " + shape.name());
    const std::uint32_t page = test::pick(random, 0, 2);
    const auto header = unit.get<nkv_page_header>(place_of(work.sources[page]));
    const std::uint64_t burst =
        (place_of(work.sources[page]) + test::pick(random, 0, 127 + header.payload_bytes)) / 64 *
        64;
    unit.set_faults({.poisoned = {MoveUnit::kWindowBase + burst}});
    expect_stopped_at(unit, work, page, NKV_STATUS_POISON, &model::transcode);
    unit.set_faults({});
    expect_moved_as_far(unit, random_transcodes(unit, random), &model::transcode);
  }
}

TEST(TranscodeTest, PagesThatAreNotOffered) {
  MoveUnit unit;
  test::Random random = test::case_random(7);
  for (unsigned number = 0; number < 24 && !testing::Test::HasFailure(); ++number) {
    unit.fill_with_garbage(random);
    const AppendShape shape{.head_dim = 64, .value_dim = 32, .finite = true};
    std::vector<nkv_page_entry> sources = store_pages(unit, shape, 4, random);
    const std::uint32_t page = test::pick(random, 0, 3);
    const AppendShape wide{.head_dim = static_cast<std::uint16_t>(number % 2 == 0 ? 144 : 64),
                           .value_dim = static_cast<std::uint16_t>(number % 2 == 1 ? 256 : 64)};
    constexpr std::uint8_t kTried[] = {NKV_CODEC_NONE, NKV_CODEC_PLANES_LZ4};
    const std::uint8_t codec = kTried[number < 12 ? number % 2 : number % 2 ^ 1];
    sources[page] = store_pages(unit, wide, 1, random, codec)[0];
    const Moves work =
        transcodes_of(unit, std::move(sources), kCodecs[number % 3], kEnoughBytes, random);
    SCOPED_TRACE("round " + std::to_string(number));
    expect_stopped_at(unit, work, page, NKV_STATUS_UNSUPPORTED, &model::transcode);
  }
}

// Whenever it stops: pages that can be found are whole.
TEST(TranscodeTest, WhatIsFoundIsWholeWhereverItStops) {
  MoveUnit unit;
  test::Random random = test::case_random(8);
  unsigned found = 0;
  for (unsigned number = 0; number < 60 && !testing::Test::HasFailure(); number += case_step()) {
    unit.fill_with_garbage(random);
    const AppendShape shape{.head_dim = 32, .value_dim = 32, .finite = true};
    const Moves work =
        transcodes_of(unit, store_pages(unit, shape, 4, random, any_source_codec(random)),
                      kCodecs[number % 4], kEnoughBytes, random);
    SCOPED_TRACE("round " + std::to_string(number));
    ASSERT_TRUE(model::transcode(unit.models_domain(), work.command).verdict.ok());
    unit.begin(work.command, test::pick(random, 1, 3000));
    found += expect_found_whole(unit, work);
    number % 2 == 0 ? unit.clear() : unit.power_up();
    expect_moved_as_far(unit, random_transcodes(unit, random), &model::transcode);
  }
  EXPECT_GT(found, 10U / case_step());
}

/// Cycles over the bursts of plain rows.
double cycles_per_burst(MoveUnit& unit, std::uint8_t from, std::uint8_t to) {
  constexpr std::uint32_t kPages = 16;
  test::Random random = test::case_random(9);
  unit.fill_with_garbage(random);
  const Moves work = transcodes_of(unit, store_pages(unit, {.finite = true}, kPages, random, from),
                                   to, 38 << 10, random);
  expect_models(unit, unit.run(work.command, &model::transcode));
  const double ratio = static_cast<double>(unit.run_cycles()) / (kPages * 512.0);
  std::printf("  codec %d to %d: %.3f cycles per burst of rows\n", from, to, ratio);
  return ratio;
}

TEST(TranscodeTest, CyclesPerBurst) {
  MoveUnit unit({.latency_cycles = 60});
  for (const std::uint8_t codec : {NKV_CODEC_INT8, NKV_CODEC_INT4, NKV_CODEC_FP8}) {
    EXPECT_LE(cycles_per_burst(unit, NKV_CODEC_NONE, codec), 2.1);
    EXPECT_LE(cycles_per_burst(unit, codec, NKV_CODEC_NONE), 1.85);
  }
  EXPECT_LE(cycles_per_burst(unit, NKV_CODEC_PLANES_LZ4, NKV_CODEC_NONE), 9.0);
  EXPECT_LE(cycles_per_burst(unit, NKV_CODEC_PLANES_ZSTD, NKV_CODEC_NONE), 12.0);
}

}  // namespace
}  // namespace nearkv::rtl_test
