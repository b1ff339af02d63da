// Synthetic contexts with the structure of real ones: topics that last for a while, outlier
// channels, queries that look for a topic.
#ifndef NEARKV_TESTS_MODEL_TOPICS_HPP_
#define NEARKV_TESTS_MODEL_TOPICS_HPP_

#include <cstdint>

#include "sequence.hpp"

namespace nearkv::test {

struct TopicOptions {
  uint32_t tokens = 4096;
  uint32_t head_dim = 64;
  uint32_t value_dim = 64;
  uint32_t topics = 24;
  double sharpness = 3.0;  ///< Deviation of the logits that topics cause.

  /// How much of a value's residual follows from its key. At 1, tokens of high weight share
  /// content: their residuals point the same way, as in repetitive text.
  double correlation = 0.0;

  /// The part of the tokens that repeat an earlier one, key and value, but for a little noise.
  double repetition = 0.0;
};

struct TopicData {
  Rows keys;
  Rows values;
};

/// A world of topics: contexts drawn from it share their topics' keys and values.
class Topics {
 public:
  Topics(const TopicOptions& options, Random& random);

  [[nodiscard]] TopicData context(Random& random) const;

  /// Query rows that look for a common topic, each a little differently.
  [[nodiscard]] Rows query(uint32_t rows, Random& random) const;

 private:
  [[nodiscard]] double key_part(uint32_t topic, uint32_t channel) const;

  TopicOptions options_;
  std::vector<double> channel_sizes_;
  std::vector<double> topic_keys_;    // [topic][head_dim]
  std::vector<double> topic_values_;  // [topic][value_dim]
  std::vector<double> mixing_;        // [value_dim][head_dim]: value residuals out of key residuals
};

}  // namespace nearkv::test

#endif  // NEARKV_TESTS_MODEL_TOPICS_HPP_
