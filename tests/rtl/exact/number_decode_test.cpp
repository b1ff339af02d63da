// nkv_number_decode against the model's decode_element: every pattern of the small types, and
// binary32 patterns of every exponent.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "Vnkv_number_decode.h"
#include "element.hpp"
#include "nkv_abi.h"
#include "pipe.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kLanes = 32;
constexpr unsigned kLatency = 4;

struct Beat {
  std::uint8_t dtype;
  std::vector<std::uint32_t> patterns;
};

class Decoder : public Pipe<Vnkv_number_decode, Beat> {
 public:
  Decoder() : Pipe(kLatency) {}

  void send(std::uint8_t dtype, const std::vector<std::uint32_t>& patterns) {
    (*this)->dtype_i = dtype;
    for (unsigned i = 0; i < kLanes; ++i) (*this)->element_i[i] = patterns[i];
    send_expecting({dtype, patterns});
  }

 private:
  void check(const Beat& beat) override {
    for (unsigned i = 0; i < kLanes; ++i) check_lane(beat.dtype, beat.patterns[i], i);
  }

  void check_lane(std::uint8_t dtype, std::uint32_t pattern, unsigned lane) {
    SCOPED_TRACE(testing::Message() << "dtype " << unsigned{dtype} << " pattern " << pattern);
    std::byte bytes[sizeof(pattern)];
    std::memcpy(bytes, &pattern, sizeof(pattern));
    const model::Number number = model::decode_element(dtype, bytes);
    ASSERT_EQ((*this)->finite_o >> lane & 1, number.finite);
    ASSERT_EQ((*this)->exponent_o[lane], number.exponent);
    ASSERT_EQ((*this)->significand_o[lane], number.significand);
    if (number.significand != 0) {
      ASSERT_EQ((*this)->negative_o >> lane & 1, number.negative);
    }
  }
};

class EveryPatternTest : public testing::TestWithParam<std::uint8_t> {};

TEST_P(EveryPatternTest, IsTheModelsNumber) {
  Decoder decoder;
  const std::uint32_t patterns = 1u << (nkv_element_bytes(GetParam()) * 8);
  std::vector<std::uint32_t> beat(kLanes);
  for (std::uint32_t first = 0; first < patterns && !HasFatalFailure(); first += kLanes) {
    for (unsigned i = 0; i < kLanes; ++i) beat[i] = first + i;
    decoder.send(GetParam(), beat);
  }
  decoder.drain();
}

INSTANTIATE_TEST_SUITE_P(SmallTypes, EveryPatternTest,
                         testing::Values(NKV_DTYPE_BF16, NKV_DTYPE_FP16, NKV_DTYPE_FP8_E4M3,
                                         NKV_DTYPE_FP8_E5M2, NKV_DTYPE_INT8));

TEST(NumberDecodeTest, Binary32OfEveryExponent) {
  test::Random random = test::case_random(0);
  Decoder decoder;
  std::vector<std::uint32_t> beat(kLanes);
  for (std::uint32_t exponent = 0; exponent < 256; ++exponent) {
    for (std::uint32_t& pattern : beat) {
      pattern = exponent << 23 | (static_cast<std::uint32_t>(random()) & 0x807fffff);
    }
    beat[0] = exponent << 23;
    beat[1] = exponent << 23 | 0x7fffff;
    decoder.send(NKV_DTYPE_FP32, beat);
  }
  decoder.drain();
}

TEST(NumberDecodeTest, TypesMixAndPauseFreely) {
  test::Random random = test::case_random(1);
  Decoder decoder;
  std::vector<std::uint32_t> beat(kLanes);
  for (unsigned i = 0; i < 3000; ++i) {
    const auto dtype = static_cast<std::uint8_t>(test::pick(random, 0, NKV_DTYPE_INT8));
    for (std::uint32_t& pattern : beat) pattern = static_cast<std::uint32_t>(random());
    if (is_willing(random, 5)) {
      decoder.send(dtype, beat);
    } else {
      decoder.cycle();
    }
  }
  decoder.drain();
}

}  // namespace
}  // namespace nearkv::rtl_test
