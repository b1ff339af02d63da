// How the modules of rtl/codec are fed: bytes in bursts go in, bytes in bursts come out, until
// done.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "codec_data.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {

/// Whole bursts whose byte `skip` is the first of `bytes`; none for no bytes.
inline Bytes in_bursts(const Bytes& bytes, unsigned skip) {
  if (bytes.empty()) return {};
  Bytes input(skip, 0xa5);
  input.insert(input.end(), bytes.begin(), bytes.end());
  input.resize((input.size() + kBurst - 1) / kBurst * kBurst, 0x5a);
  return input;
}

struct Streamed {
  Bytes out;
  bool has_ended = false;  ///< A burst came with out_last_o.
  std::uint64_t cycles = 0;
};

/// Streams `input` through a module that has just been started, each side willing its pace of 8,
/// and leaves the module with its done_o shown. All of the input must be taken, within `limit`
/// cycles; `expect_burst` judges the size of each burst that comes, after what came before it.
template <typename Module, typename ExpectBurst>
Streamed stream(Simulation<Module>& module, test::Random& random, const Bytes& input,
                unsigned in_pace, unsigned out_pace, std::uint64_t limit,
                const ExpectBurst& expect_burst) {
  Streamed result;
  std::size_t next = 0;
  const std::uint64_t begin = module.cycles();
  for (;;) {
    module->in_valid_i = next < input.size() && is_willing(random, in_pace);
    if (module->in_valid_i) std::memcpy(&module->in_data_i, &input[next], kBurst);
    module->out_ready_i = is_willing(random, out_pace);
    module.settle();
    if (module->in_valid_i && module->in_ready_o) next += kBurst;
    if (module->out_valid_o && module->out_ready_i) {
      std::array<std::uint8_t, kBurst> burst;
      std::memcpy(burst.data(), &module->out_data_o, kBurst);
      EXPECT_FALSE(result.has_ended);
      result.has_ended = module->out_last_o;
      expect_burst(result);
      const auto end = burst.begin() + module->out_bytes_o;
      result.out.insert(result.out.end(), burst.begin(), end);
      EXPECT_TRUE(std::all_of(end, burst.end(), [](std::uint8_t byte) { return byte == 0; }));
    }
    if (module->done_o) break;
    module.tick();
    if (module.cycles() - begin > limit) {
      ADD_FAILURE() << "it hangs";
      break;
    }
  }
  result.cycles = module.cycles() - begin;
  EXPECT_EQ(next, input.size()) << "bursts that were not taken";
  return result;
}

/// Ends the cycle of done_o.
template <typename Module>
void leave(Simulation<Module>& module) {
  module->in_valid_i = 0;
  module->out_ready_i = 0;
  module.tick();
}

}  // namespace nearkv::rtl_test
