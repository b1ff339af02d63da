#include "fault/cold_answers.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fault/sequence_world.hpp"
#include "support/reference.hpp"

namespace nearkv::test {
namespace {

constexpr double kOutputError = 1.0 / 128;  // Of the largest element.
constexpr double kLseError = 4e-3;

/// bf16; each element is 1 or -1.
std::vector<std::uint16_t> query() {
  std::vector<std::uint16_t> query(kPoolDim);
  for (std::size_t i = 0; i < query.size(); ++i) query[i] = i % 3 == 0 ? 0xBF80 : 0x3F80;
  return query;
}

ColdAnswer::Attended attend(Pool* pool, std::uint64_t sequence, std::uint16_t layer,
                            std::uint16_t kv_head, ColdPages cold) {
  const std::vector<std::uint16_t> row = query();
  ColdAnswer::Attended attended;
  attended.output.resize(kPoolDim);
  attended.lse.resize(1);
  AttendRequest request;
  request.sequence = sequence;
  request.layer = layer;
  request.kv_head = kv_head;
  request.query = std::as_bytes(std::span(row));
  request.output = attended.output;
  request.lse = attended.lse;
  AttendOptions options;
  options.cold = cold;
  attended.status = pool->attend(std::span(&request, 1), options);
  return attended;
}

bool is_right(const ColdAnswer::Attended& attended, const KvData& rows) {
  if (rows.tokens == 0) {
    return std::isinf(attended.lse[0]) && attended.lse[0] < 0 &&
           std::ranges::all_of(attended.output, [](float element) { return element == 0; });
  }
  AttentionOptions options;
  options.tokens = rows.tokens;
  const Attention exact = reference_attention(rows, query(), options);
  return max_norm_error(attended.output, exact.output) < kOutputError &&
         std::abs(attended.lse[0] - exact.lse) < kLseError;
}

}  // namespace

Status query_decoded(Pool* pool, std::uint64_t sequence, std::uint16_t layer,
                     std::uint16_t kv_head) {
  return attend(pool, sequence, layer, kv_head, ColdPages::kDecode).status;
}

std::optional<ColdAnswer> ask_cold(Pool* pool, std::uint64_t sequence, std::uint16_t layer,
                                   std::uint16_t kv_head) {
  ColdAnswer answer;
  answer.layer = layer;
  answer.kv_head = kv_head;
  if (pool->codecs(sequence, layer, kv_head, &answer.codecs) != Status::kOk) return std::nullopt;
  const auto is_warm = [](std::uint8_t codec) { return codec == NKV_CODEC_NONE; };
  if (std::ranges::all_of(answer.codecs, is_warm)) return std::nullopt;
  answer.decoded = attend(pool, sequence, layer, kv_head, ColdPages::kDecode);
  answer.skipped = attend(pool, sequence, layer, kv_head, ColdPages::kSkip);
  return answer;
}

std::optional<std::string> judge_answer(const ColdAnswer& answer,
                                        std::span<const std::uint32_t> seeds) {
  const std::string where = "layer " + std::to_string(answer.layer) + ", head " +
                            std::to_string(answer.kv_head) + ": a query that ";
  if (answer.codecs.size() != seeds.size()) return where + "saw another number of pages";
  for (const bool decodes : {true, false}) {
    const ColdAnswer::Attended& attended = decodes ? answer.decoded : answer.skipped;
    if (attended.status != Status::kOk) continue;
    KvData rows;
    rows.head_dim = rows.value_dim = kPoolDim;
    for (std::size_t page = 0; page < seeds.size(); ++page) {
      if (!decodes && answer.codecs[page] != NKV_CODEC_NONE) continue;
      for (const bool keys : {true, false}) {
        const PageRows part = page_rows(seeds[page], answer.layer, answer.kv_head, keys);
        std::vector<std::uint16_t>& all = keys ? rows.keys : rows.values;
        all.insert(all.end(), part.begin(), part.end());
      }
      rows.tokens += NKV_PAGE_TOKENS;
    }
    if (!is_right(attended, rows)) {
      return where + (decodes ? "decodes" : "skips") + " compressed pages got something else";
    }
  }
  return std::nullopt;
}

}  // namespace nearkv::test
