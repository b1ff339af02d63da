// nkv_token_slicer: bits of 4 tokens at a time out of bursts, for every head_dim, whole planes and
// single granules, at every pace.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <deque>
#include <numeric>
#include <vector>

#include "Vnkv_token_slicer.h"
#include "nkv_abi.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

using Slicer = Simulation<Vnkv_token_slicer>;

struct Burst {
  std::array<std::uint32_t, 16> data;
  unsigned plane;
  unsigned quad;
  bool last;
};

struct Beat {
  std::array<std::array<std::uint32_t, 4>, 4> bits;  // [token][channel / 32]
  unsigned plane;
  unsigned quad;
  bool last;

  friend bool operator==(const Beat&, const Beat&) = default;
};

// A granule of random bits, and the beats that it is to become.
void add_granule(unsigned head_dim, unsigned granule, unsigned first, unsigned plane, bool last,
                 test::Random& random, std::deque<Burst>* bursts, std::deque<Beat>* beats) {
  std::vector<bool> bits(std::size_t{granule} * head_dim);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = random() % 2 != 0;
  for (std::size_t at = 0; at < bits.size(); at += 512) {
    Burst burst{
        .data = {}, .plane = plane, .quad = first / 4, .last = last && at + 512 == bits.size()};
    for (unsigned i = 0; i < 512; ++i) burst.data[i / 32] |= std::uint32_t{bits[at + i]} << i % 32;
    bursts->push_back(burst);
  }
  for (unsigned token = 0; token < granule; token += 4) {
    Beat beat{.bits = {},
              .plane = plane,
              .quad = (first + token) / 4,
              .last = last && token + 4 == granule};
    for (unsigned t = 0; t < 4; ++t) {
      for (unsigned c = 0; c < head_dim; ++c) {
        beat.bits[t][c / 32] |= std::uint32_t{bits[(token + t) * head_dim + c]} << c % 32;
      }
    }
    beats->push_back(beat);
  }
}

void expect_beats(Slicer& slicer, unsigned head_dim, unsigned pace, unsigned go_pace,
                  std::deque<Burst> bursts, std::deque<Beat> beats, test::Random& random) {
  slicer->blocks_i = static_cast<std::uint8_t>(head_dim / 16);
  unsigned begun_last = 0;
  unsigned ended = 0;
  for (unsigned idle = 0; idle < 4000 && !beats.empty(); ++idle) {
    slicer->go_i = is_willing(random, go_pace);
    slicer->burst_valid_i = !bursts.empty() && is_willing(random, pace);
    if (!bursts.empty()) {
      const Burst& burst = bursts.front();
      std::memcpy(slicer->burst_data_i.data(), burst.data.data(), sizeof(burst.data));
      // {kind, plane, quad, last}
      slicer->burst_tag_i = static_cast<std::uint16_t>(1 << 8 | burst.plane << 5 | burst.quad << 1 |
                                                       (burst.last ? 1 : 0));
    }
    slicer.settle();
    begun_last += slicer->begun_o && slicer->begun_last_o ? 1 : 0;
    if (slicer->burst_valid_i && slicer->burst_ready_o) {
      bursts.pop_front();
      idle = 0;
    }
    slicer.tick();
    if (!slicer->beat_valid_o) continue;
    idle = 0;
    Beat beat{.bits = {},
              .plane = slicer->beat_plane_o,
              .quad = slicer->beat_quad_o,
              .last = slicer->beat_last_o != 0};
    for (unsigned t = 0; t < 4; ++t) {
      std::memcpy(beat.bits[t].data(), slicer->beat_bits_o[t].data(), sizeof(beat.bits[t]));
    }
    ASSERT_EQ(beat, beats.front()) << "quad " << beat.quad << " of plane " << beat.plane;
    ended += beat.last ? 1 : 0;
    beats.pop_front();
  }
  EXPECT_TRUE(beats.empty());
  EXPECT_TRUE(bursts.empty());
  EXPECT_EQ(begun_last, ended);
}

TEST(TokenSlicerTest, CutsPlanesAndGranules) {
  Slicer slicer;
  slicer.reset();
  for (unsigned head_dim = 16; head_dim <= 128; head_dim += 16) {
    const unsigned granule = 64 / std::gcd(64U, head_dim / 8);
    for (const unsigned pace : kPaces) {
      for (const unsigned go_pace : kPaces) {
        SCOPED_TRACE("head_dim " + std::to_string(head_dim));
        test::Random random = test::case_random(head_dim * 64 + pace * 8 + go_pace);
        std::deque<Burst> bursts;
        std::deque<Beat> beats;
        for (unsigned page = 0; page < 6; ++page) {
          const bool whole = page % 2 == 0;
          std::vector<unsigned> firsts;
          for (unsigned token = 0; token < NKV_PAGE_TOKENS; token += granule) {
            if (whole || random() % 3 == 0) firsts.push_back(token);
          }
          if (firsts.empty()) firsts.push_back(0);
          for (const unsigned first : firsts) {
            add_granule(head_dim, granule, first, 1 + page % 4, first == firsts.back(), random,
                        &bursts, &beats);
          }
        }
        expect_beats(slicer, head_dim, pace, go_pace, std::move(bursts), std::move(beats), random);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(TokenSlicerTest, ForgetsHalfABurstAtReset) {
  Slicer slicer;
  slicer.reset();
  test::Random random = test::case_random(1);
  std::deque<Burst> bursts;
  std::deque<Beat> beats;
  add_granule(80, 32, 0, 1, true, random, &bursts, &beats);
  beats.resize(3);
  bursts.resize(3);
  slicer->blocks_i = 5;
  slicer->go_i = 1;
  std::memcpy(slicer->burst_data_i.data(), bursts.front().data.data(), 64);
  slicer->burst_valid_i = 1;
  slicer.ticks(2);
  slicer.reset();
  bursts.clear();
  beats.clear();
  add_granule(80, 32, 32, 2, true, random, &bursts, &beats);
  expect_beats(slicer, 80, 8, 8, std::move(bursts), std::move(beats), random);
}

}  // namespace
}  // namespace nearkv::rtl_test
