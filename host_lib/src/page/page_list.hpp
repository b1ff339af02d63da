// The page list of one command, and which of its tokens may be seen.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "nearkv/status.hpp"
#include "nkv_abi.h"
#include "page/page_view.hpp"
#include "page/window.hpp"

namespace nearkv {

/// A status with what its message refers to (an entry's index, a field's offset, an address).
struct [[nodiscard]] Outcome {
  Status status = Status::kOk;
  std::uint64_t detail = 0;

  [[nodiscard]] bool ok() const { return status == Status::kOk; }
};

/// The outcome of a command whose field at `offset` cannot be.
[[nodiscard]] inline Outcome bad_field(std::size_t offset) { return {Status::kBadField, offset}; }

/// Collects failures from several threads and keeps the one of the lowest index, so that what a
/// command reports does not depend on timing.
class FirstFault {
 public:
  void record(std::size_t index, Status status) {
    const std::uint64_t fault = (std::uint64_t{index} << 8) | static_cast<std::uint64_t>(status);
    std::uint64_t seen = fault_.load(std::memory_order_relaxed);
    while (fault < seen && !fault_.compare_exchange_weak(seen, fault, std::memory_order_relaxed)) {
    }
  }
  [[nodiscard]] bool any() const { return fault_.load(std::memory_order_relaxed) != kNone; }
  /// Whether work on `index` can still change the outcome.
  [[nodiscard]] bool precludes(std::size_t index) const {
    return (fault_.load(std::memory_order_relaxed) >> 8) < index;
  }
  [[nodiscard]] Outcome outcome() const {
    const std::uint64_t fault = fault_.load(std::memory_order_relaxed);
    if (fault == kNone) return {};
    return {static_cast<Status>(fault & 0xFF), fault >> 8};
  }

 private:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  std::atomic<std::uint64_t> fault_{kNone};
};

/// Which tokens of a list a query may see: the causal limit, a sliding window, and sinks before it.
struct Visibility {
  std::uint32_t tokens = 0;
  std::uint32_t window = 0;  ///< 0: none.
  std::uint32_t sinks = 0;

  /// Bit t: token t of page `page` may be seen.
  [[nodiscard]] std::uint64_t mask(std::size_t page) const {
    const std::uint64_t begin = std::uint64_t{page} * NKV_PAGE_TOKENS;
    const std::uint64_t limit = below(tokens, begin);
    if (window == 0 || window >= tokens) return limit;
    return limit & (~below(tokens - window, begin) | below(sinks, begin));
  }

 private:
  /// Bits of the page's tokens whose position is below `position`.
  static std::uint64_t below(std::uint64_t position, std::uint64_t begin) {
    if (position <= begin) return 0;
    const std::uint64_t count = position - begin;
    return count >= NKV_PAGE_TOKENS ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
  }
};

/// A private copy of a command's page entries. Pages themselves are opened one by one, by whoever
/// works on them.
class PageList {
 public:
  /// Copies ceil(tokens / PAGE_TOKENS) entries. kAddressFault if they lie outside the window.
  Outcome load(const Window& window, std::uint64_t address, std::uint64_t tokens);

  /// Copies entries that do not lie in the window of their pages.
  void assign(const Window& window, std::span<const nkv_page_entry> entries);

  [[nodiscard]] std::size_t pages() const { return entries_.size(); }
  [[nodiscard]] const nkv_page_entry& entry(std::size_t page) const { return entries_[page]; }

  /// Largest exponents of the list: the alignment of the arithmetic (ARITHMETIC.md 1.2, 1.3).
  [[nodiscard]] int k_exponent() const { return k_exponent_; }
  [[nodiscard]] int v_exponent() const { return v_exponent_; }

  /// Where page `page` starts, to be fetched ahead; null beyond the list or outside the window.
  [[nodiscard]] const std::byte* peek(std::size_t page) const {
    if (page >= entries_.size()) return nullptr;
    return window_.at(std::uint64_t{entries_[page].page} * NKV_PAGE_GRAIN_BYTES, 1).data();
  }

  /// Opens page `page`, whatever its shape.
  Status open_any(std::size_t page, HeaderDepth depth, PageView* view) const {
    return view->open(window_, entries_[page], depth);
  }

  /// From now on, pages whose values are wanted must store values, or must not.
  void demand_stored_values(bool stored) { stored_values_ = stored; }

  /// Opens page `page` and refuses one whose rows do not have `head_dim` key channels and
  /// `value_dim` value channels (0: do not care), stored as demanded.
  Status open(std::size_t page, HeaderDepth depth, std::size_t head_dim, std::size_t value_dim,
              PageView* view) const;

 private:
  void begin(const Window& window, std::size_t pages);
  void find_exponents();

  Window window_;
  std::vector<nkv_page_entry> entries_;
  int k_exponent_ = 0;
  int v_exponent_ = 0;
  std::optional<bool> stored_values_;
};

}  // namespace nearkv
