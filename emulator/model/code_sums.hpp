// A row's sums over a coded list (section 13.2).
#ifndef NEARKV_MODEL_CODE_SUMS_HPP_
#define NEARKV_MODEL_CODE_SUMS_HPP_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "attend.hpp"
#include "code_reads.hpp"
#include "code_weights.hpp"
#include "softmax.hpp"

namespace nearkv::model {

/// M, z and acc of a row, from what `scores` and `reads` know.
RowSoftmax code_sums(const AttendTask& task, const CodeScores& scores, const CodeWeights& weights,
                     const CodeReads& reads, size_t row);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_CODE_SUMS_HPP_
