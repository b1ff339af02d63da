// Rules of sections 12 and 13 that a command's answer shows: what is summed, and which scores codes
// cannot say.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "coded_world.hpp"
#include "row_io.hpp"
#include "topk_commands.hpp"

namespace nearkv::test {
namespace {

Sequence reversed(Device& device, const Sequence& sequence) {
  auto entries = read_entries(device, sequence);
  std::ranges::reverse(entries);
  return {.page_list = device.put<nkv_page_entry>(entries), .tokens = sequence.tokens};
}

void expect_same(const AttendResult& result, const AttendResult& expected) {
  EXPECT_EQ(result.output, expected.output);
  EXPECT_EQ(result.log_sum_exp, expected.log_sum_exp);
  EXPECT_EQ(result.bound, expected.bound);
  EXPECT_EQ(bursts(result.completion), bursts(expected.completion));
}

TEST(SumsByCodes, DoNotDependOnTheOrderOfPages) {
  World world({.tokens = 2048, .sharpness = 3}, 12);
  const Sequence backwards = reversed(world.device, world.sequence);
  const Rows query = world.topics.query(2, world.random);
  for (const float error : {1.f, .2f, .05f}) {
    const AttendOptions options = bounded(error);
    expect_same(attend(world.device, backwards, query, 64, options), world.run(query, options));
  }
}

// Pages of little weight, of whose sums few bits are left, before and behind one of much weight.
TEST(SumsByCodes, FloorEachPageAgainstTheLargestWeightOfAll) {
  Device device;
  Random random(13);
  const Rows keys = make_rows(NKV_DTYPE_BF16, 512, 64,
                              [](uint32_t t, uint32_t) { return t < 448 ? 0.0 : 3.296875; });
  const Rows values = make_rows(NKV_DTYPE_BF16, 512, 64, [&](uint32_t t, uint32_t) {
    const uint32_t page = t / 64;
    return t < 448 ? std::round(4 * normal(random)) + 16 * page : 0.0;
  });
  const Rows query = make_rows(NKV_DTYPE_BF16, 1, 64, [](uint32_t, uint32_t) { return 1.0; });
  const Sequence forwards = append_coded(device, keys, values);
  AttendOptions options;
  options.mode = NKV_ATTEND_MODE_TAIL;
  expect_same(attend(device, reversed(device, forwards), query, 64, options),
              attend(device, forwards, query, 64, options));
}

// Scores that codes cannot say.
class LoudByCodes : public testing::Test {
 protected:
  // Keys of pages are all alike: codes hold them exactly, but the scale is vast.
  Sequence loud_means() {
    const Rows keys =
        make_rows(NKV_DTYPE_BF16, 128, 64, [](uint32_t t, uint32_t) { return t < 64 ? 1.0 : .5; });
    return append_coded(device_, keys, values());
  }

  // Codes that say a sixteenth of what their rows hold.
  Sequence quiet_codes() {
    const Rows keys = normal_rows(NKV_DTYPE_BF16, 128, 64, 1.0, random_);
    const Sequence sequence = append_coded(device_, keys, values());
    for (const nkv_page_entry& entry : read_entries(device_, sequence)) {
      forge_header(device_, entry, [](nkv_page_header& header) { header.k_top -= 64; });
    }
    return sequence;
  }

  Rows values() { return normal_rows(NKV_DTYPE_BF16, 128, 64, 1.0, random_); }

  Device device_;
  Random random_ = Random(14);
  Rows ones_ = make_rows(NKV_DTYPE_BF16, 2, 64, [](uint32_t, uint32_t) { return 1.0; });
};

TEST_F(LoudByCodes, MeansAtTheirLimitAreDense) {
  const Sequence sequence = loud_means();
  AttendOptions options = bounded(.1f);
  options.scale = 4.4e4f;
  EXPECT_FALSE(is_dense(attend(device_, sequence, ones_, 64, options)));
  options.scale = 4.7e4f;
  EXPECT_TRUE(is_dense(attend(device_, sequence, ones_, 64, options)));
  options.window = 64;  // Hides the louder page.
  EXPECT_FALSE(is_dense(attend(device_, sequence, ones_, 64, options)));
}

TEST_F(LoudByCodes, KeyRowsBeyondTheRangeOfTheirPageAreDense) {
  const Sequence sequence = quiet_codes();
  const Rows query = normal_rows(NKV_DTYPE_BF16, 2, 64, 1.0, random_);
  AttendOptions options;
  options.mode = NKV_ATTEND_MODE_TAIL;
  options.scale = 20;
  EXPECT_FALSE(is_dense(attend(device_, sequence, query, 64, options)));
  options.top_k = 128;
  const AttendResult all = attend(device_, sequence, query, 64, options);
  EXPECT_TRUE(is_dense(all));
  options.mode = NKV_ATTEND_MODE_DENSE;
  EXPECT_EQ(all.output, attend(device_, sequence, query, 64, options).output);
}

TEST_F(LoudByCodes, CommandsWithAByteCapSayThatTheyKnowNoBound) {
  const Sequence sequence = loud_means();
  AttendOptions options = bounded(.1f);
  options.scale = 8e4f;
  options.byte_cap = 128;
  const AttendResult result = attend(device_, sequence, ones_, 64, options);
  EXPECT_FALSE(is_dense(result));
  EXPECT_TRUE(is_capped(result));
  EXPECT_EQ(result.completion.rounds, 0);
  EXPECT_EQ(bursts(result.completion), scan_bursts(2, 64, 64));
  for (const double bound : result.bound) EXPECT_TRUE(std::isinf(bound));
}

// A first round reads keys, and those that it reads turn out to be loud.
TEST_F(LoudByCodes, ARoundThatReadAndBecameLoudCounts) {
  const Sequence sequence = quiet_codes();
  const Rows query = normal_rows(NKV_DTYPE_BF16, 2, 64, 1.0, random_);
  AttendOptions options = bounded(.02f);
  options.scale = 20;
  const AttendResult result = attend(device_, sequence, query, 64, options);
  EXPECT_TRUE(is_dense(result));
  EXPECT_EQ(result.completion.rounds, 1);
}

// 1024 tokens of equal weight whose values are all ones and a normal number in every channel: O is
// about 1, a value's residual r as long as O, |r|² = |O|².
TEST(BoundsByCodes, AreThoseOfArithmeticByHand) {
  Device device;
  Random random(11);
  const Rows keys = make_rows(NKV_DTYPE_BF16, 1024, 64, [](uint32_t, uint32_t) { return 0.0; });
  const Rows values =
      make_rows(NKV_DTYPE_BF16, 1024, 64, [&](uint32_t, uint32_t) { return 1 + normal(random); });
  const Sequence sequence = append_coded(device, keys, values);
  const Rows query = normal_rows(NKV_DTYPE_BF16, 1, 64, 1.0, random);
  constexpr double kDeviations = NKV_USUAL_BOUND_Z / 16.0;
  constexpr uint32_t kGranules = 1024 / 8;  // Of a burst for each plane.
  constexpr double kNear = .05;

  // Means alone: |r|² of each token, and .22 of the sum of all |r|.
  const double energy = kDeviations * kDeviations / 1024;
  const auto means = attend(device, sequence, query, 64, bounded(.5f));
  EXPECT_EQ(bursts(means.completion), scan_bursts(16, 64, 64));
  const double of_means = std::sqrt(energy + .22 * kDeviations * .5);
  EXPECT_NEAR(means.bound[0], of_means, kNear * of_means);

  // Planes leave .139 and .042 of |r|², and 1/640 of the square of the sum of all |r|.
  struct Planes {
    float error;
    uint32_t planes;
    double left;
  };
  for (const Planes& item : {Planes{.1f, 2, .139}, Planes{.02f, 3, .042}}) {
    const auto result = attend(device, sequence, query, 64, bounded(item.error));
    EXPECT_EQ(result.completion.value_bursts, kGranules * item.planes);
    EXPECT_EQ(bursts(result.completion), scan_bursts(16, 64, 64) + kGranules * item.planes);
    const double bound = std::sqrt(item.left * (energy + kDeviations * kDeviations / 640));
    EXPECT_NEAR(result.bound[0], bound, kNear * bound);
  }
}

// Whatever a page says of its codes, every command ends with numbers.
TEST(ForgedCodes, GiveFiniteAnswers) {
  Device device;
  Random random(15);
  const Rows keys = normal_rows(NKV_DTYPE_BF16, 256, 64, 1.0, random);
  const Rows values = normal_rows(NKV_DTYPE_BF16, 256, 64, 1.0, random);
  const Sequence sequence = append_coded(device, keys, values);
  const nkv_page_entry entry = read_entries(device, sequence)[1];
  const Rows query = normal_rows(NKV_DTYPE_BF16, 2, 64, 1.0, random);
  const nkv_page_header honest = read_header(device, entry);
  uint32_t dense = 0;
  uint32_t coded = 0;
  for (uint32_t round = 0; round < 120; ++round) {
    const auto number = [&] {
      const auto extreme = static_cast<int>(pick(random, 0, 65535)) - 32768;
      const auto near = static_cast<int>(pick(random, 0, 400)) - 200;
      return static_cast<int16_t>(round % 3 == 0 ? extreme : near);
    };
    forge_header(device, entry, [&](nkv_page_header& header) {
      header.k_top = round % 4 == 1 ? honest.k_top : number();
      header.v_top = round % 4 == 2 ? honest.v_top : number();
      header.k_mean_power = round % 2 == 0 ? honest.k_mean_power : number();
      header.v_mean_power = number();
    });
    for (const uint8_t mode : {NKV_ATTEND_MODE_TAIL, NKV_ATTEND_MODE_BOUNDED}) {
      AttendOptions options = bounded(.3f);
      options.mode = mode;
      options.top_k = 9;
      options.byte_cap = mode == NKV_ATTEND_MODE_BOUNDED && round % 5 == 0 ? 100 : 0;
      const AttendResult result = attend(device, sequence, query, 64, options);
      ASSERT_EQ(result.completion.status, NKV_STATUS_OK);
      ++(is_dense(result) ? dense : coded);
      for (size_t row = 0; row < 2; ++row) {
        ASSERT_TRUE(std::isfinite(result.log_sum_exp[row]));
        ASSERT_FALSE(std::isnan(result.bound[row]));
        for (const double element : result.output[row]) ASSERT_TRUE(std::isfinite(element));
      }
    }
    const TopkResult found =
        topk(device, sequence, query, {.mode = NKV_SELECT_STATISTICAL, .top_k = 5});
    ASSERT_EQ(found.completion.status, NKV_STATUS_OK);
    for (const TopkRow& row : found.rows) {
      for (const float score : row.scores) ASSERT_TRUE(std::isfinite(score));
    }
  }
  EXPECT_GT(dense, 20u);
  EXPECT_GT(coded, 20u);
}

}  // namespace
}  // namespace nearkv::test
