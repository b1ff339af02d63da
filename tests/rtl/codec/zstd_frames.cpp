#include "zstd_frames.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

namespace nearkv::rtl_test {

Bytes compress(const Bytes& plain, const Parameters& parameters,
               const std::vector<std::size_t>& ends) {
  const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(),
                                                                     ZSTD_freeCCtx);
  for (const auto& [parameter, value] : parameters) {
    EXPECT_FALSE(ZSTD_isError(ZSTD_CCtx_setParameter(context.get(), parameter, value)));
  }
  Bytes frame(ZSTD_compressBound(plain.size()) + 16 * (ends.size() + 1));
  if (ends.empty()) {
    const std::size_t size =
        ZSTD_compress2(context.get(), frame.data(), frame.size(), plain.data(), plain.size());
    EXPECT_FALSE(ZSTD_isError(size));
    frame.resize(size);
    return frame;
  }
  ZSTD_outBuffer out{frame.data(), frame.size(), 0};
  ZSTD_inBuffer in{plain.data(), 0, 0};
  for (const std::size_t end : ends) {
    in.size = std::min(end, plain.size());
    EXPECT_EQ(ZSTD_compressStream2(context.get(), &out, &in, ZSTD_e_flush), 0U);
  }
  in.size = plain.size();
  EXPECT_EQ(ZSTD_compressStream2(context.get(), &out, &in, ZSTD_e_end), 0U);
  frame.resize(out.pos);
  return frame;
}

Parameters at_level(int level) { return {{ZSTD_c_compressionLevel, level}}; }

Parameters of_pages() {
  return {{ZSTD_c_compressionLevel, 1},
          {ZSTD_c_contentSizeFlag, 0},
          {ZSTD_c_checksumFlag, 0},
          {ZSTD_c_dictIDFlag, 0}};
}

void mutate(test::Random& random, Bytes& frame, const Bytes& other) {
  if (frame.empty()) return;
  // Heads and descriptions of tables stand in front.
  const std::size_t reach =
      random() % 2 == 0 ? std::min<std::size_t>(frame.size(), 60) : frame.size();
  const std::size_t at = random() % reach;
  const auto place = frame.begin() + static_cast<std::ptrdiff_t>(at);
  switch (test::pick(random, 0, 5)) {
    case 0:
      *place ^= static_cast<std::uint8_t>(1U << random() % 8);
      break;
    case 1:
      *place = static_cast<std::uint8_t>(random());
      break;
    case 2:
      *place = random() % 2 == 0 ? 0 : 255;
      break;
    case 3:
      frame.insert(place, static_cast<std::uint8_t>(random()));
      break;
    case 4:
      frame.erase(place);
      break;
    default:
      for (std::size_t k = at; k < std::min({at + 8, frame.size(), other.size()}); ++k) {
        frame[k] = other[k];
      }
  }
}

}  // namespace nearkv::rtl_test
