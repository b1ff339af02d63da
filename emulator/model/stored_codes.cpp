#include "stored_codes.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "rounding.hpp"
#include "transform.hpp"

namespace nearkv::model {

namespace {

constexpr uint32_t kFactorBytes = NKV_PAGE_TOKENS / 2;
constexpr int kRatioBits = 8;
constexpr int kTransposeBits = 15;

// A number of READ in bf16: to binary32 first, to nearest both times.
uint16_t bf16_of(double value) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  constexpr double kLeast = std::numeric_limits<float>::min();
  if (std::abs(value) < kLeast) return 0;
  return round_to_bf16(nearest_binary32(std::clamp(value, -kLargest, kLargest)));
}

double as_double(const Octaves& octaves, double value) {
  return std::ldexp(value * static_cast<double>(octaves.mantissa), octaves.power);
}

}  // namespace

StoredCodes::StoredCodes(const Page& page, CodedTensor tensor) : page_(page), tensor_(tensor) {}

uint32_t StoredCodes::channels() const {
  return is_keys() ? page_.header().head_dim : page_.header().value_dim;
}

int StoredCodes::mean(uint32_t channel) const {
  const uint32_t start = 2 * kFactorBytes + (is_keys() ? 0 : page_.header().head_dim);
  return static_cast<int8_t>(page_.array(NKV_PAGE_ARRAY_CODE_SUMMARY)[start + channel]);
}

int StoredCodes::mean_power() const {
  return is_keys() ? page_.header().k_mean_power : page_.header().v_mean_power;
}

std::optional<int> StoredCodes::factor(uint32_t token) const {
  const uint32_t start = is_keys() ? 0 : kFactorBytes;
  const auto pair =
      static_cast<uint8_t>(page_.array(NKV_PAGE_ARRAY_CODE_SUMMARY)[start + token / 2]);
  const auto stored = static_cast<uint8_t>(pair >> token % 2 * 4 & 15);
  return factor_sixteenths(top(), stored, form());
}

bool StoredCodes::has_residuals() const {
  const auto factors =
      page_.array(NKV_PAGE_ARRAY_CODE_SUMMARY).subspan(is_keys() ? 0 : kFactorBytes, kFactorBytes);
  return std::ranges::any_of(factors, [](std::byte pair) { return pair != std::byte{0}; });
}

int StoredCodes::top() const { return is_keys() ? page_.header().k_top : page_.header().v_top; }

bool StoredCodes::bit(int plane, uint32_t token, uint32_t channel) const {
  nkv_page_array array = NKV_PAGE_ARRAY_V_CODES;
  if (is_keys()) array = plane == 0 ? NKV_PAGE_ARRAY_K_SIGNS : NKV_PAGE_ARRAY_K_CODES;
  const int place = is_keys() && plane > 0 ? plane - 1 : plane;
  const size_t element =
      (static_cast<size_t>(place) * NKV_PAGE_TOKENS + token) * channels() + channel;
  return (page_.array(array)[element / 8] >> element % 8 & std::byte{1}) != std::byte{0};
}

std::vector<int64_t> StoredCodes::values(uint32_t token, int planes) const {
  std::vector<int64_t> result(channels());
  for (uint32_t channel = 0; channel < channels(); ++channel) {
    for (int plane = 0; plane < planes; ++plane) {
      const int64_t weight = int64_t{1} << (form().planes - 1 - plane);
      result[channel] += bit(plane, token, channel) ? weight : -weight;
    }
  }
  return result;
}

int StoredCodes::gain(uint32_t channel) const {
  return is_keys() ? static_cast<int8_t>(page_.array(NKV_PAGE_ARRAY_K_GAINS)[channel]) : 0;
}

std::vector<uint16_t> StoredCodes::row(uint32_t token, int planes) const {
  const std::vector<int64_t> residual = transpose(values(token, planes), sign_set());
  const int64_t ratio = form().ratio[static_cast<size_t>(planes - 1)];
  const std::optional<int> sixteenths = factor(token);
  std::vector<uint16_t> row;
  for (uint32_t channel = 0; channel < channels(); ++channel) {
    double value = std::ldexp(mean(channel), mean_power());
    if (sixteenths) {
      const auto scaled = static_cast<double>(residual[channel] * ratio);
      value += std::ldexp(as_double(octaves(*sixteenths), scaled), -kRatioBits - kTransposeBits);
    }
    row.push_back(bf16_of(is_keys() ? as_double(octaves(-gain(channel)), value) : value));
  }
  return row;
}

std::vector<nkv_page_array> StoredCodes::arrays(CodedTensor tensor, int planes) {
  std::vector<nkv_page_array> arrays = {NKV_PAGE_ARRAY_CODE_SUMMARY};
  if (tensor == CodedTensor::kValues) {
    arrays.push_back(NKV_PAGE_ARRAY_V_CODES);
    return arrays;
  }
  arrays.push_back(NKV_PAGE_ARRAY_K_SIGNS);
  if (planes > 1) arrays.push_back(NKV_PAGE_ARRAY_K_CODES);
  arrays.push_back(NKV_PAGE_ARRAY_K_GAINS);
  return arrays;
}

}  // namespace nearkv::model
