// What queries say of pages of which some are compressed, held to the rows that were appended.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nearkv/pool.hpp"

namespace nearkv::test {

/// Dense attention of one row over one (layer, KV head).
struct ColdAnswer {
  struct Attended {
    Status status = Status::kOk;
    std::vector<float> output;
    std::vector<float> lse;
  };
  std::uint16_t layer = 0;
  std::uint16_t kv_head = 0;
  std::vector<std::uint8_t> codecs;  ///< Of the pages.
  Attended decoded;                  ///< All of them.
  Attended skipped;                  ///< Those that are not compressed.
};

/// The same query each time, always with compressed pages decoded.
Status query_decoded(Pool* pool, std::uint64_t sequence, std::uint16_t layer,
                     std::uint16_t kv_head);

/// Nothing if no page there is compressed.
std::optional<ColdAnswer> ask_cold(Pool* pool, std::uint64_t sequence, std::uint16_t layer,
                                   std::uint16_t kv_head);

/// What is wrong with an answer over pages of these seeds, if anything is: it must be attention in
/// double precision over their rows as far as its statuses are kOk.
std::optional<std::string> judge_answer(const ColdAnswer& answer,
                                        std::span<const std::uint32_t> seeds);

}  // namespace nearkv::test
