#include "device/memory_uri.hpp"

namespace nearkv {
namespace {

constexpr std::uint64_t kDefaultBytes = 1ULL << 30;

}  // namespace

Status refuse_uri(const std::string& why, std::string* reason) {
  *reason = "cpu: device: " + why;
  return Status::kBadUri;
}

Status take_memory_options(DeviceUri* uri, Memory::Options* options, std::string* reason) {
  options->path = uri->path;
  const std::string size = uri->take("memory", "");
  if (!size.empty() && parse_size(size, &options->bytes) != Status::kOk) {
    return refuse_uri("memory=" + size + " is not a size like 512MiB", reason);
  }
  if (size.empty() && options->path.empty()) options->bytes = kDefaultBytes;
  if (const std::string node = uri->take("node", ""); !node.empty()) {
    std::uint64_t number = 0;
    if (parse_number(node, &number) != Status::kOk || number > 1023) {
      return refuse_uri("node=" + node + " is not a NUMA node", reason);
    }
    options->node = static_cast<int>(number);
  }
  const std::string huge = uri->take("huge", "on");
  if (huge != "on" && huge != "off") {
    return refuse_uri("huge=" + huge + " is neither on nor off", reason);
  }
  options->huge = huge == "on";
  return Status::kOk;
}

Status refuse_unknown_options(const DeviceUri& uri, std::string_view known, std::string* reason) {
  if (uri.options.empty()) return Status::kOk;
  return refuse_uri(
      "unknown option '" + uri.options.begin()->first + "'; known are " + std::string(known),
      reason);
}

}  // namespace nearkv
