// Device URIs: "scheme:path?key=value&key=value".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "nearkv/status.hpp"

namespace nearkv {

struct DeviceUri {
  std::string scheme;
  std::string path;                            ///< Between the colon and the question mark.
  std::map<std::string, std::string> options;  ///< Each must be consumed by the backend.

  /// Removes and returns an option, or `fallback`.
  std::string take(const std::string& key, std::string fallback);
};

/// kBadUri, with `reason` naming the culprit, if the text is malformed.
Status parse_device_uri(std::string_view text, DeviceUri* uri, std::string* reason);

/// "64MiB", "4096", "1.5GiB" is refused: whole numbers with an optional binary suffix.
Status parse_size(std::string_view text, std::uint64_t* bytes);

/// A whole decimal number.
Status parse_number(std::string_view text, std::uint64_t* value);

}  // namespace nearkv
