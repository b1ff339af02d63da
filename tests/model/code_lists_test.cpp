// Lists of which some pages have codes, or codes under other gains (section 12), and tokens that
// take no part.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

#include "coded_world.hpp"
#include "row_io.hpp"
#include "support/checksum.hpp"
#include "topk_commands.hpp"

namespace nearkv::test {
namespace {

constexpr uint64_t kRowBursts = 2;  // 64 channels of bf16.
constexpr uint64_t kPageRowBursts = NKV_PAGE_TOKENS * kRowBursts;
constexpr uint64_t kDensePageBursts = 2 + 2 * kPageRowBursts;

AttendOptions tail(uint16_t top_k) {
  AttendOptions options;
  options.mode = NKV_ATTEND_MODE_TAIL;
  options.top_k = top_k;
  return options;
}

class CodedLists : public testing::Test {
 protected:
  static constexpr uint32_t kPages = 12;
  static constexpr uint32_t kTokens = kPages * NKV_PAGE_TOKENS;

  CodedLists() {
    std::vector<int8_t> gains(64);
    for (size_t c = 0; c < gains.size(); ++c) gains[c] = static_cast<int8_t>(c % 5);
    coded_ = append_coded(device_, keys_, values_);
    gained_ = append_coded(device_, keys_, values_, kRawForm, gains);
    plain_ = append(device_, keys_, values_, kRawForm);
  }

  // Pages `from` to `from + count` of another sequence of the same rows in place of the first's.
  Sequence mix(const Sequence& sequence, const Sequence& other, uint32_t from, uint32_t count) {
    auto entries = read_entries(device_, sequence);
    const auto others = read_entries(device_, other);
    std::copy_n(others.begin() + from, count, entries.begin() + from);
    return {.page_list = device_.put<nkv_page_entry>(entries), .tokens = kTokens};
  }

  AttendResult run(const Sequence& sequence, const AttendOptions& options) {
    return attend(device_, sequence, query_, 64, options);
  }

  Device device_;
  Random random_{21};
  Rows keys_ = normal_rows(NKV_DTYPE_BF16, kTokens, 64, 1.0, random_);
  Rows values_ = normal_rows(NKV_DTYPE_BF16, kTokens, 64, 1.0, random_);
  Rows query_ = normal_rows(NKV_DTYPE_BF16, 3, 64, 1.5, random_);
  Sequence coded_;
  Sequence gained_;
  Sequence plain_;
};

// Bytes of a scan of which some pages are read exactly.
void expect_scan(const nkv_completion& completion, uint64_t coded, uint64_t plain) {
  EXPECT_EQ(completion.stream_bursts, scan_bursts(coded, 64, 64) + plain);
  EXPECT_EQ(completion.refine_bursts, 0u);
  EXPECT_EQ(completion.exact_bursts, plain * kPageRowBursts);
  EXPECT_EQ(completion.value_bursts, plain * kPageRowBursts);
}

TEST_F(CodedLists, TheScanReadsPlainPagesExactly) {
  const AttendResult result = run(mix(coded_, plain_, 3, 2), tail(0));
  EXPECT_EQ(result.completion.flags, 0);
  expect_scan(result.completion, kPages - 2, 2);
}

TEST_F(CodedLists, PagesUnderOtherGainsThanTheFirstCodedOneAreReadExactly) {
  expect_scan(run(mix(coded_, gained_, 3, 2), tail(0)).completion, kPages - 2, 2);
  // The first one is of the others, and the very first one is plain.
  const Sequence few = mix(mix(gained_, coded_, 2, 3), plain_, 0, 1);
  expect_scan(run(few, tail(0)).completion, kPages - 4, 4);
}

TEST_F(CodedLists, KeepTheErrorAsked) {
  const auto reference = reference_attention(keys_, values_, query_, 64, {});
  for (const Sequence& list :
       {mix(coded_, plain_, 3, 2), mix(coded_, plain_, 0, 1), mix(gained_, coded_, 8, 4)}) {
    const AttendResult result = run(list, bounded(.2f));
    EXPECT_FALSE(is_dense(result));
    EXPECT_GT(result.completion.rounds, 0);
    for (size_t row = 0; row < reference.size(); ++row) {
      EXPECT_LE(relative_distance(result.output[row], reference[row].output), .2);
    }
    EXPECT_LE(output_error(run(list, tail(kTokens)), reference), 1e-4);
  }
}

TEST_F(CodedLists, WhoseScanIsNoCheaperAreDenseFromTheStart) {
  // Of 12 pages: 257 bursts each if plain, 12 if coded, 1 of gains, against 17/20 of 12·258.
  expect_scan(run(mix(coded_, plain_, 1, 10), tail(0)).completion, 2, 10);
  AttendOptions capped = bounded(.2f);
  capped.byte_cap = 200;
  for (const AttendOptions& options : {tail(0), bounded(1), capped}) {
    const AttendResult result = run(mix(coded_, plain_, 1, 11), options);
    EXPECT_TRUE(is_dense(result));
    EXPECT_EQ(result.completion.rounds, 0);
    EXPECT_EQ(bursts(result.completion), kPages * kDensePageBursts);
    EXPECT_EQ(result.completion.bound, 0);
  }
}

TEST_F(CodedLists, AreDenseWithoutACodedPageInSight) {
  AttendOptions options = bounded(.2f);
  options.window = 2 * NKV_PAGE_TOKENS;
  const AttendResult result = run(mix(coded_, plain_, 10, 2), options);
  EXPECT_TRUE(is_dense(result));
  EXPECT_EQ(bursts(result.completion), 2 * kDensePageBursts);
}

TEST_F(CodedLists, ASignSetThatIsNoneIsABadPageUnderAnyGains) {
  const Sequence list = mix(coded_, gained_, 3, 2);
  forge_header(device_, read_entries(device_, list)[4],
               [](nkv_page_header& header) { header.sign_set = NKV_SIGN_SETS; });
  const AttendResult result = run(list, tail(0));
  EXPECT_EQ(result.completion.status, NKV_STATUS_BAD_PAGE);
  EXPECT_EQ(result.completion.detail, 4u);
}

TEST_F(CodedLists, SearchesFindWhatFullFinds) {
  for (const Sequence& list : {coded_, mix(coded_, plain_, 3, 2), mix(gained_, coded_, 8, 4)}) {
    TopkOptions options{.top_k = 8, .scale = -.3f};
    const auto full = topk(device_, list, query_, options);
    options.mode = NKV_SELECT_STATISTICAL;
    const auto found = topk(device_, list, query_, options);
    EXPECT_EQ(found.rows, full.rows);
    EXPECT_LT(bursts(found.completion), bursts(full.completion));
  }
  // Plain pages alone cost more than 17/20 of FULL.
  const Sequence list = mix(coded_, plain_, 1, 11);
  TopkOptions options{.top_k = 8, .scale = 1};
  const auto full = topk(device_, list, query_, options);
  options.mode = NKV_SELECT_STATISTICAL;
  EXPECT_EQ(bursts(topk(device_, list, query_, options).completion), bursts(full.completion));
}

TEST_F(CodedLists, ScalesDoNotChangeASearch) {
  TopkOptions options{.mode = NKV_SELECT_STATISTICAL, .top_k = 8, .scale = .125f};
  const auto usual = topk(device_, coded_, query_, options);
  for (const float scale : {1e-30f, 1e-3f, 40.f, 1e30f, -1.f}) {
    options.scale = scale;
    const auto found = topk(device_, coded_, query_, options);
    EXPECT_EQ(bursts(found.completion), bursts(usual.completion)) << scale;
    for (size_t row = 0; row < 3; ++row) EXPECT_EQ(found.rows[row].ids, usual.rows[row].ids);
  }
}

// Rows of keys that fit a normal distribution badly, or not at all.
TEST_F(CodedLists, SearchesFindWhatFullFindsInOddKeys) {
  struct Odd {
    const char* name;
    std::function<double(uint32_t, uint32_t)> key;
  };
  const Odd odds[] = {
      {"zero", [](uint32_t, uint32_t) { return 0.0; }},
      {"one", [](uint32_t, uint32_t c) { return std::sin(3.0 * c); }},
      {"one of each page",
       [](uint32_t t, uint32_t c) { return std::sin(3.0 * c + std::floor(t / 64.0)); }},
      {"tiny", [&](uint32_t, uint32_t) { return 1e-30 * normal(random_); }},
      {"vast", [&](uint32_t, uint32_t) { return 1e30 * normal(random_); }},
      {"outliers",
       [&](uint32_t t, uint32_t) { return (t % 97 == 5 ? 1e4 : 1.0) * normal(random_); }},
      {"channels",
       [&](uint32_t, uint32_t c) { return (c % 31 == 5 ? 1e3 : 1.0) * normal(random_); }},
  };
  for (const Odd& odd : odds) {
    SCOPED_TRACE(odd.name);
    const Rows keys = make_rows(NKV_DTYPE_BF16, kTokens, 64, odd.key);
    const Sequence list = append_coded(device_, keys, values_);
    TopkOptions options{.top_k = 8, .scale = .125f};
    const auto full = topk(device_, list, query_, options);
    options.mode = NKV_SELECT_STATISTICAL;
    const auto found = topk(device_, list, query_, options);
    EXPECT_EQ(found.rows, full.rows);
    std::printf("%-18s %.3f of FULL's bursts\n", odd.name,
                static_cast<double>(bursts(found.completion)) /
                    static_cast<double>(bursts(full.completion)));
  }
}

TEST_F(CodedLists, SoftCapsAreExactAndSubnormalOnesAreNone) {
  AttendOptions options = bounded(.2f);
  const AttendResult without = run(coded_, options);
  options.soft_cap = 1e-40f;
  EXPECT_EQ(run(coded_, options).output, without.output);
  EXPECT_FALSE(is_dense(run(coded_, options)));
  options.soft_cap = 1e-30f;
  EXPECT_TRUE(is_dense(run(coded_, options)));
}

TEST_F(CodedLists, HiddenPagesTakeNoPart) {
  AttendOptions options = bounded(.2f);
  options.window = 6 * NKV_PAGE_TOKENS;
  const AttendResult windowed = run(coded_, options);
  auto entries = read_entries(device_, coded_);
  entries.erase(entries.begin(), entries.begin() + 6);
  const Sequence rest{.page_list = device_.put<nkv_page_entry>(entries),
                      .tokens = 6 * NKV_PAGE_TOKENS};
  options.window = 0;
  const AttendResult whole = run(rest, options);
  EXPECT_EQ(windowed.output, whole.output);
  EXPECT_EQ(windowed.bound, whole.bound);
  EXPECT_EQ(bursts(windowed.completion), bursts(whole.completion));
}

// Neither what a hidden token's factors nor what its planes say is looked at.
TEST_F(CodedLists, HiddenTokensTakeNoPart) {
  AttendOptions options = bounded(.2f);
  options.window = kTokens - 100;
  options.sinks = 20;
  const AttendResult before = run(coded_, options);
  EXPECT_GT(before.completion.rounds, 0);
  for (const uint32_t token : {20u, 63u, 64u, 99u}) {
    const nkv_page_entry entry = read_entries(device_, coded_)[token / NKV_PAGE_TOKENS];
    const nkv_page_layout layout = layout_of(read_header(device_, entry));
    const uint64_t page = uint64_t{entry.page} * NKV_PAGE_GRAIN_BYTES;
    const uint32_t in_page = token % NKV_PAGE_TOKENS;
    for (const uint64_t start : {0u, 32u}) {  // Factors of K, of V.
      std::byte& pair =
          device_.window()[page + layout.offset[NKV_PAGE_ARRAY_CODE_SUMMARY] + start + in_page / 2];
      pair ^= std::byte{5} << in_page % 2 * 4;
    }
    device_.window()[page + layout.offset[NKV_PAGE_ARRAY_K_SIGNS] + in_page * 8] ^= std::byte{255};
    forge_header(device_, entry, [&](nkv_page_header& header) {
      header.crc_code_summary = checksum(read_array(device_, entry, NKV_PAGE_ARRAY_CODE_SUMMARY));
      header.crc_k_signs = checksum(read_array(device_, entry, NKV_PAGE_ARRAY_K_SIGNS));
    });
  }
  const AttendResult after = run(coded_, options);
  EXPECT_EQ(after.output, before.output);
  EXPECT_EQ(after.bound, before.bound);
  EXPECT_EQ(bursts(after.completion), bursts(before.completion));
}

TEST_F(CodedLists, TokensThatAreNotFiniteTakeNoPartAndAreTold) {
  keys_.patterns[70 * 64 + 5] = 0x7fc0;
  const Sequence list = append_coded(device_, keys_, values_);
  const auto reference = reference_attention(keys_, values_, query_, 64, {});
  for (const AttendOptions& options : {tail(32), bounded(.2f)}) {
    const AttendResult result = run(list, options);
    EXPECT_EQ(result.completion.flags, NKV_COMPLETION_FLAG_NONFINITE);
    if (options.mode == NKV_ATTEND_MODE_TAIL) continue;
    for (size_t row = 0; row < reference.size(); ++row) {
      EXPECT_LE(relative_distance(result.output[row], reference[row].output), .2);
    }
  }
  TopkOptions options{.mode = NKV_SELECT_STATISTICAL, .top_k = 8};
  EXPECT_EQ(topk(device_, list, query_, options).completion.flags, NKV_COMPLETION_FLAG_NONFINITE);
}

}  // namespace
}  // namespace nearkv::test
