// An engine whose blocks have codes beside them, and pages with the same rows.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "block_engine.hpp"
#include "nearkv/block_codes.hpp"
#include "nearkv/pool.hpp"
#include "support/seed.hpp"

namespace nearkv::test {

constexpr std::size_t kLong = 2500;  ///< Tokens; the newest ones fill no page.
static_assert(kLong > kLeastApproximateTokens);

[[nodiscard]] std::vector<std::uint16_t> bf16(std::span<const double> numbers);

/// An engine whose layer has codes.
struct CodedEngine {
  CodedEngine(const BlockShape& wanted, std::size_t blocks, Random* random,
              std::span<const std::int8_t> gains = {})
      : engine(wanted, blocks, random) {
    std::string reason;
    EXPECT_EQ(BlockCodes::create(engine.cache(), gains, &codes, &reason), Status::kOk) << reason;
  }

  std::size_t admit(std::size_t tokens) {
    const std::size_t request = engine.admit(tokens);
    codes->forget(engine.slots(request));
    return request;
  }
  void grow(std::size_t request, std::size_t tokens) {
    const std::size_t first = engine.requests().at(request).tokens;
    engine.grow(request, tokens);
    codes->forget(engine.slots(request, first));
  }

  [[nodiscard]] BlockAttention bounded(float error = 0.3F) const {
    BlockAttention attention = usual_attention(engine.shape());
    attention.approximation = {codes.get(), NKV_ATTEND_MODE_BOUNDED, error, 0};
    return attention;
  }
  [[nodiscard]] BlockAttention tail(std::uint32_t top_k = 64) const {
    BlockAttention attention = usual_attention(engine.shape());
    attention.approximation = {codes.get(), NKV_ATTEND_MODE_TAIL, 0, top_k};
    return attention;
  }

  BlockEngine engine;
  std::unique_ptr<BlockCodes> codes;
};

/// A step's answers to one request are those of pages with the same rows, to the last bit.
void expect_as_pages(const CodedEngine& coded, const EngineStep& step, std::size_t request,
                     std::size_t first_token, std::size_t queries, const BlockAttention& attention,
                     std::span<const std::int8_t> gains = {});

}  // namespace nearkv::test
