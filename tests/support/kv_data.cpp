#include "support/kv_data.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "nkv_abi.h"

namespace nearkv::test {
namespace {

using Normal = std::normal_distribution<float>;

std::vector<float> channel_scales(std::size_t dim, std::mt19937* random) {
  Normal normal;
  std::vector<float> scales(dim);
  for (float& scale : scales) scale = std::exp(0.7F * normal(*random));
  return scales;
}

void fill_rows(Shape shape, std::size_t tokens, std::size_t dim, std::mt19937* random,
               const std::vector<std::size_t>& topics, std::vector<std::uint16_t>* rows) {
  constexpr std::size_t kTopics = 64;
  Normal normal;
  std::uniform_real_distribution<float> uniform;
  const std::vector<float> scales = channel_scales(dim, random);
  std::vector<float> means(dim);
  for (std::size_t c = 0; c < dim; ++c) {
    if (shape == Shape::kBiased)
      means[c] = (c % 17 == 3 ? 10.0F : 2.0F) * scales[c] * normal(*random);
  }
  std::vector<float> centres(kTopics * dim);
  for (float& centre : centres) centre = normal(*random);
  rows->resize(tokens * dim);
  for (std::size_t t = 0; t < tokens; ++t) {
    const float size = shape == Shape::kOutliers && t % 97 == 5 ? 100.0F : 1.0F;
    for (std::size_t c = 0; c < dim; ++c) {
      const float centre = centres[(topics[t] % kTopics) * dim + c];
      float value = normal(*random);
      if (shape == Shape::kTopics) value = 0.7F * centre + 0.7F * value;
      if (shape == Shape::kDuplicates) value = centre;
      if (shape == Shape::kSparse && uniform(*random) < 0.5F) value = 0.0F;
      (*rows)[t * dim + c] = to_bf16(means[c] + size * scales[c] * value);
    }
  }
}

}  // namespace

float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

float KvData::key(std::size_t token, std::size_t channel) const {
  return from_bf16(keys[token * head_dim + channel]);
}

float KvData::value(std::size_t token, std::size_t channel) const {
  return from_bf16(values[token * value_dim + channel]);
}

KvData make_kv(Shape shape, std::size_t tokens, std::size_t head_dim, std::size_t value_dim,
               std::uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform;
  std::vector<std::size_t> topics(tokens);
  std::size_t topic = 0;
  for (std::size_t& own : topics) {
    if (uniform(random) > 0.75F) topic = random() % 64;
    own = topic;
  }
  KvData data;
  data.tokens = tokens;
  data.head_dim = head_dim;
  data.value_dim = value_dim;
  fill_rows(shape, tokens, head_dim, &random, topics, &data.keys);
  fill_rows(shape == Shape::kTopics ? Shape::kTopics : Shape::kGaussian, tokens, value_dim, &random,
            topics, &data.values);
  return data;
}

std::vector<std::uint16_t> make_queries(const KvData& data, std::size_t rows, double spread,
                                        std::uint32_t seed) {
  std::mt19937 random(seed);
  Normal normal;
  std::vector<std::uint16_t> queries(rows * data.head_dim);
  for (std::size_t row = 0; row < rows; ++row) {
    std::vector<double> query(data.head_dim);
    for (double& element : query) element = static_cast<double>(normal(random));
    if (row % 2 == 1 && data.tokens != 0) {
      const std::size_t token = random() % data.tokens;
      for (std::size_t c = 0; c < data.head_dim; ++c) {
        query[c] += 0.5 * static_cast<double>(data.key(token, c));
      }
    }
    double sum = 0;
    double squares = 0;
    const std::size_t samples = std::min<std::size_t>(data.tokens, 256);
    for (std::size_t i = 0; i < samples; ++i) {
      double dot = 0;
      const std::size_t token = i * data.tokens / samples;
      for (std::size_t c = 0; c < data.head_dim; ++c) {
        dot += query[c] * static_cast<double>(data.key(token, c));
      }
      sum += dot;
      squares += dot * dot;
    }
    const double count = static_cast<double>(std::max<std::size_t>(samples, 1));
    const double deviation =
        std::sqrt(std::max(squares / count - sum / count * sum / count, 1e-30));
    const double scale = spread * std::sqrt(static_cast<double>(data.head_dim)) / deviation;
    for (std::size_t c = 0; c < data.head_dim; ++c) {
      queries[row * data.head_dim + c] = to_bf16(static_cast<float>(query[c] * scale));
    }
  }
  return queries;
}

void round_for_int8(KvData* data) {
  constexpr float kSteps = 32;  // Of 1: a power of two, as then is INT8's scale.
  constexpr float kLeast = -128 / kSteps;
  constexpr float kMost = 127 / kSteps;
  const auto rounded = [=](std::uint16_t bits) {
    const float value = std::clamp(std::round(from_bf16(bits) * kSteps) / kSteps, kLeast, kMost);
    return to_bf16(value + 0.0F);  // Zeros without a sign.
  };
  std::ranges::transform(data->keys, data->keys.begin(), rounded);
  std::ranges::transform(data->values, data->values.begin(), rounded);
  for (std::size_t token = 0; token < data->tokens; ++token) {
    const std::size_t of_page = token % NKV_PAGE_TOKENS;
    if (of_page < 2) {
      std::fill_n(&data->keys[token * data->head_dim], data->head_dim,
                  to_bf16(of_page == 0 ? kLeast : kMost));
    }
    data->values[token * data->value_dim] = to_bf16(kLeast);
    data->values[token * data->value_dim + 1] = to_bf16(kMost);
  }
}

}  // namespace nearkv::test
