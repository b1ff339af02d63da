#include "attend/exact_rows.hpp"

#include <bit>

#include "attend/grain.hpp"

namespace nearkv {
namespace {

/// Bursts of one page's chosen key rows and, in DELTA4, its channel exponents.
std::uint64_t key_bursts(const RowSource& keys, std::uint64_t chosen) {
  return row_bursts(chosen, keys.row_bytes) + (keys.is_delta4() ? bursts(keys.dim) : 0);
}

/// Asks for the rows that come next: they lie too far apart for the processor to foresee.
void fetch_rows(const RowSource& rows, std::uint64_t chosen) {
  for (std::uint64_t left = chosen; left != 0; left &= left - 1) {
    const std::uint8_t* const row = rows.row(static_cast<std::size_t>(std::countr_zero(left)));
    for (std::size_t offset = 0; offset < rows.row_bytes; offset += NKV_BURST_BYTES) {
      __builtin_prefetch(row + offset, 0, 3);
    }
  }
}

}  // namespace

Outcome score_exactly(const PageList& list, std::span<const std::uint64_t> chosen,
                      const ExactScorer& scorer, std::size_t dim, Workers* workers,
                      ExactTokens* result, Traffic* traffic) {
  // Places come first, so that workers can fill the result in any order.
  std::vector<std::uint32_t> touched;
  std::vector<std::size_t> place;
  result->rows = scorer.rows();
  result->tokens.clear();
  for (std::size_t page = 0; page < chosen.size(); ++page) {
    if (chosen[page] == 0) continue;
    touched.push_back(static_cast<std::uint32_t>(page));
    place.push_back(result->tokens.size());
    for (std::uint64_t left = chosen[page]; left != 0; left &= left - 1) {
      result->tokens.push_back(static_cast<std::uint32_t>(
          page * NKV_PAGE_TOKENS + static_cast<std::size_t>(std::countr_zero(left))));
    }
  }
  result->scores.resize(result->tokens.size() * result->rows);
  std::vector<std::uint64_t> read(touched.size());
  FirstFault fault;
  workers->for_each(
      touched.size(), kRowPagesAtATime, [&](unsigned, std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end && !fault.precludes(touched[i]); ++i) {
          PageView view;
          Status status = list.open(touched[i], HeaderDepth::kRows, dim, 0, &view);
          if (status == Status::kOk) status = view.check(NKV_PAGE_ARRAY_K_EXPONENTS);
          if (status != Status::kOk) {
            fault.record(touched[i], status);
            continue;
          }
          const RowSource keys = view.keys();
          fetch_rows(keys, chosen[touched[i]]);
          const std::byte* const next = i + 1 < end ? list.peek(touched[i + 1]) : nullptr;
          if (next != nullptr) __builtin_prefetch(next, 0, 3);
          scorer.score(keys, chosen[touched[i]], result->scores.data() + place[i] * result->rows);
          read[i] = key_bursts(keys, chosen[touched[i]]);
        }
      });
  for (const std::uint64_t count : read) traffic->exact += count;
  return fault.outcome();
}

}  // namespace nearkv
