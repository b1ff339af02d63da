// Which codes and rows BOUNDED reads next (sections 13.5, 13.6).
#ifndef NEARKV_MODEL_CODE_CHOICE_HPP_
#define NEARKV_MODEL_CODE_CHOICE_HPP_

#include <cstdint>
#include <optional>
#include <span>

#include "code_errors.hpp"
#include "code_reads.hpp"
#include "code_scores.hpp"

namespace nearkv::model {

inline constexpr int kLeastThreshold = -102;
inline constexpr int kThresholdStep = 4;  ///< An octave.

/// t: the worth of a burst, in quarters of octaves of the goal. `errors` are those of the rows that
/// have not reached theirs. `last` is that of the round before, if it bounds this one.
int code_threshold(const CodedList& list, const CodeReads& reads,
                   std::span<const CodeErrors> errors, std::optional<int> last);

/// What to have read after a round with that threshold. With `shares_rows` (v_form NONE) a key row
/// is a value row, too.
CodeReads choose_reads(const CodedList& list, const CodeReads& reads,
                       std::span<const CodeErrors> errors, int threshold, bool shares_rows);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_CODE_CHOICE_HPP_
