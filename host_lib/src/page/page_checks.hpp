// When a device last compared its pages with their checksums.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

#include "nkv_abi.h"

namespace nearkv {

/// Spares a device the comparison of a page whose comparison is not long ago, so that it compares a
/// page when it comes in and from then on once in a while, not each time that it reads it.
///
/// A page has come in when a command has published it, or when its header is not the one that was
/// compared: a header holds the page's generation and the checksum of every array.
///
/// Thread safety: holds(), note() and drop(), while one command runs; the others, between commands.
class PageChecks {
 public:
  /// For pages in `memory`, beside which it takes a 128th as much where pages are. A comparison
  /// counts for `most_age`, at most 100 days; zero: not at all. Throws std::bad_alloc.
  PageChecks(std::span<const std::byte> memory, std::chrono::nanoseconds most_age);

  /// Whether comparisons count beyond the reading that they are made for.
  [[nodiscard]] bool are_kept() const { return most_age_ != 0; }

  /// Comparisons from now on are as old as this call.
  void begin_command();

  /// Comparisons up to now no longer count.
  void forget();

  /// Whether the page of this header, which begins at `page`, was compared of late.
  [[nodiscard]] bool holds(const std::byte* page, const nkv_page_header& header) const;

  /// The page's arrays have been compared, and agree.
  void note(const std::byte* page, const nkv_page_header& header);

  /// The page that begins at `page` is compared at its next use: it was found to be damaged, or one
  /// was published there.
  void drop(const std::byte* page);

  /// The age of the oldest comparison that holds() has let count.
  [[nodiscard]] std::chrono::nanoseconds oldest() const {
    return oldest_.load(std::memory_order_relaxed) * kTick;
  }

 private:
  static constexpr std::chrono::milliseconds kTick{10};

  /// Half of it says when a page was compared, in ticks, 0: never; the other half, which header it
  /// had.
  using Entry = std::atomic<std::uint64_t>;
  struct Free {
    void operator()(Entry* entries) const { std::free(entries); }
  };

  /// No two pages share one: the rows alone of the smallest page take as much.
  static constexpr std::size_t kEntryBytes = 1024;

  [[nodiscard]] Entry& entry_of(const std::byte* page) const {
    return entries_[static_cast<std::size_t>(page - memory_) / kEntryBytes];
  }

  const std::byte* memory_;
  std::uint32_t most_age_;  ///< Ticks, as all times here.
  std::uint32_t now_ = 1;
  std::uint32_t counts_from_ = 0;
  mutable std::atomic<std::uint32_t> oldest_{0};
  std::unique_ptr<Entry[], Free> entries_;
};

}  // namespace nearkv
