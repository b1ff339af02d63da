#include "device/uri.hpp"

#include <array>
#include <charconv>
#include <limits>
#include <utility>

namespace nearkv {

std::string DeviceUri::take(const std::string& key, std::string fallback) {
  const auto node = options.extract(key);
  return node.empty() ? std::move(fallback) : node.mapped();
}

Status parse_device_uri(std::string_view text, DeviceUri* uri, std::string* reason) {
  const auto refuse = [&](std::string why) {
    *reason = "device URI '" + std::string(text) + "': " + std::move(why);
    return Status::kBadUri;
  };
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon == 0) {
    return refuse("expected SCHEME:..., for example cpu: or model:");
  }
  DeviceUri parsed;
  parsed.scheme = text.substr(0, colon);
  for (const char c : parsed.scheme) {
    if ((c < 'a' || c > 'z') && (c < '0' || c > '9')) {
      return refuse("a scheme is lower-case letters and digits");
    }
  }
  std::string_view rest = text.substr(colon + 1);
  const std::size_t question = rest.find('?');
  parsed.path = rest.substr(0, question);
  rest = question == std::string_view::npos ? std::string_view() : rest.substr(question + 1);
  while (!rest.empty()) {
    const std::size_t end = rest.find('&');
    const std::string_view option = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    const std::size_t equals = option.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return refuse("expected key=value, found '" + std::string(option) + "'");
    }
    std::string key(option.substr(0, equals));
    if (!parsed.options.emplace(key, option.substr(equals + 1)).second) {
      return refuse("option '" + key + "' is given twice");
    }
  }
  *uri = std::move(parsed);
  return Status::kOk;
}

Status parse_number(std::string_view text, std::uint64_t* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() ? Status::kOk : Status::kBadUri;
}

Status parse_size(std::string_view text, std::uint64_t* bytes) {
  constexpr std::array<std::pair<std::string_view, unsigned>, 4> kSuffixes = {
      {{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}}};
  unsigned shift = 0;
  for (const auto& [suffix, bits] : kSuffixes) {
    if (text.ends_with(suffix)) {
      text.remove_suffix(suffix.size());
      shift = bits;
      break;
    }
  }
  std::uint64_t number = 0;
  if (parse_number(text, &number) != Status::kOk ||
      number > (std::numeric_limits<std::uint64_t>::max() >> shift)) {
    return Status::kBadUri;
  }
  *bytes = number << shift;
  return Status::kOk;
}

}  // namespace nearkv
