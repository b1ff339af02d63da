// The URI parser: any text is refused with a reason, or taken apart.
#include <cstdlib>
#include <string_view>

#include "device/uri.hpp"
#include "target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  nearkv::DeviceUri uri;
  std::string reason;
  const nearkv::Status status = nearkv::parse_device_uri(text, &uri, &reason);
  const bool refused = status == nearkv::Status::kBadUri && !reason.empty();
  if (status != nearkv::Status::kOk && !refused) std::abort();
  if (status == nearkv::Status::kOk && uri.scheme.empty()) std::abort();
  std::uint64_t number = 0;
  (void)nearkv::parse_size(text, &number);
  (void)nearkv::parse_number(text, &number);
  return 0;
}

namespace nearkv::test {

const char* const mutation_fault = "mutated device URI";
const int mutation_runs = 200000;

std::vector<std::vector<std::uint8_t>> corpus() {
  std::vector<std::vector<std::uint8_t>> inputs;
  for (const std::string_view text :
       {"cpu:", "cpu:/dev/dax0.0?threads=4&node=1&huge=off", "model:?memory=256MiB", "64TiB",
        "18446744073709551615", "x9:path/with:colons?a=b=c&d="}) {
    inputs.emplace_back(text.begin(), text.end());
  }
  return inputs;
}

}  // namespace nearkv::test
