// What a command reports in its completion.
#ifndef NEARKV_MODEL_OUTCOME_HPP_
#define NEARKV_MODEL_OUTCOME_HPP_

#include <cstdint>

#include "traffic.hpp"
#include "verdict.hpp"

namespace nearkv::model {

struct Outcome {
  Verdict verdict{};
  uint32_t count = 0;
  Traffic traffic{};
  uint8_t flags = 0;  ///< NKV_COMPLETION_FLAG_*
  uint8_t rounds = 0;
  float bound = 0.0f;
};

/// The outcome of a command that was refused or could not be finished.
inline Outcome failure(Verdict verdict) {
  Outcome outcome;
  outcome.verdict = verdict;
  return outcome;
}

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_OUTCOME_HPP_
