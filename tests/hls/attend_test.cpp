// nearkv_attend against the model's ATTEND DENSE, bit for bit; and nearkv_score on DELTA4 rows.
#include "kernels/attend.hpp"

#include <gtest/gtest.h>

#include <bit>

#include "attend_pages.hpp"
#include "kernel_list.hpp"
#include "kernels/score.hpp"
#include "rows.hpp"

namespace nearkv::hls_test {
namespace {

using kernels::kRows;

kernels::RowShape rows_of(const AttendShape& shape, std::uint32_t dim) {
  return {.is_delta4 = shape.form == NKV_ROW_FORM_DELTA4, .channels = static_cast<int>(dim)};
}

void expect_models(const AttendShape& shape, std::uint64_t number) {
  SCOPED_TRACE(test::case_name(number));
  test::Random random = test::case_random(number);
  const AttendPages list(shape, random);
  const KernelList pages(list.pages());
  const Bursts query = query_bursts(list.input().query, shape.head_dim);
  Bursts output(std::size_t{kRows} * shape.value_dim * sizeof(float) / NKV_BURST_BYTES);
  Bursts log_sum_exp(1);
  nearkv_attend(pages.memory.data(), pages.first_burst.data(),
                {.exponents = place_of(list.pages(), NKV_PAGE_ARRAY_K_EXPONENTS),
                 .rows = place_of(list.pages(), NKV_PAGE_ARRAY_K_ROWS),
                 .shape = rows_of(shape, shape.head_dim)},
                pages.memory.data(), pages.first_burst.data(),
                {.exponents = place_of(list.pages(), NKV_PAGE_ARRAY_V_EXPONENTS),
                 .rows = place_of(list.pages(), NKV_PAGE_ARRAY_V_ROWS),
                 .shape = rows_of(shape, shape.value_dim)},
                pages.visible.data(), pages.count(), query.data(), static_cast<int>(shape.group),
                {.scale = std::bit_cast<std::uint32_t>(shape.scale),
                 .soft_cap = std::bit_cast<std::uint32_t>(shape.soft_cap),
                 .key_exponent = list.input().exponents.key,
                 .value_exponent = list.input().exponents.value,
                 .base2 = shape.base2},
                output.data(), log_sum_exp.data());
  const model::AttendAnswer expected = list.attend();
  ASSERT_TRUE(expected.verdict.ok());
  for (std::uint32_t row = 0; row < shape.group; ++row) {
    const auto of_row = kernels::part_of<32>(log_sum_exp[0], static_cast<int>(row));
    ASSERT_EQ(of_row.to_uint(), std::bit_cast<std::uint32_t>(expected.rows[row].log_sum_exp))
        << "LSE of row " << row;
    for (std::uint32_t c = 0; c < shape.value_dim; ++c) {
      const std::uint32_t at = row * shape.value_dim + c;
      const auto element = kernels::part_of<32>(output[at / 16], static_cast<int>(at % 16));
      ASSERT_EQ(element.to_uint(), std::bit_cast<std::uint32_t>(expected.rows[row].output[c]))
          << "row " << row << " channel " << c;
    }
  }
}

TEST(AttendTest, RawRowsOfEveryDimension) {
  for (std::uint32_t dim = 16; dim <= 128; dim += 16) {
    expect_models({.head_dim = dim, .value_dim = 144 - dim, .group = dim / 16}, dim);
    if (HasFatalFailure()) return;
  }
}

TEST(AttendTest, Delta4RowsOfEveryDimension) {
  for (std::uint32_t dim = 16; dim <= 128; dim += 16) {
    expect_models({.head_dim = dim, .value_dim = 144 - dim, .form = NKV_ROW_FORM_DELTA4}, dim);
    if (HasFatalFailure()) return;
  }
}

TEST(AttendTest, AnyBits) {
  for (const std::uint8_t form : {NKV_ROW_FORM_RAW, NKV_ROW_FORM_DELTA4}) {
    for (std::uint64_t number = 100; number < 104; ++number) {
      expect_models({.pages = 4, .form = form, .any_bits = true}, number);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(AttendTest, ScalesAndSoftCaps) {
  std::uint64_t number = 200;
  for (const float scale : {0.125f, -3.0f, 40.0f, 1e-30f}) {
    for (const float soft_cap : {0.0f, 50.0f, 0.01f}) {
      for (const bool base2 : {false, true}) {
        expect_models(
            {.head_dim = 64, .value_dim = 32, .scale = scale, .soft_cap = soft_cap, .base2 = base2},
            ++number);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(AttendTest, WindowsAndSinks) {
  expect_models({.head_dim = 64,
                 .value_dim = 64,
                 .pages = 6,
                 .visibility = {.tokens = 333, .window = 70, .sinks = 5}},
                300);
  expect_models({.head_dim = 64, .pages = 2, .visibility = {.tokens = 1, .window = 0, .sinks = 0}},
                301);
}

TEST(AttendTest, ScoresOfDelta4Rows) {
  for (std::uint32_t dim = 16; dim <= 128; dim += 16) {
    test::Random random = test::case_random(dim);
    const AttendPages list(
        {.head_dim = dim, .value_dim = 16, .form = NKV_ROW_FORM_DELTA4, .any_bits = true}, random);
    const KernelList pages(list.pages());
    const model::Query& query = list.input().query;
    const Bursts rows = query_bursts(query, dim);
    Bursts scores(pages.first_burst.size() * NKV_PAGE_TOKENS);
    nearkv_score(pages.memory.data(), pages.first_burst.data(), pages.count(),
                 place_of(list.pages(), NKV_PAGE_ARRAY_K_EXPONENTS),
                 place_of(list.pages(), NKV_PAGE_ARRAY_K_ROWS), rows_of(list.shape(), dim),
                 rows.data(), kRows, list.input().exponents.key, scores.data());
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const auto& page = list.pages()[i / NKV_PAGE_TOKENS].page;
      const auto key =
          model::key_row(page, static_cast<std::uint32_t>(i % 64), list.input().exponents.key);
      for (int row = 0; row < kRows; ++row) {
        ASSERT_EQ(static_cast<std::int64_t>(kernels::part_of<64>(scores[i], row).to_uint64()),
                  model::exact_score(query.row(static_cast<std::size_t>(row)), key))
            << "token " << i << " row " << row;
      }
    }
  }
}

}  // namespace
}  // namespace nearkv::hls_test
