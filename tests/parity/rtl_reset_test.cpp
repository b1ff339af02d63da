// CONTROL.RESET amid any command: the device forgets it, and does the next one as if new.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>

#include "command_stream.hpp"

namespace nearkv::test {
namespace {

/// NEARKV_PARITY_RESETS, or what every run has time for.
unsigned wanted_resets() {
  const char* const chosen = std::getenv("NEARKV_PARITY_RESETS");
  return chosen != nullptr ? static_cast<unsigned>(std::strtoul(chosen, nullptr, 0)) : 100;
}

TEST(RtlResetTest, AResetAmidAnyCommandLeavesADeviceAsNew) {
  constexpr unsigned kCommandsPerList = 6;
  DevicePair pair("rtl:?latency=20", "8MiB");
  const auto restore = [&pair] {
    std::ranges::copy(pair.model().window(), pair.subject().window().begin());
  };
  std::map<std::string, unsigned> resets;
  unsigned total = 0;
  for (std::uint64_t number = 0; total < wanted_resets() && !HasFailure(); ++number) {
    Random random = case_random(17000 + number);
    Stream stream(pair, 17500 + number);
    if (!stream.append()) continue;
    for (unsigned i = 0; i < kCommandsPerList && !HasFailure(); ++i, ++total) {
      const StreamCommand command = stream.next();
      const std::uint64_t ticks = pair.subject().run(command.bytes).ticks;
      const std::uint64_t after = random() % (ticks + 100);
      SCOPED_TRACE(case_name(17000 + number) + ": " + stream.name() + ", command " +
                   std::to_string(i) + ", " + command.name + ", reset after " +
                   std::to_string(after) + " of " + std::to_string(ticks));
      restore();
      pair.subject().reset_amid(command.bytes, after);
      restore();
      const DevicePair::Completions done = pair.run(command.bytes);
      EXPECT_EQ(describe(done.subject), describe(done.model));
      // Pages that were not come to may be anything.
      if (done.model.status == NKV_STATUS_OK) pair.expect_same_memory();
      restore();
      ++resets[command.name.substr(0, command.name.find(' '))];
    }
  }
  for (const char* const opcode : {"ATTEND", "TOPK", "TRANSCODE"}) EXPECT_GT(resets[opcode], 4U);
}

}  // namespace
}  // namespace nearkv::test
