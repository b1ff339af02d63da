// The steps of a search by midpoints as kernels (ARITHMETIC.md sections 5 and 6).
#ifndef NEARKV_OPENCL_DEVICE_STEPS_HPP_
#define NEARKV_OPENCL_DEVICE_STEPS_HPP_

#include <cstdint>
#include <span>
#include <vector>

#include "opencl/packed_rows.hpp"
#include "opencl/runtime.hpp"
#include "plane_steps.hpp"

namespace nearkv::opencl {

/// Midpoints, sums and masks stay on the device for a search; weights are folded anew for each pass
/// over pages. After a failure of the device, which its runtime tells, results are anything.
class DevicePlaneSteps final : public model::PlaneSteps {
 public:
  /// Both outlive the steps.
  DevicePlaneSteps(Runtime& runtime, const model::Query& query, int key_exponent);

  void scan(const model::ListedPages& pages, int planes) override;
  model::TokenSet best(std::uint64_t count) override;
  std::vector<std::int64_t> scores(const model::TokenSet& tokens) override;
  model::TokenSet alive(const model::TokenSet& tokens, int planes, std::uint32_t sixteenths,
                        std::span<const std::int64_t> taus) override;
  void sharpen(const model::TokenSet& tokens, int plane) override;

  /// T(count) of every row (5.3), on the device.
  cl::Buffer thresholds(std::uint64_t count);

  /// 16 bits each, [page][token][row].
  [[nodiscard]] const cl::Buffer& midpoints() const { return midpoints_; }

 private:
  /// Pages of the list that are worked on at once, with their weights.
  struct FoldedPages {
    std::vector<std::uint32_t> places;
    cl::Buffer places_on_device;
    cl::Buffer weights;

    [[nodiscard]] std::size_t tokens() const { return places.size() * NKV_PAGE_TOKENS; }
  };

  [[nodiscard]] FoldedPages fold(std::span<const std::uint32_t> places);
  [[nodiscard]] cl::Buffer planes_of(const FoldedPages& pages, int first, int end);
  [[nodiscard]] cl::NDRange all_tokens() const;
  [[nodiscard]] model::TokenSet download_set(const cl::Buffer& set);

  Runtime& runtime_;
  const model::Query& query_;
  int key_exponent_;
  cl::Buffer query_on_device_;
  const model::ListedPages* pages_ = nullptr;
  int scanned_planes_ = 0;
  cl_uint channels_ = 0;
  cl::Buffer visible_;
  cl::Buffer sums_;
  cl::Buffer midpoints_;
};

}  // namespace nearkv::opencl

#endif  // NEARKV_OPENCL_DEVICE_STEPS_HPP_
