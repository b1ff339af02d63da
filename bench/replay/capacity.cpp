#include "capacity.hpp"

#include <charconv>
#include <system_error>

#include "device/uri.hpp"

namespace nearkv::replay {
namespace {

/// More blocks than any trace has, times the largest block, still fit 64 bits.
constexpr std::uint64_t kMostBlocks = 1ULL << 36;

bool parse_percent(std::string_view text, double* percent) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *percent);
  return error == std::errc() && end == text.data() + text.size() && *percent >= 0 &&
         *percent <= 100;
}

}  // namespace

bool parse_capacity(std::string_view text, std::uint64_t unique_blocks, std::uint32_t block_bytes,
                    std::uint64_t* blocks, std::string* reason) {
  double percent = 0;
  std::uint64_t bytes = 0;
  if (text.ends_with('%') && parse_percent(text.substr(0, text.size() - 1), &percent)) {
    *blocks = static_cast<std::uint64_t>(static_cast<double>(unique_blocks) * percent / 100);
  } else if (parse_number(text, blocks) == Status::kOk) {
    // It is in blocks already.
  } else if (parse_size(text, &bytes) == Status::kOk) {
    *blocks = bytes / block_bytes;
  } else {
    *reason = "capacity '" + std::string(text) + "' is not like 500 (blocks), 2.5% or 64GiB";
    return false;
  }
  if (*blocks >= 1 && *blocks <= kMostBlocks) return true;
  *reason = "capacity '" + std::string(text) + "' is " + std::to_string(*blocks) +
            " blocks; it must be from 1 to " + std::to_string(kMostBlocks);
  return false;
}

}  // namespace nearkv::replay
