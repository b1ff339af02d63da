#include "topics.hpp"

#include <cmath>

namespace nearkv::test {

namespace {

constexpr double kStay = 0.95;        // A topic lasts for 20 tokens.
constexpr uint32_t kOriginals = 512;  // Repeated tokens come from the first ones.
constexpr double kRepeatNoise = 0.05;
constexpr double kKeyResidual = 0.7;    // Deviation of a key around its topic's.
constexpr double kValueResidual = 0.7;  // The same of values.

std::vector<double> normals(size_t count, double deviation, Random& random) {
  std::vector<double> numbers;
  for (size_t i = 0; i < count; ++i) numbers.push_back(deviation * normal(random));
  return numbers;
}

}  // namespace

Topics::Topics(const TopicOptions& options, Random& random)
    : options_(options),
      topic_keys_(normals(size_t{options.topics} * options.head_dim, 1.0, random)),
      topic_values_(normals(size_t{options.topics} * options.value_dim, 1.0, random)),
      mixing_(normals(size_t{options.value_dim} * options.head_dim,
                      1.0 / std::sqrt(options.head_dim), random)) {
  for (uint32_t c = 0; c < options.head_dim; ++c) {
    const double outlier = c % 16 == 3 ? 4.0 : 1.0;
    channel_sizes_.push_back(outlier * std::exp(0.5 * normal(random)));
  }
}

double Topics::key_part(uint32_t topic, uint32_t channel) const {
  return topic_keys_[size_t{topic} * options_.head_dim + channel];
}

TopicData Topics::context(Random& random) const {
  const uint32_t head_dim = options_.head_dim;
  const double own = std::sqrt(1.0 - options_.correlation * options_.correlation);
  uint32_t topic = 0;
  std::vector<double> keys;
  std::vector<double> values;
  for (uint32_t t = 0; t < options_.tokens; ++t) {
    if (t >= kOriginals && uniform(random, 0, 1) < options_.repetition) {
      const uint32_t source = pick(random, 0, kOriginals - 1);
      for (uint32_t c = 0; c < head_dim; ++c) {
        keys.push_back(keys[source * head_dim + c] + kRepeatNoise * normal(random));
      }
      for (uint32_t c = 0; c < options_.value_dim; ++c) {
        values.push_back(values[source * options_.value_dim + c] + kRepeatNoise * normal(random));
      }
      continue;
    }
    if (t == 0 || uniform(random, 0, 1) > kStay) topic = pick(random, 0, options_.topics - 1);
    const auto residual = normals(head_dim, 1.0, random);
    for (uint32_t c = 0; c < head_dim; ++c) {
      keys.push_back(key_part(topic, c) + kKeyResidual * residual[c]);
    }
    for (uint32_t c = 0; c < options_.value_dim; ++c) {
      double mixed = 0;
      for (uint32_t i = 0; i < head_dim; ++i) mixed += mixing_[c * head_dim + i] * residual[i];
      values.push_back(topic_values_[size_t{topic} * options_.value_dim + c] +
                       kValueResidual * (options_.correlation * mixed + own * normal(random)));
    }
  }
  const auto key = [&](uint32_t t, uint32_t c) {
    return channel_sizes_[c] * keys[size_t{t} * head_dim + c];
  };
  const auto value = [&](uint32_t t, uint32_t c) {
    return values[size_t{t} * options_.value_dim + c];
  };
  return {.keys = make_rows(NKV_DTYPE_BF16, options_.tokens, head_dim, key),
          .values = make_rows(NKV_DTYPE_BF16, options_.tokens, options_.value_dim, value)};
}

Rows Topics::query(uint32_t rows, Random& random) const {
  const uint32_t topic = pick(random, 0, options_.topics - 1);
  // Against unit keys a query of this size has logits of deviation `sharpness`, after the scale
  // 1 / sqrt(head_dim).
  const double size = options_.sharpness;
  return make_rows(NKV_DTYPE_BF16, rows, options_.head_dim, [&](uint32_t, uint32_t c) {
    return size * (0.5 * key_part(topic, c) + 0.9 * normal(random)) / channel_sizes_[c];
  });
}

}  // namespace nearkv::test
