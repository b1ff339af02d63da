// nkv_query_decode against the model's Query: every type, dimension and group, at every pace.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "Vnkv_query_decode.h"
#include "nkv_abi.h"
#include "query.hpp"
#include "simulation.hpp"
#include "support/elements.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kRows = 8;
constexpr unsigned kWords = 4;
constexpr unsigned kLanes = 32;

struct Rows {
  std::uint8_t dtype;
  unsigned group;
  unsigned head_dim;
  std::vector<std::byte> bytes;
};

struct Answer {
  bool bad = false;
  unsigned bad_row = 0;
  std::vector<std::int32_t> integers =  // [kRows][kWords * kLanes]
      std::vector<std::int32_t>(kRows * kWords * kLanes);
  std::vector<unsigned> exponents{};  // [kRows]
};

std::int32_t sign_extended(std::uint32_t bits24) {
  return static_cast<std::int32_t>(bits24 << 8) >> 8;
}

class Decoder : public Simulation<Vnkv_query_decode> {
 public:
  static constexpr unsigned kForgetCycles = 8;

  Decoder() { reset(); }

  // Runs the rows through; nothing if the decoder does not finish.
  std::optional<Answer> decode(const Rows& rows, test::Random& random, unsigned pace) {
    begin(rows);
    Answer answer;
    unsigned next_beat = 0;
    for (unsigned i = 0; i < 10000; ++i) {
      offer(rows.bytes, random, pace);
      settle();
      if ((*this)->query_valid_o) take_beat(next_beat++, &answer);
      const bool is_done = (*this)->done_o;
      answer.bad = (*this)->bad_o;
      answer.bad_row = (*this)->bad_row_o;
      const bool is_taken = (*this)->burst_valid_i && (*this)->burst_ready_o;
      tick();
      if (is_taken) at_ += NKV_BURST_BYTES;
      if (is_done) {
        EXPECT_EQ(next_beat, answer.bad ? 0 : kRows * kWords);
        EXPECT_GE(at_, rows.bytes.size());
        (*this)->burst_valid_i = 0;
        for (unsigned row = 0; row < kRows; ++row) {
          answer.exponents.push_back((*this)->exponent_o[row]);
        }
        return answer;
      }
    }
    return std::nullopt;
  }

  void begin(const Rows& rows) {
    at_ = 0;
    (*this)->dtype_i = rows.dtype;
    (*this)->group_i = static_cast<std::uint8_t>(rows.group);
    (*this)->head_dim_i = static_cast<std::uint8_t>(rows.head_dim);
    (*this)->start_i = 1;
    tick();
    (*this)->start_i = 0;
  }

 private:
  void offer(const std::vector<std::byte>& bytes, test::Random& random, unsigned pace) {
    (*this)->burst_valid_i = at_ < bytes.size() && is_willing(random, pace);
    for (unsigned i = 0; i < 16; ++i) {
      (*this)->burst_i[i] = static_cast<std::uint32_t>(random());
    }
    if ((*this)->burst_valid_i) {
      std::memcpy((*this)->burst_i.data(), bytes.data() + at_,
                  std::min<size_t>(NKV_BURST_BYTES, bytes.size() - at_));
    }
  }

  void take_beat(unsigned beat, Answer* answer) {
    ASSERT_EQ((*this)->query_row_o, beat / kWords);
    ASSERT_EQ((*this)->query_word_o, beat % kWords);
    for (unsigned i = 0; i < kLanes; ++i) {
      answer->integers[beat * kLanes + i] = sign_extended((*this)->query_o[i]);
    }
  }

  size_t at_ = 0;
};

void expect_models_answer(const Rows& rows, const Answer& answer) {
  SCOPED_TRACE(testing::Message() << "dtype " << unsigned{rows.dtype} << " group " << rows.group
                                  << " head_dim " << rows.head_dim);
  model::Query query;
  const model::Verdict verdict =
      model::Query::decode(rows.bytes, rows.dtype, rows.group, rows.head_dim, &query);
  ASSERT_EQ(answer.bad, !verdict.ok());
  if (!verdict.ok()) {
    ASSERT_EQ(answer.bad_row, verdict.detail);
    return;
  }
  for (unsigned row = 0; row < kRows; ++row) {
    const bool is_used = row < rows.group;
    ASSERT_EQ(answer.exponents[row], is_used ? query.exponent(row) : 0) << "row " << row;
    for (unsigned channel = 0; channel < kWords * kLanes; ++channel) {
      const bool is_set = is_used && channel < rows.head_dim;
      ASSERT_EQ(answer.integers[row * kWords * kLanes + channel],
                is_set ? query.row(row)[channel] : 0)
          << "row " << row << " channel " << channel;
    }
  }
}

// A finite pattern; `exponents` says how far elements spread.
std::uint32_t random_pattern(test::Random& random, std::uint8_t dtype, unsigned exponents) {
  const double magnitude = std::ldexp(1.0 + static_cast<double>(random() % 1000) / 1000,
                                      -static_cast<int>(random() % exponents));
  if (random() % 32 == 0) return 0;
  return test::encode(dtype, random() % 2 == 0 ? magnitude : -magnitude);
}

Rows random_rows(test::Random& random, std::uint8_t dtype, unsigned group, unsigned head_dim) {
  const unsigned exponents = test::pick(random, 1, 40);
  std::vector<std::uint32_t> patterns(size_t{group} * head_dim);
  for (std::uint32_t& pattern : patterns) pattern = random_pattern(random, dtype, exponents);
  return {dtype, group, head_dim, test::to_bytes(dtype, patterns)};
}

constexpr std::uint8_t kTypes[] = {NKV_DTYPE_BF16, NKV_DTYPE_FP16, NKV_DTYPE_FP32,
                                   NKV_DTYPE_FP8_E4M3};

TEST(QueryDecodeTest, EveryTypeGroupAndDimension) {
  test::Random random = test::case_random(0);
  Decoder decoder;
  for (const std::uint8_t dtype : kTypes) {
    for (unsigned group = 1; group <= kRows; ++group) {
      for (unsigned head_dim = 16; head_dim <= 128; head_dim += 16) {
        const Rows rows = random_rows(random, dtype, group, head_dim);
        const auto answer = decoder.decode(rows, random, 8);
        ASSERT_TRUE(answer.has_value());
        expect_models_answer(rows, *answer);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(QueryDecodeTest, EveryPace) {
  for (const unsigned pace : kPaces) {
    test::Random random = test::case_random(pace);
    Decoder decoder;
    for (unsigned i = 0; i < 50; ++i) {
      const Rows rows = random_rows(random, kTypes[random() % 4], test::pick(random, 1, kRows),
                                    16 * test::pick(random, 1, 8));
      const auto answer = decoder.decode(rows, random, pace);
      ASSERT_TRUE(answer.has_value());
      expect_models_answer(rows, *answer);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(QueryDecodeTest, AnyBinary32Pattern) {
  test::Random random = test::case_random(11);
  Decoder decoder;
  for (unsigned i = 0; i < 50; ++i) {
    Rows rows = random_rows(random, NKV_DTYPE_FP32, test::pick(random, 1, kRows),
                            16 * test::pick(random, 1, 8));
    for (size_t at = 0; at < rows.bytes.size(); at += 4) {
      // Infinities and NaNs are rare, so that many queries have none.
      std::uint32_t pattern = static_cast<std::uint32_t>(random());
      if ((pattern >> 23 & 0xff) == 0xff && random() % 4 != 0) pattern ^= 1u << 23;
      std::memcpy(&rows.bytes[at], &pattern, 4);
    }
    const auto answer = decoder.decode(rows, random, 8);
    ASSERT_TRUE(answer.has_value());
    expect_models_answer(rows, *answer);
    if (HasFatalFailure()) return;
  }
}

TEST(QueryDecodeTest, TheFirstRowThatIsNotFiniteIsTold) {
  constexpr std::uint16_t kInfinity = 0x7f80;
  test::Random random = test::case_random(12);
  Decoder decoder;
  for (unsigned row = 0; row < kRows; ++row) {
    Rows rows = random_rows(random, NKV_DTYPE_BF16, kRows, 64);
    for (unsigned bad = row; bad < kRows; ++bad) {
      const size_t element = bad * 64 + random() % 64;
      std::memcpy(&rows.bytes[element * 2], &kInfinity, 2);
    }
    const auto answer = decoder.decode(rows, random, 8);
    ASSERT_TRUE(answer.has_value());
    EXPECT_TRUE(answer->bad);
    EXPECT_EQ(answer->bad_row, row);
  }
}

TEST(QueryDecodeTest, AQueryOfZeros) {
  test::Random random = test::case_random(13);
  Decoder decoder;
  const Rows rows{NKV_DTYPE_FP16, 3, 48, std::vector<std::byte>(3 * 48 * 2)};
  const auto answer = decoder.decode(rows, random, 8);
  ASSERT_TRUE(answer.has_value());
  expect_models_answer(rows, *answer);
}

TEST(QueryDecodeTest, AClearingInAnyCycleForgetsTheRows) {
  test::Random random = test::case_random(14);
  Decoder decoder;
  for (unsigned cycles = 1; cycles < 120; ++cycles) {
    decoder.begin(random_rows(random, NKV_DTYPE_BF16, kRows, 128));
    decoder->burst_valid_i = 1;
    decoder.ticks(cycles);
    decoder->burst_valid_i = 0;
    decoder->clear_i = 1;
    decoder.tick();
    decoder->clear_i = 0;
    decoder.ticks(Decoder::kForgetCycles);
    const Rows rows = random_rows(random, NKV_DTYPE_FP32, 3, 48);
    const auto answer = decoder.decode(rows, random, 8);
    ASSERT_TRUE(answer.has_value()) << cycles;
    expect_models_answer(rows, *answer);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace nearkv::rtl_test
