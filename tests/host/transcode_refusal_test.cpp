// What TRANSCODE refuses: damaged and forged pages, pages that do not fit, places that are not
// free; and what other commands refuse of the pages that it writes.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "nearkv/codec.hpp"
#include "support/checksum.hpp"
#include "support/seed.hpp"
#include "transcoded.hpp"

namespace nearkv::test {
namespace {

class TranscodeRefusalTest : public TranscodeTest {};

TEST_P(TranscodeRefusalTest, AFlippedBitAnywhereIsCorrupt) {
  const PageSource source = page_source(make_kv(Shape::kGaussian, 64, 32, 16, 10),
                                        NKV_ROW_FORM_DELTA4, NKV_ROW_FORM_DELTA4);
  const StoredList list = append(&bench_, source);
  const Transcoded cold = transcode(&bench_, list, codec_, list.page_bytes);
  ASSERT_EQ(cold.completion.status, NKV_STATUS_OK);
  const auto expect_corrupt = [&](const StoredList& from, std::uint8_t codec,
                                  const std::function<bool(std::size_t)>& is_used) {
    const nkv_pages_command command = transcode_command(&bench_, from, codec, list.page_bytes, 1);
    const auto page = page_at(&bench_, from.page_list, 0, list.page_bytes);
    const auto place = page_at(&bench_, command.destination, 0, list.page_bytes);
    for (std::size_t at = 0; at < page.size(); at += test_every()) {
      if (!is_used(at)) continue;
      const std::byte flipped{static_cast<unsigned char>(1U << (at * 5 % 8))};
      page[at] ^= flipped;
      const nkv_completion completion = bench_.run(command);
      ASSERT_EQ(completion.status, NKV_STATUS_CORRUPT) << "byte " << at;
      ASSERT_EQ(completion.count, 0u);
      // Nothing to be found at the new place.
      ASSERT_EQ(*reinterpret_cast<const std::uint32_t*>(place.data()), 0u) << "byte " << at;
      ASSERT_EQ(bench_.run(pages_command(from, NKV_OPCODE_SCRUB)).status, NKV_STATUS_CORRUPT);
      page[at] ^= flipped;
    }
    EXPECT_EQ(bench_.run(command).status, NKV_STATUS_OK);
  };
  const std::size_t cold_end = 128 + header_of(&bench_, cold.list, 0).payload_bytes;
  expect_corrupt(cold.list, NKV_CODEC_NONE, [&](std::size_t at) { return at < cold_end; });
  const struct nkv_page_layout layout = source.layout();
  expect_corrupt(list, codec_, [&](std::size_t at) {
    bool used = at < sizeof(nkv_page_header);
    for (int array = 0; array < NKV_PAGE_ARRAY_COUNT; ++array) {
      used |= at >= layout.offset[array] && at < layout.offset[array] + layout.bytes[array];
    }
    return used;
  });
}

// Checksums are right, but the payload is not what the header says.
TEST_P(TranscodeRefusalTest, AForgedPayloadIsCorrupt) {
  PageSource source = random_source(NKV_DTYPE_BF16, 32, 16, true, 64, 11);
  // Finite, as lossy codecs want their rows.
  for (std::vector<std::byte>* const rows : {&source.keys, &source.values}) {
    for (std::size_t i = 1; i < rows->size(); i += 2) (*rows)[i] &= std::byte{0xBF};
  }
  const StoredList list = append(&bench_, source);
  const auto payload_of = [](std::span<std::byte> page) {
    return reinterpret_cast<nkv_cold_payload*>(page.data() + 128);
  };
  using Forge = std::function<void(nkv_page_header*, std::span<std::byte>)>;
  std::vector<std::pair<const char*, Forge>> forgeries{
      {"k_bytes", [&](auto*, auto page) { payload_of(page)->k_bytes += 64; }},
      {"k_bytes huge", [&](auto*, auto page) { payload_of(page)->k_bytes = ~0U; }},
      {"v_bytes", [&](auto*, auto page) { payload_of(page)->v_bytes -= 64; }},
      {"reserved", [&](auto*, auto page) { payload_of(page)->reserved = 1; }},
      {"payload_bytes", [](auto* header, auto) { header->payload_bytes -= 4; }},
      {"no payload", [](auto* header, auto) { header->payload_bytes = 0; }},
      {"no scales", [](auto* header, auto) { header->flags = 0; }},
      {"other codec", [](auto* header, auto) { header->codec = NKV_CODEC_INT4; }},
      {"other type", [](auto* header, auto) { header->dtype = NKV_DTYPE_INT8; }},
      {"other shape", [](auto* header, auto) { header->head_dim = 48; }},
      {"V not stored", [](auto* header, auto) { header->v_form = NKV_ROW_FORM_NONE; }},
  };
  // Any bytes are a block of a lossy codec.
  if (!lossless_.empty()) {
    forgeries.emplace_back("K block", [](auto*, auto page) { page[192] ^= std::byte{0xFF}; });
  }
  const auto status_of = [&](const Forge& forge) {
    bench_.clear();
    const StoredList written = append(&bench_, source);
    const Transcoded cold = transcode(&bench_, written, codec_, roomy(list));
    EXPECT_EQ(cold.completion.status, NKV_STATUS_OK);
    const auto page = page_at(&bench_, cold.list.page_list, 0, cold.sizes[0]);
    auto* const header = reinterpret_cast<nkv_page_header*>(page.data());
    forge(header, page);
    header->crc_v_exceptions = checksum(page.subspan(128, header->payload_bytes));
    header->crc_hot = checksum(page.first(60));
    header->crc_cold = checksum(page.subspan(64, 60));
    return transcode(&bench_, cold.list, NKV_CODEC_NONE, roomy(list)).completion.status;
  };
  for (const auto& [name, forge] : forgeries) {
    EXPECT_EQ(status_of(forge), NKV_STATUS_CORRUPT) << name;
  }
  constexpr std::uint8_t kNoCodec = 1;
  static_assert(!is_codec(kNoCodec));
  EXPECT_EQ(status_of([](auto* header, auto) { header->codec = kNoCodec; }),
            NKV_STATUS_UNSUPPORTED);
}

TEST_P(TranscodeRefusalTest, StopsAtTheFirstPageThatDoesNotFit) {
  if (lossless_.empty())
    GTEST_SKIP() << kNoLosslessCodec << "; those of the others are all of one size";
  PageSource source = random_source(NKV_DTYPE_BF16, 64, 64, false, kTokens, 12);
  std::fill_n(source.keys.begin(), 64 * 128, std::byte{0});  // The first page shrinks to nothing.
  std::fill_n(source.values.begin(), 64 * 128, std::byte{0});
  const StoredList list = append(&bench_, source);
  const Transcoded all = transcode(&bench_, list, codec_, roomy(list));
  ASSERT_EQ(all.completion.status, NKV_STATUS_OK);
  ASSERT_LT(all.sizes[0], all.sizes[1]);
  const Transcoded exact = transcode(&bench_, list, codec_, all.sizes[1]);
  EXPECT_EQ(exact.completion.status, NKV_STATUS_OK) << "a slot of just the size";

  const Transcoded first = transcode(&bench_, list, codec_, all.sizes[1] - 1);
  EXPECT_EQ(first.completion.status, NKV_STATUS_PAGE_OVERFLOW);
  EXPECT_EQ(first.completion.detail, 1u);
  EXPECT_EQ(first.completion.count, 1u);
  EXPECT_EQ(page_bytes(&bench_, first, 0), page_bytes(&bench_, all, 0));
  for (const std::size_t page : {1U, 2U}) {
    EXPECT_EQ(header_of(&bench_, first.list, page).magic, 0u) << "page " << page;
    EXPECT_EQ(bench_.at<nkv_page_entry>(first.list.page_list)[page].k_exponent, 0);
  }
  EXPECT_EQ(bench_.run(pages_command(list, NKV_OPCODE_SCRUB)).status, NKV_STATUS_OK);
}

TEST_P(TranscodeRefusalTest, PlacesMustBeFreeAndInsideTheWindow) {
  const PageSource source = page_source(make_kv(Shape::kGaussian, kTokens, 32, 32, 13),
                                        NKV_ROW_FORM_RAW, NKV_ROW_FORM_RAW);
  const StoredList list = append(&bench_, source);
  const auto expect = [&](int status, std::uint64_t detail,
                          const std::function<void(nkv_pages_command*)>& change) {
    nkv_pages_command command = transcode_command(&bench_, list, codec_, roomy(list), 2);
    change(&command);
    const nkv_completion completion = bench_.run(command);
    EXPECT_EQ(completion.status, status);
    EXPECT_EQ(completion.detail, detail);
  };
  const auto entry = [&](const nkv_pages_command* command, std::size_t index) {
    return bench_.at<nkv_page_entry>(command->destination) + index;
  };
  const std::uint64_t destination = offsetof(nkv_pages_command, destination);
  const std::uint64_t end = bench_.window().size();
  expect(NKV_STATUS_BAD_FIELD, destination, [&](auto* c) { c->destination = c->source; });
  expect(NKV_STATUS_BAD_FIELD, destination,
         [&](auto* c) { entry(c, 2)->page = entry(c, 0)->page + 1; });
  expect(NKV_STATUS_BAD_FIELD, offsetof(nkv_pages_command, slot_bytes),
         [](auto* c) { c->slot_bytes = 0; });
  expect(NKV_STATUS_ADDRESS_FAULT, end, [&](auto* c) { c->result = end; });
  expect(NKV_STATUS_ADDRESS_FAULT, end, [&](auto* c) { c->destination = end; });
  expect(NKV_STATUS_ADDRESS_FAULT, 1, [&](auto* c) {
    entry(c, 1)->page = static_cast<std::uint32_t>(end / NKV_PAGE_GRAIN_BYTES);
  });
  expect(NKV_STATUS_BAD_FIELD, offsetof(nkv_pages_command, codec), [](auto* c) { c->codec = 7; });
  EXPECT_EQ(bench_.run(pages_command(list, NKV_OPCODE_SCRUB)).status, NKV_STATUS_OK);
}

TEST_P(TranscodeRefusalTest, OnlyWholePageCommandsTakeAColdPage) {
  const KvData data = make_kv(Shape::kGaussian, kTokens, 64, 48, 14);
  const std::vector<std::uint16_t> queries = make_queries(data, 2, 3.0, 2);
  const StoredList list = append(&bench_, page_source(data, NKV_ROW_FORM_RAW, NKV_ROW_FORM_RAW));
  const Transcoded cold = transcode(&bench_, list, codec_, list.page_bytes);
  ASSERT_EQ(cold.completion.status, NKV_STATUS_OK);
  for (const PageCommand& command : page_commands(&bench_, cold.list, queries, codec_)) {
    const nkv_completion completion = bench_.run(command.bytes);
    EXPECT_EQ(completion.status, command.whole_pages ? NKV_STATUS_OK : NKV_STATUS_COLD_PAGE)
        << command.name;
    EXPECT_EQ(completion.count, command.whole_pages ? cold.list.pages() : 0u) << command.name;
  }
  // ERASE came last: nothing is left of any byte.
  for (std::size_t page = 0; page < cold.list.pages(); ++page) {
    const auto bytes = page_at(&bench_, cold.list.page_list, page, cold.sizes[page]);
    EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; }));
  }
}

TEST_P(TranscodeRefusalTest, ACopyOfAColdPageIsThePageUnderItsNewGeneration) {
  const StoredList list = append(&bench_, page_source(make_kv(Shape::kTopics, kTokens, 64, 64, 15),
                                                      NKV_ROW_FORM_DELTA4, NKV_ROW_FORM_DELTA4));
  const Transcoded cold = transcode(&bench_, list, codec_, list.page_bytes, 3);
  ASSERT_EQ(cold.completion.status, NKV_STATUS_OK);
  StoredList copy = cold.list;
  copy.page_list = free_places(&bench_, list, list.page_bytes, 1);
  ASSERT_EQ(bench_.run(pages_command(cold.list, NKV_OPCODE_COPY, copy.page_list)).status,
            NKV_STATUS_OK);
  const Transcoded direct = transcode(&bench_, cold.list, NKV_CODEC_NONE, roomy(list), 1);
  const Transcoded warm = transcode(&bench_, copy, NKV_CODEC_NONE, roomy(list), 1);
  ASSERT_EQ(direct.completion.status, NKV_STATUS_OK);
  ASSERT_EQ(warm.completion.status, NKV_STATUS_OK);
  for (std::size_t page = 0; page < list.pages(); ++page) {
    EXPECT_EQ(page_bytes(&bench_, warm, page), page_bytes(&bench_, direct, page));
  }
}

TEST_P(TranscodeRefusalTest, WhoHoldsAnOldEntryIsToldSo) {
  const StoredList list = append(&bench_, page_source(make_kv(Shape::kTopics, kTokens, 64, 64, 16),
                                                      NKV_ROW_FORM_DELTA4, NKV_ROW_FORM_DELTA4));
  const Transcoded cold = transcode(&bench_, list, codec_, list.page_bytes, 3);
  ASSERT_EQ(cold.completion.status, NKV_STATUS_OK);
  bench_.at<nkv_page_entry>(cold.list.page_list)[1].generation = 2;
  const nkv_completion completion =
      transcode(&bench_, cold.list, NKV_CODEC_NONE, list.page_bytes).completion;
  EXPECT_EQ(completion.status, NKV_STATUS_STALE_PAGE);
  EXPECT_EQ(completion.detail, 1u);
  EXPECT_EQ(completion.count, 1u);
}

INSTANTIATE_TEST_SUITE_P(Devices, TranscodeRefusalTest, testing::ValuesIn(device_uris()),
                         device_name);

}  // namespace
}  // namespace nearkv::test
