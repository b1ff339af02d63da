// Blocks as TRANSCODE makes them on the device, beside the model's: the same bytes and statuses,
// for codecs with kernels and without.
#include "opencl/device_coder.hpp"

#include "kernels.hpp"
#include "lossy_blocks.hpp"

namespace nearkv::opencl_test {
namespace {

using Bytes = std::vector<std::byte>;

constexpr Codec kCodecs[] = {Codec::kPlanesLz4, Codec::kPlanesZstd, Codec::kInt8, Codec::kInt4,
                             Codec::kFp8};

constexpr std::uint16_t kDims[] = {16, 80, 576};

struct Made {
  std::uint8_t status;
  Bytes bytes;

  bool operator==(const Made&) const = default;
};

class DeviceCoderTest : public KernelsTest {
 protected:
  static Made encode(model::BlockCoder& coder, Codec codec, const BlockShape& shape,
                     const Bytes& rows) {
    Made made{};
    made.status = coder.encode(codec, shape, rows, &made.bytes);
    if (made.status != NKV_STATUS_OK) made.bytes.clear();
    return made;
  }

  static Made decode(model::BlockCoder& coder, Codec codec, const BlockShape& shape,
                     const Bytes& block) {
    Made made{};
    made.status = coder.decode(codec, shape, block, &made.bytes);
    if (made.status != NKV_STATUS_OK) made.bytes.clear();
    return made;
  }

  /// The block, if the codec takes the rows.
  Bytes expect_same(Codec codec, const BlockShape& shape, const Bytes& rows) {
    opencl::DeviceCoder device(*runtime_);
    model::BlockCoder model;
    const Made block = encode(device, codec, shape, rows);
    EXPECT_TRUE(block == encode(model, codec, shape, rows));
    if (block.status == NKV_STATUS_OK) expect_same_rows(codec, shape, block.bytes);
    return block.bytes;
  }

  void expect_same_rows(Codec codec, const BlockShape& shape, const Bytes& block) {
    opencl::DeviceCoder device(*runtime_);
    model::BlockCoder model;
    EXPECT_TRUE(decode(device, codec, shape, block) == decode(model, codec, shape, block));
  }
};

TEST_F(DeviceCoderTest, MakesTheModelsBlocksOfEveryCodecAndElement) {
  std::uint32_t seed = 0;
  for (const Codec codec : kCodecs) {
    for (const Tensor tensor : {Tensor::kKeys, Tensor::kValues}) {
      for (const RowDtype dtype : {RowDtype::kBf16, RowDtype::kFp16, RowDtype::kInt8}) {
        for (const std::uint16_t dim : kDims) {
          for (const auto distribution :
               {test::Distribution::kGaussian, test::Distribution::kNonFinite}) {
            const BlockShape shape{.tensor = tensor, .dtype = dtype, .dim = dim};
            SCOPED_TRACE(test::describe(codec, shape));
            expect_same(codec, shape,
                        test::to_rows(shape, test::make_block(distribution, dim, ++seed)));
            if (HasFailure()) return;
          }
        }
      }
    }
  }
}

TEST_F(DeviceCoderTest, RefusesDamageAsTheModelDoes) {
  test::Random random = test::case_random(1);
  for (const Codec codec : kCodecs) {
    const BlockShape shape{.tensor = Tensor::kKeys, .dtype = RowDtype::kBf16, .dim = 64};
    SCOPED_TRACE(test::describe(codec, shape));
    const auto words = test::make_block(test::Distribution::kGaussian, shape.dim, 1);
    const Bytes block = expect_same(codec, shape, test::to_rows(shape, words));
    for (const std::size_t size : {std::size_t{0}, block.size() - 1, block.size() + 1}) {
      Bytes other = block;
      other.resize(size);
      expect_same_rows(codec, shape, other);
    }
    for (unsigned round = 0; round < 8; ++round) {
      expect_same_rows(codec, shape, test::any_bytes(block.size(), round, random));
    }
    // A codec that takes no such elements.
    expect_same_rows(codec, {.tensor = Tensor::kKeys, .dtype = RowDtype::kFp16, .dim = 64}, {});
  }
}

TEST_F(DeviceCoderTest, TellsWhenTheDeviceFails) {
  opencl::DeviceCoder device(*runtime_);
  const BlockShape shape{.tensor = Tensor::kKeys, .dtype = RowDtype::kBf16, .dim = 16};
  const Bytes rows(block_bytes(shape));
  const Made block = encode(device, Codec::kInt8, shape, rows);
  EXPECT_EQ(block.status, NKV_STATUS_OK);
  runtime_->run("no_such_kernel", cl::NDRange(1), cl_int{0});
  EXPECT_EQ(encode(device, Codec::kInt8, shape, rows).status, NKV_STATUS_INTERNAL);
  runtime_->allocate(std::size_t{1} << 50);
  EXPECT_EQ(decode(device, Codec::kInt8, shape, block.bytes).status, NKV_STATUS_OUT_OF_MEMORY);
  EXPECT_EQ(decode(device, Codec::kInt8, shape, block.bytes).bytes, rows);
}

}  // namespace
}  // namespace nearkv::opencl_test
