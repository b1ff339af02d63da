// Lists that TRANSCODE has written, on any device.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "support/devices.hpp"
#include "support/offers.hpp"
#include "support/page_commands.hpp"
#include "support/page_source.hpp"

namespace nearkv::test {

inline constexpr std::uint32_t kTokens = 3 * NKV_PAGE_TOKENS;

/// A list that TRANSCODE has written.
struct Transcoded {
  StoredList list;
  nkv_completion completion{};
  std::vector<std::uint32_t> sizes;
};

inline Transcoded transcode(BenchDevice* bench, const StoredList& list, std::uint8_t codec,
                            std::uint32_t slot_bytes, std::uint16_t generation = 1) {
  const nkv_pages_command command = transcode_command(bench, list, codec, slot_bytes, generation);
  Transcoded result{list, bench->run(command), {}};
  result.list.page_list = command.destination;
  const auto* const sizes = bench->at<std::uint32_t>(command.result);
  result.sizes.assign(sizes, sizes + result.completion.count);
  return result;
}

/// Room for a page in any codec: what does not shrink grows by its directory.
inline std::uint32_t roomy(const StoredList& list) { return 2 * list.page_bytes + 4096; }

inline nkv_page_header header_of(BenchDevice* bench, const StoredList& list, std::size_t index) {
  nkv_page_header header{};
  std::memcpy(&header, page_at(bench, list.page_list, index, sizeof(header)).data(),
              sizeof(header));
  return header;
}

inline std::vector<std::byte> page_bytes(BenchDevice* bench, const Transcoded& pages,
                                         std::size_t index) {
  const auto bytes = page_at(bench, pages.list.page_list, index, pages.sizes[index]);
  return {bytes.begin(), bytes.end()};
}

class TranscodeTest : public testing::TestWithParam<std::string> {
 protected:
  BenchDevice bench_{GetParam()};
  const std::vector<std::uint8_t> lossless_ = lossless_codecs(bench_.device());
  const std::uint8_t codec_ = best_codec(bench_.device());  ///< Where any will do.
};

}  // namespace nearkv::test
