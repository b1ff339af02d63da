// How the decoders of rtl/codec are driven.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

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
    Bytes input(skip, 0xa5);
    input.insert(input.end(), block.begin(), block.end());
    if (block.empty()) input.clear();
    input.resize((input.size() + kBurst - 1) / kBurst * kBurst, 0x5a);

    EXPECT_TRUE(module_.tick_until([&] { return module_->start_ready_o != 0; }, 10));
    module_->start_valid_i = 1;
    module_->skip_i = static_cast<std::uint8_t>(skip);
    module_->in_bytes_i = static_cast<std::uint32_t>(block.size());
    module_->plain_bytes_i = static_cast<std::uint32_t>(size);
    module_.tick();
    module_->start_valid_i = 0;

    Decoded result;
    Bytes plain;
    bool has_ended = false;
    std::size_t next = 0;
    const std::uint64_t begin = module_.cycles();
    const std::uint64_t limit = 1000 + 16 * (input.size() + size);
    for (;;) {
      module_->in_valid_i = next < input.size() && is_willing(random_, in_pace);
      if (module_->in_valid_i) std::memcpy(&module_->in_data_i, &input[next], kBurst);
      module_->out_ready_i = is_willing(random_, out_pace);
      module_.settle();
      if (module_->in_valid_i && module_->in_ready_o) next += kBurst;
      if (module_->out_valid_o && module_->out_ready_i) {
        std::array<std::uint8_t, kBurst> burst;
        std::memcpy(burst.data(), &module_->out_data_o, kBurst);
        EXPECT_FALSE(has_ended);
        has_ended = module_->out_last_o;
        EXPECT_EQ(module_->out_bytes_o, std::min(kBurst, size - plain.size()));
        plain.insert(plain.end(), burst.begin(), burst.begin() + module_->out_bytes_o);
        EXPECT_TRUE(std::all_of(burst.begin() + module_->out_bytes_o, burst.end(),
                                [](std::uint8_t byte) { return byte == 0; }));
      }
      if (module_->done_o) break;
      module_.tick();
      if (module_.cycles() - begin > limit) {
        ADD_FAILURE() << "it hangs";
        break;
      }
    }
    result.cycles = module_.cycles() - begin;
    EXPECT_EQ(next, input.size()) << "bursts that were not taken";
    if (!module_->error_o) {
      EXPECT_EQ(has_ended, size > 0);
      result.plain = plain;
    } else {
      EXPECT_FALSE(has_ended);
    }
    module_->in_valid_i = 0;
    module_->out_ready_i = 0;
    module_.tick();
    return result;
  }

  /// Starts a block, has it come for `cycles`, and resets the decoder.
  void abandon(const Bytes& block, std::size_t size, unsigned cycles) {
    module_->start_valid_i = 1;
    module_->skip_i = 0;
    module_->in_bytes_i = static_cast<std::uint32_t>(block.size());
    module_->plain_bytes_i = static_cast<std::uint32_t>(size);
    Bytes input = block;
    input.resize((input.size() + kBurst - 1) / kBurst * kBurst);
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
