#include "attend/exact_stage.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "number.hpp"
#include "query.hpp"

namespace nearkv::rtl_test {

namespace {

constexpr unsigned kScoreLatency = 10;
constexpr unsigned kReadLatency = 3;
constexpr unsigned kLongestRaise = 8 + 18 * kWords * kSums;

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

void Sums::add(const Weights& weights, const Integers& value, const Entry& entry) {
  One& one = sums_[entry.sum];
  for (unsigned row = 0; row < kRows; ++row) {
    const model::Weight& weight = weights[row];
    if (weight.is_zero()) continue;
    one.z[row] += entry.subtract ? -weight.units() : weight.units();
    for (size_t c = 0; c < value.size(); ++c) {
      const std::int64_t term =
          model::floor_shift(weight.mantissa * value[c], static_cast<int>(weight.shift));
      one.acc[row][c] += static_cast<std::uint64_t>(term);
    }
  }
}

void Sums::raise(const Distances& distances) {
  for (One& one : sums_) {
    for (unsigned row = 0; row < kRows; ++row) {
      const auto distance = static_cast<int>(distances[row]);
      one.z[row] = model::floor_shift(one.z[row], distance);
      for (std::uint64_t& sum : one.acc[row]) {
        sum = static_cast<std::uint64_t>(
            model::floor_shift(static_cast<std::int64_t>(sum), distance));
      }
    }
  }
}

void Sums::clear_groups() {
  for (size_t i = 1; i < sums_.size(); ++i) {
    sums_[i] = One(static_cast<unsigned>(sums_[i].acc[0].size()));
  }
}

ExactStage::ExactStage(unsigned value_words, unsigned sums)
    : value_words_(value_words),
      sums_(value_words * kLanes, sums),
      aside_(value_words * kLanes, sums) {
  (*this)->value_grouped_i = sums != 1;
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
  to_read_.clear();
  growing_.clear();
  (*this)->value_read_valid_i = 0;
  (*this)->value_growing_valid_i = 0;
  (*this)->value_clear_groups_i = 0;
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
                       const Weights& weights, const Entry& entry) {
  const size_t count = integers.size() / kLanes;
  for (size_t word = 0; word < count; ++word) {
    const auto first = integers.begin() + static_cast<std::ptrdiff_t>(word * kLanes);
    words->push_back({tag, static_cast<std::uint8_t>(word), word + 1 == count,
                      Integers(first, first + kLanes), weights, entry});
  }
}

void ExactStage::key(std::uint8_t tag, const Integers& key) {
  queue(&keys_, tag, key, {}, {});
  std::vector<std::int64_t> scores;
  for (const Integers& row : query_) {
    scores.push_back(model::exact_score(std::span(row).first(key.size()), key));
  }
  queued_scores_.push_back(scores);
}

void ExactStage::value(const Weights& weights, const Integers& value, const Entry& entry) {
  queue(&values_, 0, value, weights, entry);
  sums_.add(weights, value, entry);
}

void ExactStage::present(const Word& word) {
  (*this)->word_tag_i = word.tag;
  (*this)->word_index_i = word.index;
  (*this)->word_last_i = word.last;
  (*this)->value_word_sum_i = static_cast<std::uint8_t>(word.entry.sum);
  (*this)->value_word_subtract_i = word.entry.subtract;
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

std::deque<ExactStage::Place> ExactStage::places() const {
  std::deque<Place> places;
  const unsigned count = sums_.count();
  for (unsigned row = 0; row < kRows; ++row) {
    for (unsigned sum = 0; sum < count && count != 1; ++sum) places.push_back({true, row, 0, sum});
    for (unsigned channel = 0; channel < value_channels(); ++channel) {
      for (unsigned sum = 0; sum < count; ++sum) places.push_back({false, row, channel, sum});
    }
  }
  return places;
}

std::uint64_t ExactStage::sum_at(const Sums& sums, const Place& place) {
  return place.is_z ? static_cast<std::uint64_t>(sums.z(place.row, place.sum))
                    : sums.acc(place.row, place.channel, place.sum);
}

void ExactStage::ask() {
  (*this)->value_read_valid_i = !to_read_.empty();
  if (!to_read_.empty()) {
    (*this)->value_read_z_i = to_read_.front().is_z;
    (*this)->value_read_row_i = static_cast<std::uint8_t>(to_read_.front().row);
    (*this)->value_read_channel_i = static_cast<std::uint8_t>(to_read_.front().channel);
    (*this)->value_read_sum_i = static_cast<std::uint8_t>(to_read_.front().sum);
  }
  (*this)->value_growing_valid_i = !growing_.empty();
  if (!growing_.empty()) {
    (*this)->value_growing_z_i = growing_.front().is_z;
    (*this)->value_growing_row_i = static_cast<std::uint8_t>(growing_.front().row);
    (*this)->value_growing_channel_i = static_cast<std::uint8_t>(growing_.front().channel);
    (*this)->value_growing_sum_i = static_cast<std::uint8_t>(growing_.front().sum);
  }
  settle();
  const std::uint64_t due = cycles() + kReadLatency;
  if (!growing_.empty()) {
    reads_.push_back({due, sum_at(sums_, growing_.front()), true});
    growing_.pop_front();
    ASSERT_EQ((*this)->value_read_ready_o, 0);
  } else if (!to_read_.empty() && (*this)->value_read_ready_o) {
    reads_.push_back({due, sum_at(aside_, to_read_.front()), false});
    to_read_.pop_front();
  }
}

void ExactStage::cycle() {
  ask();
  tick();
  const bool is_read = !reads_.empty() && reads_.front().cycle == cycles();
  const bool is_growing = is_read && reads_.front().is_growing;
  ASSERT_EQ((*this)->value_acc_valid_o, is_read && !is_growing);
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
  sums_ = Sums(value_channels(), sums_.count());
  wait_until_ready();
  (*this)->value_clear_i = 1;
  cycle();
  (*this)->value_clear_i = 0;
}

void ExactStage::clear_groups() {
  sums_.clear_groups();
  wait_until_ready();
  (*this)->value_clear_groups_i = 1;
  cycle();
  (*this)->value_clear_groups_i = 0;
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
    ASSERT_EQ((*this)->value_z_o[row], static_cast<std::uint64_t>(aside_.z(row, 0)))
        << "row " << row;
  }
  to_read_ = places();
}

void ExactStage::check_sums() {
  wait_until_idle();
  swap();
  const Sums kept = aside_;
  aside_ = sums_;
  read_aside();
  const std::uint64_t began = cycles();
  while (!aside_is_read() && !testing::Test::HasFatalFailure()) cycle();
  ASSERT_EQ(cycles() - began, places().size() + kReadLatency - 1);
  swap();
  aside_ = kept;
}

void ExactStage::check_growing() {
  wait_until_idle();
  growing_ = places();
  while (!growing_.empty() && !testing::Test::HasFatalFailure()) cycle();
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
