// Where everything lies in a pool, at sizes that no machine of a test has.
#include "pool/pool_plan.hpp"

#include <gtest/gtest.h>

namespace nearkv::test {
namespace {

constexpr std::uint64_t kTebibyte = 1ULL << 40;

TEST(PoolPlanTest, EveryPageOfASequenceHasANumber) {
  const Pool::Options options;
  PoolPlan plan;
  std::string reason;
  ASSERT_EQ(PoolPlan::make(kTebibyte, options, &plan, &reason), Status::kOk) << reason;
  const std::uint64_t end =
      plan.header.data_at + std::uint64_t{plan.header.slabs} * plan.header.slab_bytes;
  EXPECT_LE((end - 1) / NKV_PAGE_GRAIN_BYTES, UINT32_MAX);
  for (const std::uint64_t bytes : {kTebibyte + (2 << 20), 2 * kTebibyte}) {
    EXPECT_EQ(PoolPlan::make(bytes, options, &plan, &reason), Status::kBadArgument);
    EXPECT_NE(reason.find("1024 GiB"), std::string::npos) << reason;
  }
}

TEST(PoolPlanTest, ObjectsAloneTakeAnySize) {
  Pool::Options options;
  options.shape.layers = 0;
  options.max_objects = 1 << 20;
  options.max_namespaces = 1;
  PoolPlan plan;
  std::string reason;
  EXPECT_EQ(PoolPlan::make(2 * kTebibyte, options, &plan, &reason), Status::kOk) << reason;
}

}  // namespace
}  // namespace nearkv::test
