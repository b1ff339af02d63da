// nkv_append with flag CODES against the model's append: pages of every shape, to the byte, and how
// many cycles they take.
#include <gtest/gtest.h>

#include "append_unit.hpp"

namespace nearkv::rtl_test {
namespace {

void expect_pages(AppendUnit& unit, AppendShape shape, std::uint32_t pages, test::Random& random) {
  shape.codes = true;
  SCOPED_TRACE(shape.name());
  const nkv_append_command command = unit.prepare(shape, pages, random);
  const model::Outcome outcome = unit.run(command);
  if (unit.models_outcome().verdict.ok()) return expect_models(unit, outcome);
  EXPECT_EQ(int{outcome.verdict.status}, int{unit.models_outcome().verdict.status});
  EXPECT_EQ(outcome.verdict.detail, unit.models_outcome().verdict.detail);
}

TEST(AppendCodesTest, EveryDimensionInEveryForm) {
  AppendUnit unit;
  test::Random random = test::case_random(11);
  for (unsigned dim = 16; dim <= 128 && !testing::Test::HasFailure(); dim += 16) {
    for (const std::uint8_t form : {NKV_ROW_FORM_RAW, NKV_ROW_FORM_DELTA4}) {
      AppendShape shape;
      shape.k_form = shape.v_form = form;
      shape.head_dim = static_cast<std::uint16_t>(dim);
      shape.value_dim = static_cast<std::uint16_t>(144 - dim);
      expect_pages(unit, shape, 3, random);
    }
  }
}

TEST(AppendCodesTest, EveryElementType) {
  AppendUnit unit;
  test::Random random = test::case_random(12);
  for (const std::uint8_t dtype :
       {NKV_DTYPE_BF16, NKV_DTYPE_FP16, NKV_DTYPE_FP8_E4M3, NKV_DTYPE_FP8_E5M2, NKV_DTYPE_INT8}) {
    for (const bool any_patterns : {false, true}) {
      AppendShape shape;
      shape.dtype = dtype;
      shape.head_dim = 96;
      shape.value_dim = 112;
      shape.key_scales = true;
      shape.any_patterns = any_patterns;
      expect_pages(unit, shape, 2, random);
      if (HasFailure()) return;
    }
  }
}

TEST(AppendCodesTest, ValuesThatAreChannelsOfTheKeys) {
  AppendUnit unit;
  test::Random random = test::case_random(13);
  for (unsigned value_dim = 0; value_dim <= 112; value_dim += 16) {
    AppendShape shape;
    shape.v_form = NKV_ROW_FORM_NONE;
    shape.head_dim = 112;
    shape.value_dim = static_cast<std::uint16_t>(value_dim);
    expect_pages(unit, shape, 3, random);
    if (HasFailure()) return;
  }
}

TEST(AppendCodesTest, SetsByRunsAndToTheEndOfPositions) {
  AppendUnit unit;
  test::Random random = test::case_random(14);
  for (const unsigned run : {0u, 1u, 2u, 3u, 255u}) {
    AppendShape shape;
    shape.codes = true;
    shape.head_dim = shape.value_dim = 16;
    shape.sign_run = static_cast<std::uint8_t>(run);
    nkv_append_command command = unit.prepare(shape, 9, random);
    for (const std::uint32_t pages_left : {4u, 9u, 1000u}) {
      command.first_token = 0u - pages_left * NKV_PAGE_TOKENS;
      expect_models(unit, unit.run(command));
      if (HasFailure()) return;
    }
  }
}

TEST(AppendCodesTest, AnyShapeOverAnyMemory) {
  for (const emulator::MemoryTiming& timing : kTimings) {
    AppendUnit unit(timing);
    for (unsigned number = 0; number < 40 && !testing::Test::HasFailure(); ++number) {
      test::Random random = test::case_random(2000 + number);
      unit.set_pace({.reads = kPaces[number % 3], .writes = kPaces[number / 3 % 3]});
      AppendShape shape = random_append_shape(random);
      shape.sign_run = static_cast<std::uint8_t>(random() % 4);
      SCOPED_TRACE(test::case_name(2000 + number));
      expect_pages(unit, shape, test::pick(random, 1, 5), random);
    }
  }
}

// A page that DELTA4 does not hold ends a command whose codes are under way: the next one's are
// right.
TEST(AppendCodesTest, AfterAPageThatDoesNotFit) {
  AppendUnit unit;
  test::Random random = test::case_random(15);
  for (unsigned i = 0; i < 4; ++i) {
    AppendShape overflows;
    overflows.k_form = i % 2 == 0 ? NKV_ROW_FORM_DELTA4 : NKV_ROW_FORM_RAW;
    overflows.v_form = i % 2 == 1 ? NKV_ROW_FORM_DELTA4 : NKV_ROW_FORM_RAW;
    overflows.any_patterns = true;
    expect_pages(unit, overflows, 3, random);
    ASSERT_EQ(int{unit.models_outcome().verdict.status}, int{NKV_STATUS_PAGE_OVERFLOW});
    expect_pages(unit, {.head_dim = 64, .value_dim = 96}, 2, random);
    if (HasFailure()) return;
  }
}

TEST(AppendCodesTest, CyclesPerPage) {
  constexpr std::uint32_t kPages = 16;
  AppendUnit unit({.latency_cycles = 60});
  test::Random random = test::case_random(16);
  const auto cycles_per_page = [&](const AppendShape& shape) {
    expect_pages(unit, shape, kPages, random);
    const double cycles = static_cast<double>(unit.run_cycles()) / kPages;
    std::printf("  %s: %.0f cycles per page\n", shape.name().c_str(), cycles);
    return cycles;
  };
  EXPECT_LE(cycles_per_page({}), 1200);
  EXPECT_LE(cycles_per_page({.head_dim = 64, .value_dim = 64}), 900);
}

}  // namespace
}  // namespace nearkv::rtl_test
