// nkv_code_best against the model's choice: lists of pages with logits near each other and far
// apart, of which any number is wanted.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "Vnkv_code_best.h"
#include "best_codes.hpp"
#include "code_scores.hpp"
#include "scan_input.hpp"
#include "scores/code_commands.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kTokens = 4;
constexpr unsigned kSlices = NKV_PAGE_TOKENS / kTokens;
constexpr unsigned kLatency = 3;
constexpr unsigned kPatience = 2 * 4096 + 20;

/// A list of pages of codes, and what a query's rows score by one plane.
struct Listed {
  std::vector<std::byte> window;
  std::optional<model::CodedList> list;
  std::optional<model::CodeScores> scores;
};

void open(test::Random& random, const std::vector<PageCodes>& pages, unsigned rows,
          Listed* listed) {
  model::ScanInput input;
  for (const PageCodes& codes : pages) {
    const auto bytes = page_of(codes);
    nkv_page_entry entry{};
    entry.page = static_cast<std::uint32_t>(listed->window.size() / NKV_PAGE_GRAIN_BYTES);
    input.entries.push_back(entry);
    listed->window.insert(listed->window.end(), bytes.begin(), bytes.end());
  }
  const auto tokens = static_cast<std::uint32_t>(NKV_PAGE_TOKENS * pages.size());
  input.visibility = {.tokens = tokens - test::pick(random, 0, NKV_PAGE_TOKENS - 1),
                      .window = test::pick(random, 0, 1) * test::pick(random, 1, tokens),
                      .sinks = test::pick(random, 0, 255)};
  const model::Domain domain{.window = model::Window(listed->window), .tenant = 0};
  ASSERT_TRUE(model::CodedList::open(domain, input, static_cast<std::uint16_t>(pages[0].dim),
                                     std::nullopt, &listed->list)
                  .ok());
  ASSERT_TRUE(listed->list);
  const model::CodeQuery query(any_query(random, rows, pages[0].dim), listed->list->gains(),
                               pages[0].top);
  listed->scores.emplace(*listed->list, query);
}

class Best : public Simulation<Vnkv_code_best> {
 public:
  Best() { reset(); }

  /// The best `count` tokens, by three passes.
  void check(const model::CodeScores& scores, std::uint64_t count, test::Random& random) {
    const model::TokenSet expected = model::best_by_codes(scores, count);
    begin(scores.rows(), count);
    pass(scores, kMeasure, random);
    ASSERT_TRUE(tick_until([this] { return (*this)->ready_o != 0; }, kPatience));
    pass(scores, kCount, random);
    find();
    if (testing::Test::HasFatalFailure()) return;
    told_.assign(expected.size(), 0);
    pass(scores, kTell, random);
    for (size_t page = 0; page < expected.size(); ++page) {
      ASSERT_EQ(told_[page], expected[page]) << "page " << page << " of the best " << count;
    }
  }

  /// Some are counted, which the next command must not see.
  void count_and_clear(const model::CodeScores& scores, bool finds, test::Random& random) {
    begin(scores.rows(), 1);
    pass(scores, kMeasure, random);
    ASSERT_TRUE(tick_until([this] { return (*this)->ready_o != 0; }, kPatience));
    pass(scores, kCount, random);
    (*this)->find_i = finds;
    tick();
    (*this)->find_i = 0;
  }

 private:
  enum Pass : std::uint8_t { kMeasure, kCount, kTell };

  void begin(size_t rows, std::uint64_t count) {
    (*this)->rows_i = static_cast<std::uint8_t>(rows);
    (*this)->count_i = static_cast<std::uint16_t>(count);
    (*this)->clear_i = 1;
    tick();
    (*this)->clear_i = 0;
  }

  void find() {
    (*this)->find_i = 1;
    tick();
    (*this)->find_i = 0;
    ASSERT_TRUE(tick_until([this] { return (*this)->found_o != 0; }, kPatience));
  }

  void pass(const model::CodeScores& scores, Pass pass, test::Random& random) {
    const model::CodedList& list = scores.list();
    (*this)->pass_i = pass;
    seen_ = 0;
    for (size_t page = 0; page < list.size(); ++page) {
      for (unsigned slice = 0; slice < kSlices; ++slice) {
        const std::uint64_t tokens = list.pages()[page].visible >> slice * kTokens & 15;
        (*this)->valid_i = 1;
        (*this)->tokens_i = static_cast<std::uint8_t>(tokens);
        for (size_t row = 0; row < scores.rows(); ++row) {
          for (unsigned t = 0; t < kTokens; ++t) {
            const std::int64_t logit = (tokens >> t & 1) != 0
                                           ? scores.logit(row, page, slice * kTokens + t)
                                           : static_cast<std::int64_t>(random());
            (*this)->logit_i[row][t] =
                static_cast<std::uint64_t>(logit) & ((std::uint64_t{1} << 39) - 1);
          }
        }
        cycle();
        (*this)->valid_i = 0;
        while (random() % 8 == 0) cycle();
      }
    }
    for (unsigned i = 0; i < kLatency; ++i) cycle();
    EXPECT_EQ(seen_, pass == kTell ? list.size() * kSlices : 0);
  }

  void cycle() {
    tick();
    if (!(*this)->valid_o) return;
    ASSERT_LT(seen_, told_.size() * kSlices);
    told_[seen_ / kSlices] |= std::uint64_t{(*this)->best_o} << seen_ % kSlices * kTokens;
    ++seen_;
  }

  size_t seen_ = 0;
  model::TokenSet told_;
};

std::vector<PageCodes> any_pages(test::Random& random, unsigned spread) {
  std::vector<PageCodes> pages;
  const unsigned dim = 16 * test::pick(random, 1, 8);
  const unsigned count = test::pick(random, 1, 6);
  for (unsigned i = 0; i < count; ++i) {
    pages.push_back(any_codes(random, dim, 0));
    pages.back().mean_power += static_cast<int>(test::pick(random, 0, spread));
    // All tokens of a page alike, so that many share a bin.
    if (spread == 0) std::ranges::fill(pages.back().factors, std::uint8_t{0});
  }
  return pages;
}

TEST(CodeBestTest, AnyNumberOfAnyLists) {
  test::Random random = test::case_random(1);
  Best unit;
  for (unsigned i = 0; i < 60; ++i) {
    SCOPED_TRACE(test::case_name(i));
    const std::vector<PageCodes> pages = any_pages(random, i % 3 * 6);
    Listed listed;
    open(random, pages, test::pick(random, 1, 8), &listed);
    if (HasFatalFailure()) return;
    const auto tokens = static_cast<std::uint32_t>(NKV_PAGE_TOKENS * pages.size());
    const std::uint64_t visible = model::count_tokens(listed.list->pages().visible());
    for (const std::uint64_t count :
         {std::uint64_t{1}, std::uint64_t{test::pick(random, 1, tokens)}, visible, visible - 1}) {
      if (count != 0) unit.check(*listed.scores, count, random);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(CodeBestTest, NothingIsLeftOfACommandBefore) {
  test::Random random = test::case_random(2);
  Best unit;
  for (unsigned i = 0; i < 12; ++i) {
    Listed listed;
    open(random, any_pages(random, 2), 8, &listed);
    if (HasFatalFailure()) return;
    unit.count_and_clear(*listed.scores, i % 2 == 0, random);
    const std::uint64_t visible = model::count_tokens(listed.list->pages().visible());
    unit.check(*listed.scores, visible / 2 + 1, random);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace nearkv::rtl_test
