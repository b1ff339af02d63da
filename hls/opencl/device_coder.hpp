// Blocks of compressed pages in the lossy codecs, by kernels.
#ifndef NEARKV_OPENCL_DEVICE_CODER_HPP_
#define NEARKV_OPENCL_DEVICE_CODER_HPP_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "block_coder.hpp"
#include "opencl/runtime.hpp"

namespace nearkv::opencl {

/// INT8, INT4 and FP8 on the device, all other codecs as the model has them. OUT_OF_MEMORY or
/// INTERNAL when the device fails.
class DeviceCoder final : public model::BlockCoder {
 public:
  /// The runtime outlives it.
  explicit DeviceCoder(Runtime& runtime) : runtime_(runtime) {}

  std::uint8_t encode(Codec codec, const BlockShape& shape, std::span<const std::byte> rows,
                      std::vector<std::byte>* block) override;
  std::uint8_t decode(Codec codec, const BlockShape& shape, std::span<const std::byte> block,
                      std::vector<std::byte>* rows) override;

 private:
  Runtime& runtime_;
};

}  // namespace nearkv::opencl

#endif  // NEARKV_OPENCL_DEVICE_CODER_HPP_
