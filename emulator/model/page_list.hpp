// Page lists: which tokens a command sees, which pages it reads, and their acceptance.
#ifndef NEARKV_MODEL_PAGE_LIST_HPP_
#define NEARKV_MODEL_PAGE_LIST_HPP_

#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "domain.hpp"
#include "page.hpp"
#include "verdict.hpp"

namespace nearkv::model {

/// Tokens of a page as bits: bit t is token t of the page.
using TokenMask = uint64_t;

/// A set of tokens of listed pages, one mask per ListedPage.
using TokenSet = std::vector<TokenMask>;

uint64_t count_tokens(const TokenSet& tokens);

constexpr bool has_token(TokenMask mask, uint32_t token) { return (mask >> token & 1) != 0; }
constexpr TokenMask token_bit(uint32_t token) { return TokenMask{1} << token; }

/// Calls `use(token)` for each token of a mask, the first one first.
template <typename Use>
void for_each_token(TokenMask tokens, const Use& use) {
  for (; tokens != 0; tokens &= tokens - 1) use(static_cast<uint32_t>(std::countr_zero(tokens)));
}

/// The visibility rule of ATTEND and TOPK: t < tokens and (window = 0 or t >= tokens − window or
/// t < sinks).
struct Visibility {
  uint32_t tokens;
  uint32_t window;
  uint32_t sinks;

  [[nodiscard]] TokenMask of_page(uint64_t page) const;
};

/// Largest exponents over all entries of a list, read or not (sections 1.2 and 1.3).
struct ListExponents {
  int key = 0;
  int value = 0;
};

ListExponents list_exponents(std::span<const nkv_page_entry> entries);

/// A page with a visible token.
struct ListedPage {
  uint32_t index;      ///< In the page list.
  TokenMask in_sight;  ///< Visible by position: decides which pages are read (1.4).
  TokenMask visible;   ///< In sight, and the key is finite: takes part.
  Page page;

  [[nodiscard]] uint32_t first_token() const { return index * NKV_PAGE_TOKENS; }
};

/// What pages must be to serve a command, and what of them is streamed whole.
struct PageDemand {
  uint16_t head_dim;
  std::optional<uint16_t> value_dim;
  bool raw_keys = false;
  bool whole_header = true;
  std::vector<nkv_page_array> streamed;  ///< Checksums are verified before anything is used.
};

/// The pages of a list that have a visible token, in list order.
class ListedPages {
 public:
  /// Accepts and verifies page by page; the lowest index that fails is reported.
  static Verdict open(const Domain& domain, std::span<const nkv_page_entry> entries,
                      const Visibility& visibility, const PageDemand& demand, ListedPages* pages);

  /// Makes ready to read rows of the pages that hold `tokens`: their whole headers are accepted and
  /// `arrays` verified. Scattered rows themselves rely on the memory's own protection.
  Verdict rely_on(const Domain& domain, std::span<const nkv_page_entry> entries,
                  const TokenSet& tokens, std::span<const nkv_page_array> arrays);

  /// The same of one page, by its place among these.
  Verdict rely_on(const Domain& domain, std::span<const nkv_page_entry> entries, size_t page,
                  std::span<const nkv_page_array> arrays);

  [[nodiscard]] size_t size() const { return pages_.size(); }
  [[nodiscard]] const ListedPage& operator[](size_t i) const { return pages_[i]; }
  [[nodiscard]] auto begin() const { return pages_.begin(); }
  [[nodiscard]] auto end() const { return pages_.end(); }

  [[nodiscard]] TokenSet visible() const;
  [[nodiscard]] TokenSet none() const { return TokenSet(pages_.size(), 0); }

  /// Whether a token in sight takes no part because its key is not finite.
  [[nodiscard]] bool hides_nonfinite() const;

 private:
  std::vector<ListedPage> pages_;
};

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_PAGE_LIST_HPP_
