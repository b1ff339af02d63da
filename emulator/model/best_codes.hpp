// The tokens that score best by codes (section 14.1).
#ifndef NEARKV_MODEL_BEST_CODES_HPP_
#define NEARKV_MODEL_BEST_CODES_HPP_

#include <cstdint>

#include "code_scores.hpp"
#include "page_list.hpp"

namespace nearkv::model {

/// The union over rows of the best `count` tokens and those that share the last one's bin; all
/// visible tokens if they are at most `count`.
TokenSet best_by_codes(const CodeScores& scores, uint64_t count);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_BEST_CODES_HPP_
