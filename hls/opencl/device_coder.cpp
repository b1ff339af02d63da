#include "opencl/device_coder.hpp"

#include "opencl/device_verdict.hpp"

namespace nearkv::opencl {

namespace {

bool has_kernels(Codec codec, const BlockShape& shape) {
  const bool is_lossy = codec == Codec::kInt8 || codec == Codec::kInt4 || codec == Codec::kFp8;
  return is_lossy && codec_supports(codec, shape);
}

// Whether groups are channels.
cl_int per_channel(const BlockShape& shape) { return shape.tensor == Tensor::kKeys ? 1 : 0; }

}  // namespace

std::uint8_t DeviceCoder::encode(Codec codec, const BlockShape& shape,
                                 std::span<const std::byte> rows, std::vector<std::byte>* block) {
  if (!has_kernels(codec, shape)) {
    return BlockCoder::encode(codec, shape, rows, block);
  }
  const auto number = static_cast<cl_int>(codec);
  const cl_uint channels = shape.dim;
  const std::size_t groups = shape.tensor == Tensor::kKeys ? shape.dim : kBlockTokens;
  const std::size_t row_bytes = codec == Codec::kInt4 ? shape.dim / 2U : shape.dim;
  block->resize(encoded_bound(codec, shape));
  const cl::Buffer of_rows = runtime_.upload<std::byte>(rows);
  const cl::Buffer of_block = runtime_.allocate(block->size());
  std::vector<std::int32_t> is_good{1};
  const cl::Buffer of_good = runtime_.upload<std::int32_t>(is_good);
  runtime_.run("quantise_groups", cl::NDRange(groups, 1), of_rows, number, per_channel(shape),
               channels, of_block, of_good);
  runtime_.run("quantise_codes", cl::NDRange(row_bytes, kBlockTokens), of_rows, number,
               per_channel(shape), channels, of_block);
  runtime_.download<std::byte>(of_block, *block);
  runtime_.download<std::int32_t>(of_good, is_good);
  const model::Verdict verdict = device_verdict(runtime_);
  if (!verdict.ok()) return verdict.status;
  return is_good[0] != 0 ? NKV_STATUS_OK : NKV_STATUS_BAD_PAGE;
}

std::uint8_t DeviceCoder::decode(Codec codec, const BlockShape& shape,
                                 std::span<const std::byte> block, std::vector<std::byte>* rows) {
  if (!has_kernels(codec, shape) || block.size() != encoded_bound(codec, shape)) {
    return BlockCoder::decode(codec, shape, block, rows);
  }
  rows->resize(block_bytes(shape));
  const cl::Buffer of_rows = runtime_.allocate(rows->size());
  std::vector<std::int32_t> is_good{1};
  const cl::Buffer of_good = runtime_.upload<std::int32_t>(is_good);
  runtime_.run("dequantise", cl::NDRange(shape.dim, kBlockTokens),
               runtime_.upload<std::byte>(block), static_cast<cl_int>(codec), per_channel(shape),
               cl_uint{shape.dim}, of_rows, of_good);
  runtime_.download<std::byte>(of_rows, *rows);
  runtime_.download<std::int32_t>(of_good, is_good);
  const model::Verdict verdict = device_verdict(runtime_);
  if (!verdict.ok()) return verdict.status;
  return is_good[0] != 0 ? NKV_STATUS_OK : NKV_STATUS_CORRUPT;
}

}  // namespace nearkv::opencl
