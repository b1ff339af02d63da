// The best k of scored tokens: score descending, ties by index ascending.
#ifndef NEARKV_MODEL_RANKING_HPP_
#define NEARKV_MODEL_RANKING_HPP_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace nearkv::model {

template <typename Score>
struct ScoredToken {
  Score score;
  uint32_t token;  ///< Index in the list.
};

template <typename Score>
std::vector<ScoredToken<Score>> best_tokens(std::vector<ScoredToken<Score>> tokens, size_t k) {
  std::sort(tokens.begin(), tokens.end(), [](const auto& a, const auto& b) {
    return a.score > b.score || (a.score == b.score && a.token < b.token);
  });
  if (tokens.size() > k) tokens.resize(k);
  return tokens;
}

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_RANKING_HPP_
