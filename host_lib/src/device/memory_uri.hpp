// Memory as device URIs ask for it.
#pragma once

#include <string>
#include <string_view>

#include "device/memory.hpp"
#include "device/uri.hpp"

namespace nearkv {

/// Consumes `memory`, `node` and `huge` of a cpu: URI. kBadUri with a reason.
Status take_memory_options(DeviceUri* uri, Memory::Options* options, std::string* reason);

/// kBadUri with a reason that lists `known` if an option is left that nobody consumed.
Status refuse_unknown_options(const DeviceUri& uri, std::string_view known, std::string* reason);

/// kBadUri, with `why` as the reason.
Status refuse_uri(const std::string& why, std::string* reason);

}  // namespace nearkv
