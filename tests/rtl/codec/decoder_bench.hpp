// How the decoders of rtl/codec are driven.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "burst_stream.hpp"
#include "codec_data.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {

/// A decoder with the ports of nkv_lz4_decode.
template <typename Module>
class DecoderBench {
 public:
  DecoderBench() { module_.reset(); }

  struct Decoded {
    std::optional<Bytes> plain;
    std::uint64_t cycles = 0;
  };

  /// Decodes a block that begins at byte `skip` of its first burst.
  Decoded decode(const Bytes& block, std::size_t size, unsigned skip = 0, unsigned in_pace = 8,
                 unsigned out_pace = 8) {
    const Bytes input = in_bursts(block, skip);
    EXPECT_TRUE(module_.tick_until([&] { return module_->start_ready_o != 0; }, 10));
    module_->start_valid_i = 1;
    module_->skip_i = static_cast<std::uint8_t>(skip);
    module_->in_bytes_i = static_cast<std::uint32_t>(block.size());
    module_->plain_bytes_i = static_cast<std::uint32_t>(size);
    module_.tick();
    module_->start_valid_i = 0;

    const Streamed streamed =
        stream(module_, random_, input, in_pace, out_pace, 1000 + 16 * (input.size() + size),
               [&](const Streamed& before) {
                 EXPECT_EQ(module_->out_bytes_o, std::min(kBurst, size - before.out.size()));
               });
    Decoded result{.plain = std::nullopt, .cycles = streamed.cycles};
    if (!module_->error_o) {
      EXPECT_EQ(streamed.has_ended, size > 0);
      result.plain = streamed.out;
    } else {
      EXPECT_FALSE(streamed.has_ended);
    }
    leave(module_);
    return result;
  }

  /// Starts a block, has it come for `cycles`, and resets the decoder.
  void abandon(const Bytes& block, std::size_t size, unsigned cycles) {
    module_->start_valid_i = 1;
    module_->skip_i = 0;
    module_->in_bytes_i = static_cast<std::uint32_t>(block.size());
    module_->plain_bytes_i = static_cast<std::uint32_t>(size);
    const Bytes input = in_bursts(block, 0);
    std::size_t next = 0;
    for (unsigned i = 0; i < cycles; ++i) {
      module_->in_valid_i = next < input.size();
      if (module_->in_valid_i) std::memcpy(&module_->in_data_i, &input[next], kBurst);
      module_.settle();
      if (module_->in_valid_i && module_->in_ready_o) next += kBurst;
      module_.tick();
      module_->start_valid_i = 0;
    }
    module_->in_valid_i = 0;
    module_.reset();
  }

 private:
  Simulation<Module> module_;
  test::Random random_ = test::case_random(2);
};

}  // namespace nearkv::rtl_test
