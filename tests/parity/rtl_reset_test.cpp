// CONTROL.RESET amid any command: the device forgets it, and does the next one as if new.
#include <algorithm>
#include <map>
#include <string>

#include "command_stream.hpp"
#include "support/environment.hpp"

namespace nearkv::test {
namespace {

TEST(RtlResetTest, AResetAmidAnyCommandLeavesADeviceAsNew) {
  constexpr unsigned kCommandsPerList = 6;
  DevicePair pair("rtl:?latency=20", "8MiB");
  const auto restore = [&pair] {
    std::ranges::copy(pair.model().window(), pair.subject().window().begin());
  };
  std::map<std::string, unsigned> resets;
  const std::uint64_t wanted = by_size(100, 1000);
  std::uint64_t total = 0;
  for (std::uint64_t number = 0; total < wanted && !HasFailure(); ++number) {
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
  for (const char* const opcode : {"ATTEND", "TOPK", "TRANSCODE"}) {
    EXPECT_GT(resets[opcode], wanted / 25) << opcode;
  }
}

}  // namespace
}  // namespace nearkv::test
