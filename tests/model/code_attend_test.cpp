// ATTEND and TOPK by codes (sections 12 to 14): whether errors keep what was asked, on data that
// the method's assumptions fit and on data that they do not.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>

#include "coded_world.hpp"
#include "topk_commands.hpp"

namespace nearkv::test {
namespace {

TEST(BoundedByCodes, KeepsTheErrorAndSavesBytes) {
  uint32_t rows = 0;
  uint32_t missed = 0;
  uint32_t dense = 0;
  uint32_t commands = 0;
  double bytes = 0;
  for (const double correlation : {0.0, 1.0}) {
    for (uint64_t seed = 0; seed < 3; ++seed) {
      World world({.tokens = 4096,
                   .sharpness = 1.5,
                   .correlation = correlation,
                   .repetition = correlation * .7},
                  100 + seed);
      for (const float error : {.2f, .1f, .05f}) {
        const Rows query = world.topics.query(3, world.random);
        const auto result = world.run(query, bounded(error));
        ASSERT_EQ(result.completion.status, NKV_STATUS_OK);
        ++commands;
        bytes += static_cast<double>(bursts(result.completion)) /
                 static_cast<double>(bursts(world.run(query, {}).completion));
        dense += is_dense(result) ? 1 : 0;
        const auto reference = world.reference(query);
        for (size_t row = 0; row < reference.size(); ++row) {
          const double truth = relative_distance(result.output[row], reference[row].output);
          ++rows;
          missed += truth > static_cast<double>(error) ? 1 : 0;
          EXPECT_LE(truth, 2 * static_cast<double>(error));
          if (!is_dense(result)) {
            EXPECT_LE(result.bound[row], static_cast<double>(error) * 1.0001);
            EXPECT_NEAR(result.log_sum_exp[row], reference[row].log_sum_exp,
                        3 * static_cast<double>(error));
          }
        }
      }
    }
  }
  std::printf("%u rows, %u beyond the error asked; %u of %u commands dense; bytes %.3f of dense\n",
              rows, missed, dense, commands, bytes / commands);
  EXPECT_LE(missed, rows / 50);
  EXPECT_LE(dense, commands / 4);
}

TEST(BoundedByCodes, LessErrorTakesMoreBytes) {
  World world({.tokens = 8192, .sharpness = 1.5}, 3);
  const Rows query = world.topics.query(2, world.random);
  uint64_t last = scan_bursts(128, 64, 64) - 1;
  for (const float error : {1.f, .3f, .1f, .03f}) {
    const auto result = world.run(query, bounded(error));
    EXPECT_GT(bursts(result.completion), last);
    last = bursts(result.completion);
  }
}

TEST(BoundedByCodes, CountsEveryBurstThatItReads) {
  World world({.tokens = 1024, .sharpness = 1.5}, 4);
  const Rows query = world.topics.query(2, world.random);
  const auto loose = world.run(query, bounded(1.f));
  EXPECT_EQ(loose.completion.stream_bursts, scan_bursts(16, 64, 64));
  AttendOptions options;
  options.mode = NKV_ATTEND_MODE_TAIL;
  const auto nothing = world.run(query, options);
  EXPECT_EQ(bursts(nothing.completion), scan_bursts(16, 64, 64));
  options.top_k = 1024;
  const auto all = world.run(query, options);
  EXPECT_EQ(all.completion.stream_bursts, scan_bursts(16, 64, 64));
  EXPECT_EQ(all.completion.exact_bursts, 1024u * 2);
  EXPECT_EQ(all.completion.value_bursts, 1024u * 2);
}

// A command reads the same rounds with a cap and without one, until one would exceed it.
TEST(BoundedByCodes, KeepsItsByteCapAndIsCappedByNothingElse) {
  World world({.tokens = 8192, .sharpness = 1.5}, 5);
  const Rows query = world.topics.query(4, world.random);
  const uint64_t dense = bursts(world.run(query, {}).completion);
  const AttendResult free = world.run(query, bounded(.2f));
  ASSERT_FALSE(is_dense(free));
  const uint64_t least = (bursts(free.completion) * 256 + dense - 1) / dense;
  for (const uint64_t cap : {uint64_t{1}, least / 4, least / 2, least - 1, least, least + 1}) {
    AttendOptions options = bounded(0.2f);
    options.byte_cap = static_cast<uint8_t>(cap);
    const auto result = world.run(query, options);
    ASSERT_EQ(result.completion.status, NKV_STATUS_OK);
    EXPECT_FALSE(is_dense(result));
    EXPECT_EQ(is_capped(result), cap < least);
    EXPECT_EQ(is_capped(result), result.completion.bound > options.error);
    if (cap == 1) {  // Less than the scan.
      EXPECT_EQ(bursts(result.completion), scan_bursts(128, 64, 64));
    } else {
      EXPECT_LE(bursts(result.completion) * 256, dense * cap);
    }
    if (cap >= least) {
      EXPECT_EQ(result.output, free.output);
    }
  }
}

TEST(BoundedByCodes, MoreStandardDeviationsReadMore) {
  World world({.tokens = 4096, .sharpness = 1.5}, 6);
  const Rows query = world.topics.query(2, world.random);
  AttendOptions options = bounded(0.2f);
  const auto usual = world.run(query, options);
  options.z = NKV_USUAL_BOUND_Z;
  EXPECT_EQ(world.run(query, options).output, usual.output);
  options.z = 64;
  EXPECT_GT(bursts(world.run(query, options).completion), bursts(usual.completion));
}

// What a test makes of rows.
struct Case {
  const char* name;
  uint32_t tokens = 1024;
  uint32_t head_dim = 64;
  uint32_t value_dim = 64;
  std::function<double(Random&, uint32_t, uint32_t)> key{};
  std::function<double(Random&, uint32_t, uint32_t)> value{};
  double query_size = 1;
  AttendOptions options{};
  float error = .1f;
  PageForm form = kRawForm;
  int8_t gain = 0;  // Of every third channel.
  bool is_dense = false;
};

double plain(Random& random, uint32_t, uint32_t) { return normal(random); }

// Errors stay within twice the error asked wherever codes are used.
TEST(BoundedByCodes, HoldsOnDataThatItsModelDoesNotFit) {
  AttendOptions windowed = bounded(.1f);
  windowed.window = 300;
  windowed.sinks = 3;
  AttendOptions partial = bounded(.1f);
  partial.tokens = 1000;
  AttendOptions two = bounded(.1f);
  two.tokens = 2;
  AttendOptions negative = bounded(.1f);
  negative.scale = -.125f;
  AttendOptions soft = bounded(.1f);
  soft.soft_cap = 1;
  AttendOptions loud = bounded(.1f);
  loud.scale = 40;
  const auto zero = [](Random&, uint32_t, uint32_t) { return 0.0; };
  const auto repeated = [](Random&, uint32_t, uint32_t c) { return std::sin(3.0 * c); };
  const auto sink = [](Random& random, uint32_t t, uint32_t c) {
    return t == 0 ? 12 * std::cos(c) : normal(random);
  };
  const auto outlier = [](Random& random, uint32_t t, uint32_t) {
    return (t % 97 == 5 ? 1e4 : 1.0) * normal(random);
  };
  const auto outlier_channel = [](Random& random, uint32_t, uint32_t c) {
    return (c % 31 == 5 ? 1e3 : 1.0) * normal(random);
  };
  const auto tiny = [](Random& random, uint32_t, uint32_t) { return 1e-30 * normal(random); };
  const auto two_rows = [](Random&, uint32_t t, uint32_t c) {
    return std::sin(3.0 * c + (t * 7 % 5 == 0 ? 1 : 0));
  };
  const std::array cases = {
      Case{.name = "plain"},
      Case{.name = "keys of zero", .key = zero},
      Case{.name = "values of zero", .value = zero},
      Case{.name = "both of zero", .key = zero, .value = zero},
      Case{.name = "one key", .key = repeated},
      Case{.name = "one value", .value = repeated},
      Case{.name = "two keys and values", .key = two_rows, .value = two_rows},
      Case{.name = "a sink", .key = sink},
      Case{.name = "outlier keys", .key = outlier, .is_dense = true},
      Case{.name = "outlier values", .value = outlier},
      Case{.name = "outlier channels", .key = outlier_channel, .query_size = .01},
      Case{.name = "tiny", .key = tiny, .value = tiny},
      Case{.name = "wrong gains", .gain = 90, .is_dense = true},
      Case{.name = "loud queries", .query_size = 300, .is_dense = true},
      Case{.name = "a loud scale", .options = loud, .is_dense = true},
      Case{.name = "quiet queries", .query_size = 1e-6},
      Case{.name = "queries of zero", .query_size = 0},
      Case{.name = "a window", .options = windowed},
      Case{.name = "a last page in part", .options = partial},
      Case{.name = "two tokens", .options = two},
      Case{.name = "a negative scale", .options = negative},
      Case{.name = "a soft cap", .options = soft, .is_dense = true},
      Case{.name = "96 channels", .head_dim = 96, .value_dim = 96},
      Case{.name = "128 channels", .head_dim = 128, .value_dim = 128},
      Case{.name = "16 channels", .head_dim = 16, .value_dim = 16, .error = .3f},
      Case{.name = "48 and 80 channels", .head_dim = 48, .value_dim = 80},
      Case{.name = "80 and 48 channels", .head_dim = 80, .value_dim = 48},
      Case{.name = "576 channels",
           .tokens = 256,
           .head_dim = 576,
           .value_dim = 512,
           .error = .3f,
           .form = {.k_form = NKV_ROW_FORM_RAW, .v_form = NKV_ROW_FORM_NONE}},
      Case{.name = "MLA",
           .tokens = 512,
           .head_dim = 192,
           .value_dim = 128,
           .error = .3f,
           .form = {.k_form = NKV_ROW_FORM_RAW, .v_form = NKV_ROW_FORM_NONE}},
      Case{.name = "DELTA4", .error = .2f, .form = {}},
  };
  for (const Case& item : cases) {
    SCOPED_TRACE(item.name);
    Device device;
    Random random(11);
    const auto rows = [&](uint32_t dim, const auto& number) {
      return make_rows(NKV_DTYPE_BF16, item.tokens, dim, [&](uint32_t t, uint32_t c) {
        return number ? number(random, t, c) : plain(random, t, c);
      });
    };
    const Rows keys = rows(item.head_dim, item.key);
    const Rows values = rows(item.value_dim, item.value);
    std::vector<int8_t> gains(item.head_dim);
    for (size_t c = 0; c < gains.size(); c += 3) gains[c] = item.gain;
    const Sequence sequence = append_coded(device, keys, values, item.form, gains);
    const bool is_shared = item.form.v_form == NKV_ROW_FORM_NONE;
    double worst = 0;
    uint64_t read = 0;
    for (int i = 0; i < 3; ++i) {
      const Rows query =
          normal_rows(NKV_DTYPE_BF16, 3, item.head_dim, 1.5 * item.query_size, random);
      AttendOptions options = item.options;
      options.mode = NKV_ATTEND_MODE_BOUNDED;
      options.error = item.error;
      const auto result = attend(device, sequence, query, item.value_dim, options);
      ASSERT_EQ(result.completion.status, NKV_STATUS_OK);
      EXPECT_EQ(is_dense(result), item.is_dense);
      read += bursts(result.completion);
      for (size_t row = 0; row < 3; ++row) {
        ASSERT_TRUE(std::isfinite(result.log_sum_exp[row]));
        ASSERT_FALSE(std::isnan(result.bound[row]));
        for (const double element : result.output[row]) ASSERT_TRUE(std::isfinite(element));
      }
      const auto reference =
          reference_attention(keys, is_shared ? keys : values, query, item.value_dim, options);
      for (size_t row = 0; row < 3; ++row) {
        const auto& truth = reference[row].output;
        if (std::ranges::all_of(truth, [](double element) { return element == 0; })) {
          EXPECT_EQ(result.output[row], truth);
        } else {
          const double error = relative_distance(result.output[row], truth);
          worst = std::max(worst, error / static_cast<double>(options.error));
        }
      }
    }
    std::printf("%-22s worst error %.2f of what was asked, bursts %lu\n", item.name, worst,
                static_cast<unsigned long>(read / 3));
    EXPECT_LE(worst, 2);
  }
}

TEST(TailByCodes, EqualsDenseWhenAllTokensAreExact) {
  for (const uint8_t v_form : {NKV_ROW_FORM_RAW, NKV_ROW_FORM_DELTA4}) {
    World world({.tokens = 1024}, 1, {.k_form = NKV_ROW_FORM_DELTA4, .v_form = v_form});
    const Rows query = world.topics.query(4, world.random);
    AttendOptions options;
    options.mode = NKV_ATTEND_MODE_TAIL;
    options.top_k = 1024;
    const auto result = world.run(query, options);
    const auto reference = world.reference(query);
    EXPECT_LE(output_error(result, reference), 1e-4);
    EXPECT_LE(log_sum_exp_error(result, reference), 1.0);
  }
}

TEST(TailByCodes, ErrorFallsWithTopK) {
  constexpr std::array<uint16_t, 4> kTopK{0, 16, 64, 256};
  std::array<double, kTopK.size()> mean{};
  for (uint64_t seed = 0; seed < 4; ++seed) {
    World world({}, seed);
    const Rows query = world.topics.query(4, world.random);
    const auto reference = world.reference(query);
    for (size_t i = 0; i < kTopK.size(); ++i) {
      AttendOptions options;
      options.mode = NKV_ATTEND_MODE_TAIL;
      options.top_k = kTopK[i];
      const auto result = world.run(query, options);
      for (size_t row = 0; row < 4; ++row) {
        mean[i] += relative_distance(result.output[row], reference[row].output) / 16;
      }
    }
  }
  for (size_t i = 0; i < kTopK.size(); ++i) std::printf("top %u: error %.4f\n", kTopK[i], mean[i]);
  for (size_t i = 1; i < kTopK.size(); ++i) EXPECT_LT(mean[i], mean[i - 1]);
}

TEST(StatisticalByCodes, FindsWhatFullFinds) {
  for (const uint32_t head_dim : {64u, 128u}) {
    World world({.tokens = 4096, .head_dim = head_dim, .value_dim = 64, .sharpness = 1.5},
                head_dim);
    for (const uint16_t top_k : {uint16_t{1}, uint16_t{32}, uint16_t{256}}) {
      const Rows query = world.topics.query(3, world.random);
      TopkOptions options{.top_k = top_k, .scale = .125f};
      const auto full = topk(world.device, world.sequence, query, options);
      options.mode = NKV_SELECT_STATISTICAL;
      const auto found = topk(world.device, world.sequence, query, options);
      ASSERT_EQ(found.completion.status, NKV_STATUS_OK);
      EXPECT_EQ(found.rows, full.rows);
      std::printf("%u channels, top %u: %.3f of FULL's bursts\n", head_dim, top_k,
                  static_cast<double>(bursts(found.completion)) /
                      static_cast<double>(bursts(full.completion)));
      EXPECT_LT(bursts(found.completion), bursts(full.completion));
    }
  }
}

}  // namespace
}  // namespace nearkv::test
