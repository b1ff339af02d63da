// nkv_attend_logits and nkv_attend_values, driven page by page, and the sums of the same pages by
// the model's logits and weights.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "Vnkv_attend_sums_bench.h"
#include "logit.hpp"
#include "nkv_abi.h"
#include "simulation.hpp"
#include "softmax.hpp"

namespace nearkv::rtl_test {

inline constexpr unsigned kSumRows = 8;

struct ScoredToken {
  unsigned token;
  std::array<std::int64_t, kSumRows> scores;
};

struct SummedPage {
  std::uint64_t tokens = 0;     // That are in sight,
  std::uint64_t nonfinite = 0;  // and those of them that do not count.
  std::uint8_t form = NKV_ROW_FORM_RAW;
  std::vector<std::byte> rows;
  std::vector<std::uint8_t> exponents;            // Of channels; DELTA4.
  std::vector<std::vector<std::int32_t>> values;  // Of all tokens, as integers.
  std::vector<ScoredToken> scores;                // Of all tokens, in order.

  [[nodiscard]] bool counts(unsigned token) const {
    return ((tokens & ~nonfinite) >> token & 1) != 0;
  }
};

/// M, z and acc of a row, to the bit.
struct RowSums {
  explicit RowSums(std::size_t value_dim) : acc(value_dim) {}

  void raise(int distance);
  void add(const model::Weight& weight, const std::vector<std::int32_t>& value);

  std::int64_t reference = model::kNoReference;
  std::int64_t z = 0;
  std::vector<std::int64_t> acc;
};

struct SumsCase {
  bool values_are_keys = false;
  unsigned stored_dim = 128;
  unsigned value_dim = 128;
  int value_exponent = 132;
  int key_exponent = 127;
  float scale = 0.1F;
  float soft_cap = 0.0F;
  std::array<int, kSumRows> query_exponents{};
  std::vector<SummedPage> pages;

  /// What the model's logits and weights make of it, by row.
  [[nodiscard]] std::vector<RowSums> sums() const;
};

/// How often each side is willing, of 8.
struct SumsPaces {
  unsigned pages;
  unsigned scores;
  unsigned beats;
  unsigned words;

  static SumsPaces all(unsigned pace) { return {pace, pace, pace, pace}; }
  static SumsPaces any(test::Random& random);
};

class AttendSums : public Simulation<Vnkv_attend_sums_bench> {
 public:
  AttendSums() { reset(); }

  /// Sends all pages. Returns the cycles that it took.
  std::uint64_t run(const SumsCase& with, test::Random& random, const SumsPaces& paces);

  /// Sends some of it and forgets that.
  void abandon(const SumsCase& with, test::Random& random, unsigned cycles);

  /// What the words have summed up to since the last run, by row.
  [[nodiscard]] const std::vector<RowSums>& sums() const { return sums_; }
  [[nodiscard]] std::int64_t reference(unsigned row) {
    return static_cast<std::int32_t>((*this)->reference_o[row]);
  }

 private:
  struct Beat {
    std::uint8_t array;
    bool first;
    bool last;
    std::array<std::byte, NKV_BURST_BYTES> data;
  };
  struct Score {
    ScoredToken of;
    bool last;
  };

  void begin(const SumsCase& with);
  void queue_page(const SumsCase& with, const SummedPage& page);
  void queue_array(std::uint8_t array, const std::byte* bytes, std::size_t size);
  void cycle(const SumsCase& with, test::Random& random, const SumsPaces& paces);
  void show(const SumsCase& with);
  void take_word(unsigned value_dim);
  [[nodiscard]] bool is_done();

  std::size_t pages_sent_ = 0;
  std::deque<Score> scores_;
  std::deque<Beat> beats_;
  std::vector<RowSums> sums_;
  unsigned busy_ = 0;  // Cycles that the sums take nothing for.
};

/// Random pages: values and scores of usual sizes; with `wild` any that scales give.
SumsCase random_sums(test::Random& random, std::size_t pages, bool wild);

}  // namespace nearkv::rtl_test
