// A daemon's configuration: any text is refused with a reason, or understood.
#include <cstdlib>
#include <string>
#include <string_view>

#include "daemon/server/config.hpp"
#include "target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  nearkv::ServerConfig config;
  std::string reason;
  const nearkv::Status status = nearkv::parse_config(text, "file", &config, &reason);
  const bool refused = status == nearkv::Status::kBadArgument && reason.starts_with("file:");
  if (status != nearkv::Status::kOk && !refused) std::abort();
  return 0;
}

namespace nearkv::test {

const char* const mutation_fault = "mutated configuration of a daemon";
const int mutation_runs = 20000;

std::vector<std::vector<std::uint8_t>> corpus() {
  std::vector<std::vector<std::uint8_t>> inputs;
  for (const std::string_view text :
       {"workers = 3\neviction = \"lru\"\nscrub_rate = \"1MiB\"\n",
        "[pool]\npath = \"/p\"\nsize = \"64GiB\"\n[socket]\nmode = \"0600\"\n",
        "[[pool]]\nsize = \"8MiB\"\n[[pool]]\ndevice = \"file\"\npath = \"/p\"\n"
        "[stack]\nhigh_watermark = 0.9\nlow_watermark = 0.5\npromote_after = 1\n",
        "[[tenant]]\nnumber = 7\nname = \"x\"\nuids = [1, 2]\nquota = 5\n"
        "permissions = [\"read\", \"admin\"]\n",
        "[log]\nlevel = \"info\"\nform = \"json\"\n[metrics]\nport = 1\naddress = \"::1\"\n"}) {
    inputs.emplace_back(text.begin(), text.end());
  }
  return inputs;
}

}  // namespace nearkv::test
