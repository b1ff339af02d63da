// nkv_attend_logits and nkv_attend_values, driven page by page, and the model's sums of the same
// pages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "Vnkv_attend_entries_bench.h"
#include "logit.hpp"
#include "nkv_abi.h"
#include "sampled_sums.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {

inline constexpr unsigned kEntryRows = 8;

struct EntryToken {
  unsigned token;
  std::array<std::int64_t, kEntryRows> scores;
};

struct EntrySample {
  unsigned token;
  int halvings;
  unsigned group;
  std::array<std::int64_t, kEntryRows> approximate;  // L of its midpoint.
};

struct EntryRest {
  std::int64_t whole;
  std::int64_t weight;
};

struct EntryPage {
  std::uint64_t tokens = 0;     // Read; those that count with DENSE.
  std::uint64_t nonfinite = 0;  // Of those.
  std::uint64_t sampled = 0;    // Of the others.
  bool has_rest = false;
  int value_exponent = 0;
  std::uint8_t form = NKV_ROW_FORM_RAW;
  std::vector<std::byte> rows;
  std::vector<std::uint8_t> exponents;            // Of channels; DELTA4.
  std::vector<std::vector<std::int32_t>> values;  // Of all tokens, as integers.
  std::vector<std::int32_t> sums;                 // V_SUM
  std::vector<EntryToken> scores;                 // In order.
  std::vector<EntrySample> sample;
  std::array<std::optional<EntryRest>, kEntryRows> rests;

  [[nodiscard]] bool has_sums() const { return has_rest || sampled != 0; }
};

struct EntryCase {
  bool is_chosen = true;
  bool is_bounded = true;
  bool values_are_keys = false;
  unsigned stored_dim = 128;
  unsigned value_dim = 128;
  int value_exponent = 132;
  int key_exponent = 127;
  float scale = 0.1F;
  float soft_cap = 0.0F;
  std::array<int, kEntryRows> query_exponents{};
  std::vector<EntryPage> pages;

  /// u of a page: what its tokens that are not read have, or with BOUNDED all.
  [[nodiscard]] std::vector<std::int32_t> mean(const EntryPage& page) const;

  /// What the model makes of it, by row.
  [[nodiscard]] std::vector<model::SampledSums> sums() const;
};

/// How often each side is willing, of 8.
struct EntryPaces {
  unsigned pages;
  unsigned scores;
  unsigned sample;
  unsigned beats;
  unsigned words;

  static EntryPaces all(unsigned pace) { return {pace, pace, pace, pace, pace}; }
  static EntryPaces any(test::Random& random);
};

class AttendEntries : public Simulation<Vnkv_attend_entries_bench> {
 public:
  AttendEntries() { reset(); }

  /// Sends all pages. Returns the cycles that it took.
  std::uint64_t run(const EntryCase& with, test::Random& random, const EntryPaces& paces);

  /// Sends some of it and forgets that.
  void abandon(const EntryCase& with, test::Random& random, unsigned cycles);

  /// What the words have summed up to since the last run, by row.
  [[nodiscard]] const std::vector<std::array<model::SampledSum, 8>>& sums() const { return sums_; }
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
    EntryToken of;
    bool last;
  };
  using Rests = std::array<std::optional<EntryRest>, kEntryRows>;

  void begin(const EntryCase& with);
  void queue_page(const EntryCase& with, const EntryPage& page);
  void queue_array(std::uint8_t array, const std::byte* bytes, std::size_t size,
                   std::uint64_t tokens, std::size_t row_bytes);
  void cycle(const EntryCase& with, test::Random& random, const EntryPaces& paces);
  void show(const EntryCase& with);
  void take_word(unsigned value_dim);
  void take_raise();
  [[nodiscard]] bool is_done();

  std::size_t pages_sent_ = 0;
  std::deque<Score> scores_;
  std::deque<EntrySample> sample_;
  std::deque<Rests> rests_;
  std::deque<Beat> beats_;
  std::vector<std::array<model::SampledSum, 8>> sums_;
  unsigned busy_ = 0;  // Cycles that the sums take nothing for.
};

/// Random pages: values, scores and rests of usual sizes; with `wild` any that scales give.
EntryCase random_entries(test::Random& random, std::size_t pages, bool is_chosen, bool is_bounded,
                         bool wild);

}  // namespace nearkv::rtl_test
