// Scattered rows, packed by a kernel.
#include <functional>
#include <random>

#include "cuda/gpu.hpp"

namespace nearkv::test {
namespace {

class GatherTest : public Gpu {
 protected:
  static constexpr std::uint64_t kRows = 500;

  nearkv_cuda_gather_args arguments(std::uint32_t row_bytes, std::uint64_t stride,
                                    const std::vector<std::int64_t>& ids) {
    source_ = room<std::byte>(kRows * stride);
    std::mt19937 random(row_bytes);
    for (std::byte& byte : source_) byte = static_cast<std::byte>(random());
    out_ = room<std::byte>(ids.size() * (row_bytes + 32));
    nearkv_cuda_gather_args work{};
    work.source = source_.data();
    work.ids = stored(ids).data();
    work.out = out_.data();
    work.fault = fault_word();
    work.source_rows = kRows;
    work.source_stride_bytes = stride;
    work.out_stride_bytes = row_bytes + 32;
    work.rows = ids.size();
    work.row_bytes = row_bytes;
    return work;
  }

  std::span<std::byte> source_, out_;
};

TEST_F(GatherTest, RowsComeInTheOrderOfTheirIds) {
  std::mt19937 random(1);
  for (const std::uint32_t row_bytes : {16U, 192U, 1152U}) {
    for (const std::size_t count : {1U, 100U, 2048U}) {
      std::vector<std::int64_t> ids(count);
      for (std::int64_t& id : ids) id = static_cast<std::int64_t>(random() % kRows);
      const std::uint64_t stride = row_bytes + 48;
      const nearkv_cuda_gather_args work = arguments(row_bytes, stride, ids);
      ASSERT_EQ(nearkv_cuda_gather(gpu_, &work, nullptr), NKV_STATUS_OK) << error();
      synchronize();
      EXPECT_EQ(*work.fault, ~std::uint64_t{0});
      for (std::size_t i = 0; i < count; ++i) {
        const auto got = out_.subspan(i * work.out_stride_bytes, work.out_stride_bytes);
        const auto wanted = source_.subspan(static_cast<std::size_t>(ids[i]) * stride, row_bytes);
        ASSERT_TRUE(std::ranges::equal(got.first(row_bytes), wanted)) << i;
        ASSERT_TRUE(std::ranges::all_of(got.subspan(row_bytes),
                                        [](std::byte b) { return b == std::byte{0xA5}; }));
      }
    }
  }
}

TEST_F(GatherTest, AnIdBeyondTheSourceIsToldAndItsRowIsZero) {
  const nearkv_cuda_gather_args work = arguments(64, 64, {3, 499, 500, -1, 7});
  ASSERT_EQ(nearkv_cuda_gather(gpu_, &work, nullptr), NKV_STATUS_OK) << error();
  synchronize();
  EXPECT_EQ(*work.fault, std::uint64_t{2} << 8 | NKV_STATUS_BAD_FIELD);
  const auto row = [&](std::size_t i) { return out_.subspan(i * 96, 64); };
  for (const std::size_t i : {2U, 3U}) {
    EXPECT_TRUE(std::ranges::all_of(row(i), [](std::byte b) { return b == std::byte{0}; }));
  }
  EXPECT_TRUE(std::ranges::equal(row(4), source_.subspan(7 * 64, 64)));
}

TEST_F(GatherTest, RefusesRowsThatDoNotMoveIn16Bytes) {
  const nearkv_cuda_gather_args good = arguments(64, 64, {1});
  const auto refused = [&](const std::function<void(nearkv_cuda_gather_args*)>& spoil) {
    nearkv_cuda_gather_args work = good;
    spoil(&work);
    EXPECT_EQ(nearkv_cuda_gather(gpu_, &work, nullptr), NKV_STATUS_BAD_ARGUMENT);
    EXPECT_NE(error(), "");
  };
  using Work = nearkv_cuda_gather_args;
  refused([](Work* w) { w->row_bytes = 40; });
  refused([](Work* w) { w->row_bytes = 0; });
  refused([](Work* w) { w->source_stride_bytes = 72; });
  refused([](Work* w) { w->out_stride_bytes = 48; });
  refused([&](Work* w) { w->source = source_.data() + 4; });
  refused([&](Work* w) { w->out = out_.data() + 8; });
  refused([](Work* w) { w->ids = nullptr; });
  EXPECT_EQ(nearkv_cuda_gather(gpu_, &good, nullptr), NKV_STATUS_OK) << error();
}

}  // namespace
}  // namespace nearkv::test
