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
inline constexpr unsigned kSums = 8;

inline constexpr std::int32_t kLargestQuery = (1 << 23) - 1;
inline constexpr std::int32_t kLargestKey = (1 << 26) - 1;
inline constexpr std::int32_t kLargestValue = (1 << 24) - 1;

using Integers = std::vector<std::int32_t>;
using Weights = std::array<model::Weight, kRows>;
using Distances = std::array<unsigned, kRows>;

/// Which of a row's sums a token is for, and whether it leaves that (its value is negated already).
struct Entry {
  unsigned sum = 0;
  bool subtract = false;
};

/// acc and z as ARITHMETIC.md sections 4 and 8 say, in 64 bits that wrap.
class Sums {
 public:
  Sums(unsigned channels, unsigned count) : sums_(count, One(channels)) {}

  void add(const Weights& weights, const Integers& value, const Entry& entry);
  void raise(const Distances& distances);
  void clear_groups();

  [[nodiscard]] unsigned count() const { return static_cast<unsigned>(sums_.size()); }
  [[nodiscard]] std::uint64_t acc(unsigned row, unsigned channel, unsigned sum) const {
    return sums_[sum].acc[row][channel];
  }
  [[nodiscard]] std::int64_t z(unsigned row, unsigned sum) const { return sums_[sum].z[row]; }

 private:
  struct One {
    explicit One(unsigned channels) : acc(kRows, std::vector<std::uint64_t>(channels)) {}
    std::vector<std::vector<std::uint64_t>> acc;
    std::array<std::int64_t, kRows> z{};
  };
  std::vector<One> sums_;
};

class ExactStage : public Simulation<Vnkv_exact_stage> {
 public:
  /// Values have `value_words` words, a row `sums` sums: 1, or kSums. The sums are cleared.
  explicit ExactStage(unsigned value_words = kWords, unsigned sums = 1);

  [[nodiscard]] unsigned value_channels() const { return value_words_ * kLanes; }

  void load_query(const std::vector<Integers>& query);

  /// Queue a token; `run` sends what is queued, keys and values mixed at random.
  void key(std::uint8_t tag, const Integers& key);
  void value(const Weights& weights, const Integers& value, const Entry& entry = {});

  /// `pace` of 8 cycles carry a word. Checks scores as they come.
  void run(test::Random& random, unsigned pace);

  /// These follow at once on what was sent before.
  void raise(const Distances& distances);
  void clear();
  void clear_groups();
  /// How long nothing is taken from now on.
  [[nodiscard]] unsigned cycles_until_ready();

  /// Sets the sums aside, once they are complete, and goes on with others, cleared.
  void set_aside();
  /// In the cycles of all that follows, until `aside_is_read`: what was set aside is read and
  /// checked.
  void read_aside();
  [[nodiscard]] bool aside_is_read() const { return to_read_.empty() && reads_.empty(); }

  /// Checks every sum, read one after the other without a gap.
  void check_sums();
  /// The same where they grow, while reads of those that were set aside wait.
  void check_growing();

  /// Resets; nothing is expected of what was in flight, and the sums are cleared.
  void restart();

 private:
  struct Word {
    std::uint8_t tag;
    std::uint8_t index;
    bool last;
    Integers integers;
    Weights weights;
    Entry entry;
  };

  struct Score {
    std::uint64_t cycle;
    std::uint8_t tag;
    std::vector<std::int64_t> rows;
  };

  void queue(std::deque<Word>* words, std::uint8_t tag, const Integers& integers,
             const Weights& weights, const Entry& entry);
  /// What is read: z, or acc of a channel.
  struct Place {
    bool is_z;
    unsigned row;
    unsigned channel;
    unsigned sum;
  };
  struct Read {
    std::uint64_t cycle;
    std::uint64_t sum;
    bool is_growing;
  };

  [[nodiscard]] std::deque<Place> places() const;
  [[nodiscard]] static std::uint64_t sum_at(const Sums& sums, const Place& place);
  void ask();
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
  std::deque<Place> to_read_;
  std::deque<Place> growing_;  // To be read where they grow.
  std::deque<Read> reads_;
};

Integers random_integers(test::Random& random, unsigned count, std::int32_t largest);
Weights random_weights(test::Random& random);
Distances random_distances(test::Random& random);

}  // namespace nearkv::rtl_test
