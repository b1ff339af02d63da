// NaN and infinities in an engine's blocks that have codes: what exact attention makes of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "coded_engine.hpp"

namespace nearkv::test {
namespace {

using Tensor = BlockEngine::Tensor;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::array kNotFinite = {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity};

/// Two requests, and a step with one query of each.
struct TwoRequests {
  explicit TwoRequests(std::uint64_t number) : random(case_random(number)) {}

  Random random;
  CodedEngine coded{{.kv_heads = 2, .group = 3, .dim = 64, .block_tokens = 64}, 100, &random};
  std::size_t sound = coded.admit(kLong);
  std::size_t damaged = coded.admit(kLong);
  EngineStep step{coded.engine, {{sound, 1}, {damaged, 1}}, &random};
  BlockBatch batch;

  void attend(const BlockAttention& attention) {
    ASSERT_EQ(step.begin(&batch), Status::kOk);
    ASSERT_EQ(step.attend(&batch, attention, four_threads()), Status::kOk);
  }

  [[nodiscard]] std::vector<float> outputs_of_damaged() const {
    std::vector<float> outputs;
    for (std::size_t head = 0; head < coded.engine.shape().heads(); ++head) {
      std::ranges::copy(step.output_of(1, head), std::back_inserter(outputs));
    }
    return outputs;
  }
};

bool are_alike(float a, float b) {
  return std::isfinite(a) ? std::abs(a - b) < 0x1p-7F * std::max(1.0F, std::abs(a))
         : std::isnan(a)  ? std::isnan(b)
                          : a == b;
}

TEST(BlockCodesNonfinite, IsAttendedToExactlyUntilItIsWrittenOver) {
  for (const Tensor tensor : {Tensor::kKeys, Tensor::kValues}) {
    for (const double value : kNotFinite) {
      for (const std::size_t token : {std::size_t{100}, kLong - 1}) {
        SCOPED_TRACE((tensor == Tensor::kKeys ? "key " : "value ") + std::to_string(value) +
                     " of token " + std::to_string(token));
        TwoRequests requests(1);
        CodedEngine& coded = requests.coded;
        coded.engine.set(requests.damaged, token, tensor, value);
        requests.attend(usual_attention(coded.engine.shape()));
        const std::vector<float> exact = requests.outputs_of_damaged();
        const auto is_finite = [](float x) { return std::isfinite(x); };
        // A key of infinity may only make its token's weight zero.
        EXPECT_TRUE(!std::ranges::all_of(exact, is_finite) || std::isinf(value));
        requests.attend(coded.tail(kLong));  // All tokens: what is approximate is exact, too.
        EXPECT_TRUE(std::ranges::equal(requests.outputs_of_damaged(), exact, are_alike));
        expect_as_pages(coded, requests.step, requests.sound, 0, 1, coded.tail(kLong));
        EXPECT_EQ(coded.codes->counts().exact, 1U);
        EXPECT_EQ(coded.codes->counts().approximate, 3U);

        coded.engine.set(requests.damaged, token, tensor, 1);
        const std::array written = {coded.engine.slots(requests.damaged)[token]};
        coded.codes->forget(written);
        requests.attend(coded.tail());
        EXPECT_EQ(coded.codes->counts().exact, 1U);
        EXPECT_EQ(coded.codes->counts().approximate, 7U);
      }
    }
  }
}

TEST(BlockCodesNonfinite, QueriesAreAnsweredAsExactAttentionAnswersThem) {
  for (const double value : kNotFinite) {
    TwoRequests requests(2);
    requests.step.set_query(1, 0, value);
    requests.attend(usual_attention(requests.coded.engine.shape()));
    const std::vector<float> exact = requests.outputs_of_damaged();
    EXPECT_TRUE(std::isnan(exact.front()));
    requests.attend(requests.coded.tail(kLong));
    EXPECT_TRUE(std::ranges::equal(requests.outputs_of_damaged(), exact, are_alike));
    expect_as_pages(requests.coded, requests.step, requests.sound, 0, 1,
                    requests.coded.tail(kLong));
  }
}

}  // namespace
}  // namespace nearkv::test
