// nkv_append against the model's append: pages of every shape, from rows that lie anywhere, to the
// byte; and how many cycles a page takes.
#include <gtest/gtest.h>

#include "append_unit.hpp"

namespace nearkv::rtl_test {
namespace {

void expect_pages(AppendUnit& unit, const AppendShape& shape, std::uint32_t pages,
                  test::Random& random) {
  const nkv_append_command command = unit.prepare(shape, pages, random);
  const model::Outcome outcome = unit.run(command);
  // What a refused APPEND leaves where pages were to go may be anything but a page.
  if (unit.models_outcome().verdict.ok()) return expect_models(unit, outcome);
  EXPECT_EQ(int{outcome.verdict.status}, int{unit.models_outcome().verdict.status});
  EXPECT_EQ(outcome.verdict.detail, unit.models_outcome().verdict.detail);
}

TEST(AppendTest, EveryDimensionInEveryForm) {
  AppendUnit unit;
  test::Random random = test::case_random(1);
  for (unsigned dim = 16; dim <= 128; dim += 16) {
    for (const std::uint8_t form : {NKV_ROW_FORM_RAW, NKV_ROW_FORM_DELTA4}) {
      AppendShape shape;
      shape.k_form = shape.v_form = form;
      shape.head_dim = static_cast<std::uint16_t>(dim);
      shape.value_dim = static_cast<std::uint16_t>(144 - dim);
      SCOPED_TRACE(shape.name());
      expect_pages(unit, shape, 2, random);
      if (HasFailure()) return;
    }
  }
}

TEST(AppendTest, EveryElementType) {
  AppendUnit unit;
  test::Random random = test::case_random(2);
  for (const std::uint8_t dtype :
       {NKV_DTYPE_BF16, NKV_DTYPE_FP16, NKV_DTYPE_FP8_E4M3, NKV_DTYPE_FP8_E5M2, NKV_DTYPE_INT8}) {
    for (const unsigned dim : {48U, 128U}) {
      AppendShape shape;
      shape.dtype = dtype;
      shape.head_dim = shape.value_dim = static_cast<std::uint16_t>(dim);
      shape.key_scales = true;
      for (const bool any_patterns : {false, true}) {
        shape.any_patterns = any_patterns;
        SCOPED_TRACE(shape.name());
        expect_pages(unit, shape, 2, random);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(AppendTest, ValuesThatAreChannelsOfTheKeys) {
  AppendUnit unit;
  test::Random random = test::case_random(3);
  for (const std::uint8_t form : {NKV_ROW_FORM_RAW, NKV_ROW_FORM_DELTA4}) {
    for (unsigned value_dim = 0; value_dim <= 112; value_dim += 16) {
      AppendShape shape;
      shape.k_form = form;
      shape.v_form = NKV_ROW_FORM_NONE;
      shape.head_dim = 112;
      shape.value_dim = static_cast<std::uint16_t>(value_dim);
      SCOPED_TRACE(shape.name());
      expect_pages(unit, shape, 2, random);
      if (HasFailure()) return;
    }
  }
}

TEST(AppendTest, RowsAtAnyByteAndAnyDistance) {
  AppendUnit unit;
  test::Random random = test::case_random(4);
  for (const std::uint8_t dtype : {NKV_DTYPE_BF16, NKV_DTYPE_INT8}) {
    for (unsigned skew = 0; skew < 64; skew += 3) {
      AppendShape shape;
      shape.dtype = dtype;
      shape.head_dim = 80;
      shape.value_dim = 64;
      shape.skew_bytes = skew;
      shape.gap_bytes = skew % 4 == 0 ? 0 : test::pick(random, 1, 300);
      shape.key_scales = skew % 2 == 0;
      SCOPED_TRACE(shape.name());
      expect_pages(unit, shape, 2, random);
      if (HasFailure()) return;
    }
  }
}

// A stride below a row's size: each row begins with some of the row before, or all rows are one.
TEST(AppendTest, RowsThatOverlap) {
  AppendUnit unit;
  test::Random random = test::case_random(5);
  for (const std::uint32_t stride : {1U, 2U, 30U, 64U, 100U}) {
    nkv_append_command command = unit.prepare({}, 2, random);
    command.key_stride = stride;
    command.value_stride = stride - 1;
    expect_models(unit, unit.run(command));
  }
}

TEST(AppendTest, AnyShapeOverAnyMemory) {
  for (const emulator::MemoryTiming& timing : kTimings) {
    AppendUnit unit(timing);
    for (unsigned number = 0; number < 40 && !testing::Test::HasFailure(); ++number) {
      test::Random random = test::case_random(1000 + number);
      unit.set_pace({.reads = kPaces[number % 3], .writes = kPaces[number / 3 % 3]});
      const AppendShape shape = random_append_shape(random);
      SCOPED_TRACE(test::case_name(1000 + number) + ": " + shape.name());
      expect_pages(unit, shape, test::pick(random, 1, 5), random);
    }
  }
}

/// Cycles over the bursts that are read and written.
double cycles_per_burst(AppendUnit& unit, const AppendShape& shape) {
  constexpr std::uint32_t kPages = 16;
  test::Random random = test::case_random(6);
  expect_pages(unit, shape, kPages, random);
  const std::uint64_t bursts = unit.bursts_read() + unit.bursts_written();
  const double ratio = static_cast<double>(unit.run_cycles()) / static_cast<double>(bursts);
  std::printf("  %s: %.0f cycles per page, %.2f per burst read or written\n", shape.name().c_str(),
              static_cast<double>(unit.run_cycles()) / kPages, ratio);
  return ratio;
}

TEST(AppendTest, CyclesPerBurst) {
  AppendUnit unit({.latency_cycles = 60});
  EXPECT_LE(cycles_per_burst(unit, {}), 0.62);
  EXPECT_LE(cycles_per_burst(unit, {.head_dim = 64, .value_dim = 64}), 0.7);
  EXPECT_LE(cycles_per_burst(unit, {.skew_bytes = 5}), 0.63);
  EXPECT_LE(cycles_per_burst(unit, {.dtype = NKV_DTYPE_FP8_E4M3}), 1.25);
  EXPECT_LE(cycles_per_burst(unit, {.k_form = NKV_ROW_FORM_DELTA4, .v_form = NKV_ROW_FORM_DELTA4}),
            0.9);
}

}  // namespace
}  // namespace nearkv::rtl_test
