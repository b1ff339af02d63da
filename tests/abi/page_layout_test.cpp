// The generated page layout against the tests' own reading of the contract.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "nkv_abi.h"

namespace nearkv::abi_test {
namespace {

struct LayoutCase {
  nkv_page_shape shape;
  std::array<std::uint32_t, NKV_PAGE_ARRAY_COUNT> offset_bytes;
  std::array<std::uint32_t, NKV_PAGE_ARRAY_COUNT> size_bytes;
  std::uint32_t total_bytes;
};

const std::vector<LayoutCase>& layout_cases() {
  static const std::vector<LayoutCase> cases = {
#include "page_layouts.inc"
  };
  return cases;
}

TEST(PageLayout, PutsEveryArrayWhereTheContractSays) {
  for (const LayoutCase& expected : layout_cases()) {
    nkv_page_layout layout;
    nkv_lay_out_page(&expected.shape, &layout);
    for (std::size_t array = 0; array < NKV_PAGE_ARRAY_COUNT; ++array) {
      EXPECT_EQ(layout.bytes[array], expected.size_bytes[array]) << "array " << array;
      EXPECT_EQ(layout.offset[array], expected.offset_bytes[array]) << "array " << array;
    }
    ASSERT_EQ(layout.total_bytes, expected.total_bytes);
  }
}

// Worked out by hand from the contract's text for the most common page.
TEST(PageLayout, Bf16Delta4HeadDim128Takes25088Bytes) {
  nkv_page_shape shape{};
  shape.k_form = NKV_ROW_FORM_DELTA4;
  shape.v_form = NKV_ROW_FORM_DELTA4;
  shape.dtype = NKV_DTYPE_BF16;
  shape.head_dim = 128;
  shape.value_dim = 128;
  nkv_page_layout layout;
  nkv_lay_out_page(&shape, &layout);
  EXPECT_EQ(layout.offset[NKV_PAGE_ARRAY_K_EXPONENTS], 128U);
  EXPECT_EQ(layout.offset[NKV_PAGE_ARRAY_K_ROWS], 256U);
  EXPECT_EQ(layout.bytes[NKV_PAGE_ARRAY_K_ROWS], 12288U);
  EXPECT_EQ(layout.bytes[NKV_PAGE_ARRAY_KEY_SCALES], 0U);
  EXPECT_EQ(layout.offset[NKV_PAGE_ARRAY_V_EXPONENTS], 12608U);
  EXPECT_EQ(layout.offset[NKV_PAGE_ARRAY_V_ROWS], 12736U);
  EXPECT_EQ(layout.offset[NKV_PAGE_ARRAY_V_EXCEPTIONS], 25024U);
  EXPECT_EQ(layout.total_bytes, 25088U);
}

TEST(PageLayout, KeyScalesAreThereOnlyWithTheirFlag) {
  nkv_page_shape shape{};
  shape.k_form = NKV_ROW_FORM_RAW;
  shape.v_form = NKV_ROW_FORM_NONE;
  shape.dtype = NKV_DTYPE_FP8_E4M3;
  shape.head_dim = 128;
  nkv_page_layout without;
  nkv_lay_out_page(&shape, &without);
  shape.flags = NKV_PAGE_FLAG_KEY_SCALES;
  nkv_page_layout with;
  nkv_lay_out_page(&shape, &with);
  EXPECT_EQ(without.bytes[NKV_PAGE_ARRAY_KEY_SCALES], 0U);
  EXPECT_EQ(with.bytes[NKV_PAGE_ARRAY_KEY_SCALES], 256U);
  EXPECT_EQ(with.total_bytes, without.total_bytes + 256U);
}

TEST(PageLayout, CodesAreThereOnlyWithTheirFlagAndLast) {
  nkv_page_shape shape{};
  shape.k_form = NKV_ROW_FORM_RAW;
  shape.v_form = NKV_ROW_FORM_RAW;
  shape.dtype = NKV_DTYPE_BF16;
  shape.head_dim = 64;
  shape.value_dim = 64;
  nkv_page_layout without;
  nkv_lay_out_page(&shape, &without);
  shape.flags = NKV_PAGE_FLAG_CODES;
  nkv_page_layout with;
  nkv_lay_out_page(&shape, &with);
  for (int array = NKV_PAGE_ARRAY_CODE_SUMMARY; array < NKV_PAGE_ARRAY_COUNT; ++array) {
    EXPECT_EQ(without.bytes[array], 0U);
  }
  // What a scan reads beside the header's first burst: 3 + 8 bursts.
  EXPECT_EQ(with.offset[NKV_PAGE_ARRAY_CODE_SUMMARY], without.offset[NKV_PAGE_ARRAY_CODE_SUMMARY]);
  EXPECT_EQ(with.bytes[NKV_PAGE_ARRAY_CODE_SUMMARY], 192U);
  EXPECT_EQ(with.bytes[NKV_PAGE_ARRAY_K_SIGNS], 512U);
  EXPECT_EQ(with.bytes[NKV_PAGE_ARRAY_K_CODES], 1536U);
  EXPECT_EQ(with.bytes[NKV_PAGE_ARRAY_V_CODES], 1536U);
  EXPECT_EQ(with.bytes[NKV_PAGE_ARRAY_K_GAINS], 64U);
  EXPECT_EQ(with.offset[NKV_PAGE_ARRAY_K_GAINS] + 64U,
            with.offset[NKV_PAGE_ARRAY_CODE_SUMMARY] + 192U + 512U + 1536U + 1536U + 64U);
}

TEST(RowBytes, FollowFormAndType) {
  EXPECT_EQ(nkv_row_bytes(NKV_ROW_FORM_RAW, NKV_DTYPE_FP32, 100), 400U);
  EXPECT_EQ(nkv_row_bytes(NKV_ROW_FORM_RAW, NKV_DTYPE_INT8, 100), 100U);
  EXPECT_EQ(nkv_row_bytes(NKV_ROW_FORM_DELTA4, NKV_DTYPE_BF16, 128), 192U);
  EXPECT_EQ(nkv_row_bytes(NKV_ROW_FORM_NONE, NKV_DTYPE_BF16, 128), 0U);
  EXPECT_EQ(nkv_row_bytes(200, NKV_DTYPE_BF16, 128), 0U);
  EXPECT_EQ(nkv_element_bytes(200), 0U);
}

}  // namespace
}  // namespace nearkv::abi_test
