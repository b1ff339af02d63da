#include "attend/exact_stage.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "number.hpp"
#include "query.hpp"

namespace nearkv::rtl_test {

namespace {

constexpr unsigned kScoreLatency = 10;
constexpr unsigned kReadLatency = 3;
constexpr unsigned kLongestRaise = 8 + 18 * kWords;

std::int32_t random_integer(test::Random& random, std::int32_t largest) {
  switch (random() % 16) {
    case 0:
      return 0;
    case 1:
      return largest;
    case 2:
      return -largest;
    default: {
      const auto magnitude = static_cast<std::int32_t>(random() % (static_cast<unsigned>(largest)));
      const std::int32_t scaled = magnitude >> random() % 24;
      return random() % 2 == 0 ? scaled : -scaled;
    }
  }
}

}  // namespace

void Sums::add(const Weights& weights, const Integers& value) {
  for (unsigned row = 0; row < kRows; ++row) {
    const model::Weight& weight = weights[row];
    if (weight.is_zero()) continue;
    z_[row] += weight.units();
    for (size_t c = 0; c < value.size(); ++c) {
      const std::int64_t term =
          model::floor_shift(weight.mantissa * value[c], static_cast<int>(weight.shift));
      acc_[row][c] += static_cast<std::uint64_t>(term);
    }
  }
}

void Sums::raise(const Distances& distances) {
  for (unsigned row = 0; row < kRows; ++row) {
    const auto distance = static_cast<int>(distances[row]);
    z_[row] = model::floor_shift(z_[row], distance);
    for (std::uint64_t& sum : acc_[row]) {
      sum =
          static_cast<std::uint64_t>(model::floor_shift(static_cast<std::int64_t>(sum), distance));
    }
  }
}

ExactStage::ExactStage(unsigned value_words)
    : value_words_(value_words), sums_(value_words * kLanes), aside_(value_words * kLanes) {
  (*this)->value_last_word_i = static_cast<std::uint8_t>(value_words - 1);
  restart();
}

void ExactStage::restart() {
  (*this)->word_valid_i = 0;
  keys_.clear();
  values_.clear();
  queued_scores_.clear();
  expected_.clear();
  reads_.clear();
  reads_left_ = 0;
  (*this)->value_read_valid_i = 0;
  reset();
  clear();
}

void ExactStage::load_query(const std::vector<Integers>& query) {
  query_ = query;
  (*this)->query_valid_i = 1;
  for (unsigned row = 0; row < kRows; ++row) {
    for (unsigned word = 0; word < kWords; ++word) {
      (*this)->query_row_i = static_cast<std::uint8_t>(row);
      (*this)->query_word_i = static_cast<std::uint8_t>(word);
      for (unsigned i = 0; i < kLanes; ++i) {
        (*this)->query_i[i] = static_cast<std::uint32_t>(query[row][word * kLanes + i]) & 0xffffff;
      }
      cycle();
    }
  }
  (*this)->query_valid_i = 0;
}

void ExactStage::queue(std::deque<Word>* words, std::uint8_t tag, const Integers& integers,
                       const Weights& weights) {
  const size_t count = integers.size() / kLanes;
  for (size_t word = 0; word < count; ++word) {
    const auto first = integers.begin() + static_cast<std::ptrdiff_t>(word * kLanes);
    words->push_back({tag, static_cast<std::uint8_t>(word), word + 1 == count,
                      Integers(first, first + kLanes), weights});
  }
}

void ExactStage::key(std::uint8_t tag, const Integers& key) {
  queue(&keys_, tag, key, {});
  std::vector<std::int64_t> scores;
  for (const Integers& row : query_) {
    scores.push_back(model::exact_score(std::span(row).first(key.size()), key));
  }
  queued_scores_.push_back(scores);
}

void ExactStage::value(const Weights& weights, const Integers& value) {
  queue(&values_, 0, value, weights);
  sums_.add(weights, value);
}

void ExactStage::present(const Word& word) {
  (*this)->word_tag_i = word.tag;
  (*this)->word_index_i = word.index;
  (*this)->word_last_i = word.last;
  for (unsigned i = 0; i < kLanes; ++i) {
    (*this)->word_i[i] = static_cast<std::uint32_t>(word.integers[i]) & 0x7ffffff;
  }
  for (unsigned row = 0; row < kRows; ++row) {
    const model::Weight& weight = word.weights[row];
    const bool is_zero = weight.is_zero();
    (*this)->value_weight_i[row] = is_zero ? 0 : static_cast<std::uint32_t>(weight.mantissa);
    (*this)->value_shift_i[row] = is_zero ? 0 : static_cast<std::uint8_t>(weight.shift);
    (*this)->value_units_i[row] = static_cast<std::uint64_t>(weight.units());
  }
}

void ExactStage::run(test::Random& random, unsigned pace) {
  while (!(keys_.empty() && values_.empty()) && !testing::Test::HasFatalFailure()) {
    const bool takes_value = keys_.empty() || (!values_.empty() && random() % 2 == 0);
    std::deque<Word>& words = takes_value ? values_ : keys_;
    // Noise stands at the inputs of cycles that carry nothing.
    present(words.front());
    (*this)->word_is_value_i = takes_value;
    (*this)->word_valid_i = is_willing(random, pace);
    settle();
    const bool is_taken = (*this)->word_valid_i && (!takes_value || (*this)->value_ready_o);
    (*this)->word_valid_i = is_taken;
    if (is_taken && !takes_value && words.front().last) {
      expected_.push_back({cycles() + kScoreLatency, words.front().tag, queued_scores_.front()});
      queued_scores_.pop_front();
    }
    cycle();
    if (is_taken) words.pop_front();
  }
  (*this)->word_valid_i = 0;
}

void ExactStage::cycle() {
  const unsigned place = reads_left_ == 0 ? 0 : kRows * value_channels() - reads_left_;
  (*this)->value_read_valid_i = reads_left_ != 0;
  (*this)->value_read_row_i = static_cast<std::uint8_t>(place / value_channels());
  (*this)->value_read_channel_i = static_cast<std::uint8_t>(place % value_channels());
  settle();
  if (reads_left_ != 0 && (*this)->value_read_ready_o) {
    const std::uint64_t sum = aside_.acc(place / value_channels(), place % value_channels());
    reads_.push_back({cycles() + kReadLatency, sum});
    --reads_left_;
  }
  tick();
  const bool is_read = !reads_.empty() && reads_.front().cycle == cycles();
  ASSERT_EQ((*this)->value_acc_valid_o, is_read);
  if (is_read) {
    ASSERT_EQ((*this)->value_acc_o, reads_.front().sum);
    reads_.pop_front();
  }
  const bool is_due = !expected_.empty() && expected_.front().cycle == cycles();
  ASSERT_EQ((*this)->score_valid_o, is_due);
  if (!is_due) return;
  ASSERT_EQ((*this)->score_tag_o, expected_.front().tag);
  for (unsigned row = 0; row < kRows; ++row) {
    const auto score = static_cast<std::int64_t>((*this)->score_o[row] << 4) >> 4;
    ASSERT_EQ(score, expected_.front().rows[row]) << "row " << row;
  }
  expected_.pop_front();
}

void ExactStage::wait_until_ready() {
  for (unsigned i = 0; i < kLongestRaise; ++i) {
    settle();
    if ((*this)->value_ready_o) return;
    cycle();
  }
  ADD_FAILURE() << "not ready in time";
}

void ExactStage::raise(const Distances& distances) {
  sums_.raise(distances);
  for (unsigned row = 0; row < kRows; ++row) {
    (*this)->value_raise_i[row] = static_cast<std::uint8_t>(distances[row]);
  }
  wait_until_ready();
  (*this)->value_raise_valid_i = 1;
  cycle();
  (*this)->value_raise_valid_i = 0;
}

void ExactStage::clear() {
  sums_ = Sums(value_channels());
  wait_until_ready();
  (*this)->value_clear_i = 1;
  cycle();
  (*this)->value_clear_i = 0;
}

unsigned ExactStage::cycles_until_ready() {
  const std::uint64_t began = cycles();
  wait_until_ready();
  return static_cast<unsigned>(cycles() - began);
}

void ExactStage::wait_until_idle() {
  for (unsigned i = 0; i < kLongestRaise + kScoreLatency && !(*this)->value_idle_o; ++i) cycle();
  ASSERT_TRUE((*this)->value_idle_o);
}

void ExactStage::swap() {
  (*this)->value_swap_i = 1;
  cycle();
  (*this)->value_swap_i = 0;
}

void ExactStage::set_aside() {
  wait_until_idle();
  ASSERT_TRUE(aside_is_read());
  swap();
  aside_ = sums_;
  clear();
}

void ExactStage::read_aside() {
  for (unsigned row = 0; row < kRows; ++row) {
    ASSERT_EQ((*this)->value_z_o[row], static_cast<std::uint64_t>(aside_.z(row))) << "row " << row;
  }
  reads_left_ = kRows * value_channels();
}

void ExactStage::check_sums() {
  wait_until_idle();
  swap();
  const Sums kept = aside_;
  aside_ = sums_;
  read_aside();
  const std::uint64_t began = cycles();
  while (!aside_is_read() && !testing::Test::HasFatalFailure()) cycle();
  ASSERT_EQ(cycles() - began, kRows * value_channels() + kReadLatency - 1);
  swap();
  aside_ = kept;
}

Integers random_integers(test::Random& random, unsigned count, std::int32_t largest) {
  Integers integers(count);
  for (std::int32_t& integer : integers) integer = random_integer(random, largest);
  return integers;
}

Weights random_weights(test::Random& random) {
  Weights weights;
  for (model::Weight& weight : weights) {
    weight = {.mantissa = static_cast<std::int64_t>((1 << 17) + random() % (1 << 17)),
              .shift = static_cast<std::int64_t>(random() % 45)};
  }
  return weights;
}

Distances random_distances(test::Random& random) {
  Distances distances{};
  for (unsigned& distance : distances) {
    distance = static_cast<unsigned>(random() % 2 == 0 ? 0 : random() % 64 >> random() % 6);
  }
  return distances;
}

}  // namespace nearkv::rtl_test
