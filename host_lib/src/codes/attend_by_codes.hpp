// ATTEND in modes TAIL and BOUNDED by codes (section 13 of ARITHMETIC.md).
#pragma once

#include <cstdint>
#include <vector>

#include "attend/attend.hpp"
#include "codes/code_choice.hpp"
#include "codes/coded_list.hpp"
#include "codes/row_errors.hpp"

namespace nearkv {

/// Buffers kept between commands by codes.
struct CodeScratch {
  CodedList list;
  RowErrors errors;
  CodeSums sums;
  GranuleChooser chooser;
  CodeChoice choice;
  std::vector<PageDemand> demands;
  std::vector<std::uint64_t> tokens;
  std::vector<std::uint32_t> pages;
  std::vector<std::int64_t> scores;
};

/// 13.7. *is_served is false, and nothing was done, if codes do not serve the list.
Outcome bounded_by_codes(const AttendContext& context, const AttendSpec& request,
                         CodeScratch* scratch, AttendResult* result, bool* is_served);

/// 13.8, alike.
Outcome tail_by_codes(const AttendContext& context, const AttendSpec& request, CodeScratch* scratch,
                      AttendResult* result, bool* is_served);

/// What a mode of ATTEND asks for: TAIL and BOUNDED of a list that codes do not serve are answered
/// exactly.
Outcome attend_by_mode(const AttendContext& context, const AttendSpec& request, std::uint8_t mode,
                       CodeScratch* scratch, AttendResult* result);

}  // namespace nearkv
