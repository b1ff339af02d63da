// Frames for a decoder of ZSTD: by libzstd, by hand, and mutants of both.
#pragma once

#define ZSTD_STATIC_LINKING_ONLY  // Parameters that make libzstd emit what it rarely does.
#include <zstd.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "codec_data.hpp"
#include "support/seed.hpp"

namespace nearkv::rtl_test {

using Parameters = std::vector<std::pair<ZSTD_cParameter, int>>;

/// A frame of `plain`; cut into blocks behind each of `ends`.
Bytes compress(const Bytes& plain, const Parameters& parameters,
               const std::vector<std::size_t>& ends = {});

Parameters at_level(int level);

/// As the host library compresses sections of pages.
Parameters of_pages();

/// A frame of blocks that are given as they are: header, then content.
class FrameWriter {
 public:
  /// Without a content size; the window's exponent and mantissa.
  explicit FrameWriter(unsigned window = 0x30) : frame_{0x28, 0xB5, 0x2F, 0xFD, 0, 0} {
    frame_[5] = static_cast<std::uint8_t>(window);
  }
  /// With this descriptor and these fields behind it.
  FrameWriter(unsigned descriptor, const Bytes& fields) : frame_{0x28, 0xB5, 0x2F, 0xFD} {
    frame_.push_back(static_cast<std::uint8_t>(descriptor));
    frame_.insert(frame_.end(), fields.begin(), fields.end());
  }

  FrameWriter& block(unsigned kind, std::size_t size, const Bytes& content, bool is_last = true) {
    const std::size_t head = size << 3 | kind << 1 | (is_last ? 1U : 0U);
    for (unsigned i = 0; i < 3; ++i) frame_.push_back(static_cast<std::uint8_t>(head >> 8 * i));
    frame_.insert(frame_.end(), content.begin(), content.end());
    return *this;
  }
  FrameWriter& compressed(const Bytes& content, bool is_last = true) {
    return block(2, content.size(), content, is_last);
  }

  [[nodiscard]] const Bytes& frame() const { return frame_; }

 private:
  Bytes frame_;
};

/// Changes a bit or a byte of a frame, takes some of another, or makes it a byte longer or shorter.
void mutate(test::Random& random, Bytes& frame, const Bytes& other);

}  // namespace nearkv::rtl_test
