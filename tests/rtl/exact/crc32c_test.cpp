// nkv_crc32c against the model's crc32c, streams of every length and pace.
#include "crc32c.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "Vnkv_crc32c.h"
#include "nkv_abi.h"
#include "pipe.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kLatency = 10;

class Crc : public Pipe<Vnkv_crc32c, std::uint32_t> {
 public:
  Crc() : Pipe(kLatency) {}

  // `pace` of 8 cycles carry a burst. What lies behind a short burst's bytes is noise.
  void send(std::vector<std::byte> bytes, test::Random& random, unsigned pace) {
    const std::uint32_t crc = model::crc32c(bytes);
    for (size_t at = 0; at < bytes.size(); at += NKV_BURST_BYTES) {
      while (!is_willing(random, pace)) idle(random);
      const size_t count = std::min<size_t>(bytes.size() - at, NKV_BURST_BYTES);
      fill_with_noise(random);
      std::memcpy((*this)->data_i.data(), bytes.data() + at, count);
      (*this)->valid_i = 1;
      (*this)->first_i = at == 0;
      (*this)->last_i = at + count == bytes.size();
      (*this)->bytes_i = static_cast<std::uint8_t>(count);
      if ((*this)->last_i) expect(crc);
      cycle();
    }
    (*this)->valid_i = 0;
  }

  void idle(test::Random& random) {
    (*this)->valid_i = 0;
    (*this)->first_i = random() % 2;
    (*this)->last_i = random() % 2;
    fill_with_noise(random);
    cycle();
  }

 private:
  void check(const std::uint32_t& crc) override { ASSERT_EQ((*this)->crc_o, crc); }

  void fill_with_noise(test::Random& random) {
    for (unsigned i = 0; i < 16; ++i) (*this)->data_i[i] = static_cast<std::uint32_t>(random());
  }
};

std::vector<std::byte> random_bytes(test::Random& random, size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST(Crc32cTest, EveryLengthUpToFourBursts) {
  test::Random random = test::case_random(0);
  Crc crc;
  for (size_t length = 1; length <= 256; ++length)
    crc.send(random_bytes(random, length), random, 8);
  crc.drain();
}

TEST(Crc32cTest, StreamsAtEveryPace) {
  for (const unsigned pace : kPaces) {
    test::Random random = test::case_random(pace);
    Crc crc;
    for (unsigned i = 0; i < 200; ++i) {
      crc.send(random_bytes(random, test::pick(random, 1, 2000)), random, pace);
    }
    crc.drain();
  }
}

TEST(Crc32cTest, ZerosAndOnes) {
  test::Random random = test::case_random(9);
  Crc crc;
  for (const int value : {0, 0xff}) {
    for (const size_t length : {1U, 63U, 64U, 65U, 128U, 16384U}) {
      crc.send(std::vector<std::byte>(length, static_cast<std::byte>(value)), random, 8);
    }
  }
  crc.drain();
}

TEST(Crc32cTest, ResetDropsWhatIsInFlight) {
  test::Random random = test::case_random(10);
  Crc crc;
  crc.send(random_bytes(random, 100), random, 8);
  crc.forget();
  crc.reset();
  crc.drain();
  crc.send(random_bytes(random, 100), random, 8);
  crc.drain();
}

}  // namespace
}  // namespace nearkv::rtl_test
