// nkv_row_decode against the model's elements and integers: pages of random bytes in every form,
// type and dimension, of which any tokens are wanted.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <vector>

#include "Vnkv_row_decode.h"
#include "delta4.hpp"
#include "element.hpp"
#include "nkv_abi.h"
#include "number.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kLanes = 32;
constexpr unsigned kLatency = 11;

struct Format {
  std::uint8_t form = NKV_ROW_FORM_RAW;
  std::uint8_t dtype = NKV_DTYPE_BF16;
  unsigned stored_dim = 128;
  unsigned used_dim = 128;
  bool values = false;
  int list_exponent = 140;

  [[nodiscard]] unsigned row_bytes() const { return nkv_row_bytes(form, dtype, stored_dim); }
  [[nodiscard]] unsigned words() const { return (used_dim + kLanes - 1) / kLanes; }
};

struct Page {
  std::vector<std::byte> rows;
  std::vector<std::uint8_t> exponents;  // Of channels; DELTA4.
};

struct Row {
  unsigned page;
  unsigned token;
};

struct Word {
  std::uint8_t tag;
  unsigned index;
  bool last;
  bool pass_last;
  std::vector<std::int32_t> integers;
};

// What a page's token reads as.
std::vector<std::int32_t> model_row(const Format& format, const Page& page, unsigned token) {
  const auto bytes =
      std::span(page.rows).subspan(size_t{token} * format.row_bytes(), format.row_bytes());
  std::vector<std::int32_t> integers;
  for (unsigned channel = 0; channel < format.used_dim; ++channel) {
    model::Number number;
    if (format.form == NKV_ROW_FORM_DELTA4) {
      const std::uint16_t pattern =
          model::decode_delta4(bytes, format.stored_dim, channel, page.exponents[channel]);
      number = model::decode_element(NKV_DTYPE_BF16, std::as_bytes(std::span(&pattern, 1)));
    } else {
      number = model::decode_element(format.dtype,
                                     bytes.subspan(channel * nkv_element_bytes(format.dtype)));
    }
    integers.push_back(format.values ? model::value_integer(number, format.list_exponent)
                                     : model::key_integer(number, format.list_exponent));
  }
  integers.resize(size_t{format.words()} * kLanes, 0);
  return integers;
}

class Decoder : public Simulation<Vnkv_row_decode> {
 public:
  Decoder() { reset(); }

  void set(const Format& format) {
    (*this)->format_form_i = format.form;
    (*this)->format_dtype_i = format.dtype;
    (*this)->format_stored_dim_i = static_cast<std::uint8_t>(format.stored_dim);
    (*this)->format_used_dim_i = static_cast<std::uint8_t>(format.used_dim);
    (*this)->format_values_i = format.values;
    (*this)->format_list_exponent_i = static_cast<std::uint8_t>(format.list_exponent);
    tick();
  }

  void load_exponents(unsigned bank, const Page& page) {
    (*this)->exponents_valid_i = 1;
    (*this)->exponents_bank_i = bank != 0;
    for (unsigned burst = 0; burst * NKV_BURST_BYTES < page.exponents.size(); ++burst) {
      (*this)->exponents_burst_i = burst != 0;
      const size_t at = size_t{burst} * NKV_BURST_BYTES;
      std::memcpy((*this)->exponents_i.data(), page.exponents.data() + at,
                  std::min<size_t>(NKV_BURST_BYTES, page.exponents.size() - at));
      tick();
    }
    (*this)->exponents_valid_i = 0;
  }

  // Queues a row, and the bursts that it needs beyond those of the row before.
  void want(const Format& format, const std::vector<Page>& pages, Row row, bool is_last) {
    const unsigned start = row.token * format.row_bytes();
    const unsigned first = start / NKV_BURST_BYTES;
    const unsigned last = (start + format.row_bytes() - 1) / NKV_BURST_BYTES;
    const bool shared = has_previous_ && previous_page_ == row.page && previous_burst_ == first;
    rows_.push_back({row, start % NKV_BURST_BYTES / 8, shared, is_last});
    for (unsigned burst = first + (shared ? 1 : 0); burst <= last; ++burst) {
      std::vector<std::byte> bytes(NKV_BURST_BYTES);
      const auto from = std::span(pages[row.page].rows).subspan(size_t{burst} * NKV_BURST_BYTES);
      std::memcpy(bytes.data(), from.data(), std::min<size_t>(from.size(), NKV_BURST_BYTES));
      bursts_.push_back(bytes);
    }
    has_previous_ = true;
    previous_page_ = row.page;
    previous_burst_ = last;
    const auto integers = model_row(format, pages[row.page], row.token);
    ++to_issue_;
    for (unsigned word = 0; word < format.words(); ++word) {
      const bool ends = word + 1 == format.words();
      expected_.push_back(
          {tag_of(row),
           word,
           ends,
           ends && is_last,
           {integers.begin() + word * kLanes, integers.begin() + (word + 1) * kLanes}});
    }
  }

  // Runs until every word has come; paces are of rows, bursts and issue.
  void run(test::Random& random, unsigned row_pace, unsigned burst_pace, unsigned issue_pace) {
    for (unsigned i = 0; i < 100000 && !expected_.empty(); ++i) {
      cycle(random, row_pace, burst_pace, issue_pace);
      if (testing::Test::HasFatalFailure()) return;
    }
    (*this)->row_valid_i = 0;
    (*this)->burst_valid_i = 0;
    ASSERT_TRUE(expected_.empty());
    ASSERT_TRUE(rows_.empty());
    ASSERT_TRUE(bursts_.empty());
    ASSERT_EQ(to_issue_, 0U);
    tick();
    EXPECT_TRUE((*this)->idle_o);
    EXPECT_FALSE((*this)->word_valid_o);
    has_previous_ = false;
  }

  void cycle(test::Random& random, unsigned row_pace, unsigned burst_pace, unsigned issue_pace) {
    (*this)->row_valid_i = !rows_.empty() && is_willing(random, row_pace);
    if (!rows_.empty()) {
      const Wanted& wanted = rows_.front();
      (*this)->row_tag_i = tag_of(wanted.row);
      (*this)->row_bank_i = wanted.row.page != 0;
      (*this)->row_start_i = static_cast<std::uint8_t>(wanted.start);
      (*this)->row_shared_i = wanted.shared;
      (*this)->row_last_i = wanted.last;
    }
    (*this)->burst_valid_i = !bursts_.empty() && is_willing(random, burst_pace);
    if ((*this)->burst_valid_i) {
      std::memcpy((*this)->burst_i.data(), bursts_.front().data(), NKV_BURST_BYTES);
    }
    (*this)->issue_i = is_willing(random, issue_pace);
    issued_.push_back((*this)->issue_i);
    settle();
    if ((*this)->issued_last_o) --to_issue_;
    const bool row_taken = (*this)->row_valid_i && (*this)->row_ready_o;
    const bool burst_taken = (*this)->burst_valid_i && (*this)->burst_ready_o;
    tick();
    if (row_taken) rows_.pop_front();
    if (burst_taken) bursts_.pop_front();
    if (issued_.size() > kLatency) issued_.pop_front();
    if ((*this)->word_valid_o) check_word();
  }

  void forget() {
    rows_.clear();
    bursts_.clear();
    expected_.clear();
    issued_.clear();
    to_issue_ = 0;
    has_previous_ = false;
  }

 private:
  struct Wanted {
    Row row;
    unsigned start;
    bool shared;
    bool last;
  };

  static std::uint8_t tag_of(Row row) {
    return static_cast<std::uint8_t>(row.page * NKV_PAGE_TOKENS + row.token);
  }

  void check_word() {
    ASSERT_FALSE(expected_.empty());
    ASSERT_TRUE(issued_.front()) << "a word that started without credit";
    const Word& word = expected_.front();
    ASSERT_EQ((*this)->word_tag_o, word.tag);
    ASSERT_EQ((*this)->word_index_o, word.index);
    ASSERT_EQ((*this)->word_last_o, word.last);
    ASSERT_EQ((*this)->word_pass_last_o, word.pass_last);
    for (unsigned i = 0; i < kLanes; ++i) {
      const auto integer = static_cast<std::int32_t>((*this)->word_o[i] << 5) >> 5;
      ASSERT_EQ(integer, word.integers[i])
          << "token " << unsigned{word.tag} << " word " << word.index << " lane " << i;
    }
    expected_.pop_front();
  }

  std::deque<Wanted> rows_;
  std::deque<std::vector<std::byte>> bursts_;
  std::deque<Word> expected_;
  std::deque<bool> issued_;
  unsigned to_issue_ = 0;  // Rows whose last word has not started.
  bool has_previous_ = false;
  unsigned previous_page_ = 0;
  unsigned previous_burst_ = 0;
};

Page random_page(test::Random& random, const Format& format) {
  Page page;
  page.rows.resize(size_t{NKV_PAGE_TOKENS} * format.row_bytes());
  for (std::byte& byte : page.rows) byte = static_cast<std::byte>(random());
  page.exponents.resize(format.stored_dim);
  // Around the list's exponent, so that shifts of every distance occur; sometimes anything.
  for (std::uint8_t& exponent : page.exponents) {
    exponent = static_cast<std::uint8_t>(
        random() % 8 == 0 ? random() : static_cast<unsigned>(format.list_exponent) - random() % 20);
  }
  return page;
}

std::vector<Format> all_formats() {
  std::vector<Format> formats;
  for (const bool values : {false, true}) {
    for (unsigned dim = 16; dim <= 128; dim += 16) {
      for (const std::uint8_t dtype : {NKV_DTYPE_BF16, NKV_DTYPE_FP16, NKV_DTYPE_FP8_E4M3,
                                       NKV_DTYPE_FP8_E5M2, NKV_DTYPE_INT8}) {
        formats.push_back({NKV_ROW_FORM_RAW, dtype, dim, dim, values, 133});
      }
      formats.push_back({NKV_ROW_FORM_DELTA4, NKV_DTYPE_BF16, dim, dim, values, 135});
    }
  }
  return formats;
}

// Rows of two pages, each token wanted `density` times of 8; both banks of exponents are in use.
void run_pages(Decoder& decoder, test::Random& random, const Format& format, unsigned density,
               unsigned pace) {
  SCOPED_TRACE(testing::Message() << "form " << unsigned{format.form} << " dtype "
                                  << unsigned{format.dtype} << " dim " << format.stored_dim
                                  << " used " << format.used_dim << " values " << format.values);
  const std::vector<Page> pages{random_page(random, format), random_page(random, format)};
  decoder.set(format);
  if (format.form == NKV_ROW_FORM_DELTA4) {
    for (unsigned bank = 0; bank < 2; ++bank) decoder.load_exponents(bank, pages[bank]);
  }
  for (unsigned page = 0; page < 2; ++page) {
    for (unsigned token = 0; token < NKV_PAGE_TOKENS - 1; ++token) {
      if (is_willing(random, density)) decoder.want(format, pages, {page, token}, false);
    }
  }
  decoder.want(format, pages, {1, NKV_PAGE_TOKENS - 1}, true);
  decoder.run(random, pace, pace, pace);
}

TEST(RowDecodeTest, EveryFormTypeAndDimension) {
  test::Random random = test::case_random(0);
  Decoder decoder;
  for (const Format& format : all_formats()) {
    run_pages(decoder, random, format, 8, 8);
    run_pages(decoder, random, format, 4, 5);
    if (HasFatalFailure()) return;
  }
}

TEST(RowDecodeTest, SparseTokensAndSlowPeers) {
  test::Random random = test::case_random(1);
  Decoder decoder;
  for (const Format& format : all_formats()) {
    run_pages(decoder, random, format, 1, 1);
    if (HasFatalFailure()) return;
  }
}

TEST(RowDecodeTest, AnyListExponent) {
  test::Random random = test::case_random(2);
  Decoder decoder;
  for (int exponent = 0; exponent < 256; ++exponent) {
    Format format;
    format.list_exponent = exponent;
    format.values = exponent % 2 != 0;
    run_pages(decoder, random, format, 1, 8);
    if (HasFatalFailure()) return;
  }
}

TEST(RowDecodeTest, ValuesThatAreTheLeadingChannelsOfKeys) {
  test::Random random = test::case_random(3);
  Decoder decoder;
  for (const std::uint8_t form : {NKV_ROW_FORM_RAW, NKV_ROW_FORM_DELTA4}) {
    for (const unsigned stored : {32U, 64U, 96U, 128U}) {
      for (unsigned used = 16; used <= stored; used += 16) {
        run_pages(decoder, random, {form, NKV_DTYPE_BF16, stored, used, true, 130}, 6, 8);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Cycles that a page takes beyond what stands in the pipeline.
std::uint64_t page_cycles(const Format& format) {
  test::Random random = test::case_random(4);
  Decoder decoder;
  decoder.set(format);
  const std::vector<Page> pages{random_page(random, format)};
  decoder.load_exponents(0, pages[0]);
  for (unsigned token = 0; token < NKV_PAGE_TOKENS; ++token) {
    decoder.want(format, pages, {0, token}, token + 1 == NKV_PAGE_TOKENS);
  }
  const std::uint64_t before = decoder.cycles();
  decoder.run(random, 8, 8, 8);
  return decoder.cycles() - before;
}

TEST(RowDecodeTest, RawBf16TakesABurstPerCycle) {
  EXPECT_LE(page_cycles({}), NKV_PAGE_TOKENS * 4 + 20);
}

TEST(RowDecodeTest, Delta4GivesAWordPerCycle) {
  EXPECT_LE(page_cycles({.form = NKV_ROW_FORM_DELTA4}), NKV_PAGE_TOKENS * 4 + 20);
  EXPECT_LE(page_cycles({.form = NKV_ROW_FORM_DELTA4, .stored_dim = 64, .used_dim = 64}),
            NKV_PAGE_TOKENS * 2 + 20);
}

TEST(RowDecodeTest, ClearAndResetForgetRows) {
  test::Random random = test::case_random(5);
  Decoder decoder;
  const Format format{.form = NKV_ROW_FORM_DELTA4, .stored_dim = 48, .used_dim = 48};
  decoder.set(format);
  const std::vector<Page> pages{random_page(random, format), random_page(random, format)};
  for (const bool by_reset : {false, true}) {
    for (unsigned cycles = 1; cycles < 40; ++cycles) {
      for (unsigned bank = 0; bank < 2; ++bank) decoder.load_exponents(bank, pages[bank]);
      for (unsigned token = 0; token < 40; ++token) decoder.want(format, pages, {0, token}, false);
      for (unsigned i = 0; i < cycles; ++i) decoder.cycle(random, 8, 8, 5);
      decoder->row_valid_i = 0;
      decoder->burst_valid_i = 0;
      if (by_reset) {
        decoder.reset();
      } else {
        decoder->clear_i = 1;
        decoder.tick();
        decoder->clear_i = 0;
      }
      decoder.forget();
      ASSERT_TRUE(decoder->idle_o);
      run_pages(decoder, random, format, 4, 8);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace nearkv::rtl_test
