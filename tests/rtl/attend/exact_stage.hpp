// nkv_exact_stage beside what it should hold: keys and values go in word by word, and all that
// comes out is compared.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "Vnkv_exact_stage.h"
#include "logit.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {

inline constexpr unsigned kRows = 8;
inline constexpr unsigned kLanes = 32;
inline constexpr unsigned kWords = 4;
inline constexpr unsigned kChannels = kWords * kLanes;

inline constexpr std::int32_t kLargestQuery = (1 << 23) - 1;
inline constexpr std::int32_t kLargestKey = (1 << 26) - 1;
inline constexpr std::int32_t kLargestValue = (1 << 24) - 1;

using Integers = std::vector<std::int32_t>;
using Weights = std::array<model::Weight, kRows>;
using Distances = std::array<unsigned, kRows>;

/// acc and z as ARITHMETIC.md section 4 says, in 64 bits that wrap.
class Sums {
 public:
  explicit Sums(unsigned channels) : acc_(kRows, std::vector<std::uint64_t>(channels)) {}

  void add(const Weights& weights, const Integers& value);
  void raise(const Distances& distances);

  [[nodiscard]] std::uint64_t acc(unsigned row, unsigned channel) const {
    return acc_[row][channel];
  }
  [[nodiscard]] std::int64_t z(unsigned row) const { return z_[row]; }

 private:
  std::vector<std::vector<std::uint64_t>> acc_;
  std::array<std::int64_t, kRows> z_{};
};

class ExactStage : public Simulation<Vnkv_exact_stage> {
 public:
  /// Values have `value_words` words. The sums are cleared.
  explicit ExactStage(unsigned value_words = kWords);

  [[nodiscard]] unsigned value_channels() const { return value_words_ * kLanes; }

  void load_query(const std::vector<Integers>& query);

  /// Queue a token; `run` sends what is queued, keys and values mixed at random.
  void key(std::uint8_t tag, const Integers& key);
  void value(const Weights& weights, const Integers& value);

  /// `pace` of 8 cycles carry a word. Checks scores as they come.
  void run(test::Random& random, unsigned pace);

  /// These follow at once on what was sent before.
  void raise(const Distances& distances);
  void clear();
  /// How long nothing is taken from now on.
  [[nodiscard]] unsigned cycles_until_ready();

  /// Sets the sums aside, once they are complete, and goes on with others, cleared.
  void set_aside();
  /// In the cycles of all that follows, until `aside_is_read`: what was set aside is read and
  /// checked.
  void read_aside();
  [[nodiscard]] bool aside_is_read() const { return reads_left_ == 0 && reads_.empty(); }

  /// Checks every sum, read one after the other without a gap.
  void check_sums();

  /// Resets; nothing is expected of what was in flight, and the sums are cleared.
  void restart();

 private:
  struct Word {
    std::uint8_t tag;
    std::uint8_t index;
    bool last;
    Integers integers;
    Weights weights;
  };

  struct Score {
    std::uint64_t cycle;
    std::uint8_t tag;
    std::vector<std::int64_t> rows;
  };

  void queue(std::deque<Word>* words, std::uint8_t tag, const Integers& integers,
             const Weights& weights);
  struct Read {
    std::uint64_t cycle;
    std::uint64_t sum;
  };

  void present(const Word& word);
  void wait_until_idle();
  void swap();
  void cycle();
  void wait_until_ready();

  unsigned value_words_;
  std::vector<Integers> query_;
  std::deque<Word> keys_;
  std::deque<Word> values_;
  std::deque<std::vector<std::int64_t>> queued_scores_;
  std::deque<Score> expected_;
  Sums sums_;
  Sums aside_;
  unsigned reads_left_ = 0;
  std::deque<Read> reads_;
};

Integers random_integers(test::Random& random, unsigned count, std::int32_t largest);
Weights random_weights(test::Random& random);
Distances random_distances(test::Random& random);

}  // namespace nearkv::rtl_test
