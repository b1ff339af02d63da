// Streams of random commands on a device that promises the model's bits: after each command the
// same completion and the same bytes in all of memory, results of ATTEND included.
#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "command_stream.hpp"
#include "support/environment.hpp"
#include "support/offers.hpp"

namespace nearkv::test {
namespace {

/// Commands for each device.
std::uint64_t wanted_commands() { return by_size(640, 10000) / test_every(); }

/// Devices whose arithmetic is the model's to the bit.
std::vector<std::string> exact_uris() {
  std::vector<std::string> uris = subject_uris();
  std::erase_if(uris, [](const std::string& uri) {
    return !uri.starts_with("rtl:") && !uri.starts_with("xrt:") && !uri.starts_with("ocl:");
  });
#ifdef NEARKV_HAS_RTL
  if (uris.empty()) {
    uris = {"rtl:?latency=7&jitter=90&seed=3"};
  }
#endif
  return uris;
}

/// Modes that devices with codes offer.
constexpr std::array<std::string_view, 3> kModesOfCodes{"ATTEND mode 1", "ATTEND mode 2",
                                                        "TOPK mode 1"};

bool is_by_codes(const StreamCommand& command) {
  return std::ranges::find(kModesOfCodes, command.name) != kModesOfCodes.end();
}

/// Whether a device offers a command's mode.
bool offers_mode(Device& device, const StreamCommand& command) {
  return offers_feature(device, NKV_FEATURE_CODES) || !is_by_codes(command);
}

/// Where pages were to go that a command did not come to, there may be anything but a page.
void forget_unfinished(DevicePair& pair, const StreamCommand& command, std::uint32_t done) {
  const std::size_t end = pair.model().window().size();
  for (std::size_t i = done; i < command.places.size(); ++i) {
    const auto& [address, bytes] = command.places[i];
    if (address + bytes > end) continue;
    const std::span<std::byte> expected = pair.model().window().subspan(address, bytes);
    const std::span<std::byte> found = pair.subject().window().subspan(address, bytes);
    if (std::ranges::equal(expected, found)) continue;
    if (bytes >= sizeof(std::uint64_t)) {
      EXPECT_EQ(*pair.subject().at<std::uint64_t>(address), 0U)
          << "an unfinished page can be found";
    }
    std::ranges::copy(expected, found.begin());
  }
}

/// The model's status.
std::uint8_t expect_models_bits(DevicePair& pair, const StreamCommand& command) {
  const DevicePair::Completions done = pair.run(command.bytes);
  EXPECT_EQ(describe(done.subject), describe(done.model));
  if (done.model.status != NKV_STATUS_OK) forget_unfinished(pair, command, done.model.count);
  pair.expect_same_memory();
  return done.model.status;
}

std::string exact_name(const testing::TestParamInfo<std::string>& info) {
  return device_name(info) + "_" + std::to_string(info.index);
}

class StreamParityTest : public testing::TestWithParam<std::string> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StreamParityTest);

TEST_P(StreamParityTest, EveryCommandLeavesTheModelsBits) {
  constexpr unsigned kCommandsPerList = 8;
  DevicePair pair(GetParam(), "8MiB");
  std::map<std::string, std::uint64_t> compared;
  std::uint64_t commands = 0;
  for (std::uint64_t number = 0; commands < wanted_commands() && !HasFailure(); ++number) {
    Stream stream(pair, 5000 + number);
    const std::uint64_t not_offered_before = pair.not_offered();
    const bool appended = stream.append();
    SCOPED_TRACE(case_name(5000 + number) + ": " + stream.name());
    EXPECT_EQ(pair.not_offered(), not_offered_before) << "APPEND";
    ++compared[appended ? "APPEND" : "APPEND refused"];
    if (appended && stream.has_codes()) ++compared["APPEND with codes"];
    if (!appended) continue;
    for (unsigned i = 0; i < kCommandsPerList && !HasFailure(); ++i) {
      const StreamCommand command = stream.next();
      SCOPED_TRACE("command " + std::to_string(i) + ", " + command.name);
      const std::uint64_t not_offered = pair.not_offered();
      const std::uint8_t status = expect_models_bits(pair, command);
      ++commands;
      // What is wrong with a command may be told before its mode is looked at.
      if (is_by_codes(command) && status != NKV_STATUS_OK) continue;
      if (pair.not_offered() == not_offered) ++compared[command.name];
    }
  }
  for (const auto& [name, count] : compared) {
    std::printf("  %s: %llu commands alike\n", name.c_str(),
                static_cast<unsigned long long>(count));
  }
  // A shorter stream need not come to all of them.
  if (test_every() > 1) return;
  EXPECT_GT(compared["SCRUB"], 0U);
  for (const char* const mode : {"APPEND",
                                 "APPEND malformed",
                                 "APPEND refused",
                                 "ATTEND mode 0",
                                 "TOPK mode 2",
                                 "TOPK mode 3",
                                 "COPY",
                                 "COPY of damage",
                                 "COPY onto pages",
                                 "COPY out of the window",
                                 "READ",
                                 "GATHER",
                                 "TRANSCODE to 0",
                                 "TRANSCODE to 4",
                                 "TRANSCODE to 5",
                                 "TRANSCODE to 6",
                                 "TRANSCODE from 2",
                                 "TRANSCODE from 3",
                                 "TRANSCODE of damage",
                                 "TRANSCODE of damaged planes",
                                 "TRANSCODE onto pages",
                                 "TRANSCODE to little room"}) {
    EXPECT_GT(compared[mode], 0U) << mode;
  }
  EXPECT_EQ(compared["APPEND with codes"] > 0,
            offers_feature(pair.subject().device(), NKV_FEATURE_CODE_PAGES));
  const bool has_codes = offers_feature(pair.subject().device(), NKV_FEATURE_CODES);
  for (const std::string_view mode : kModesOfCodes) {
    EXPECT_EQ(compared[std::string(mode)] > 0, has_codes) << mode;
  }
}

/// Queues that share the subject, every other one with the second half of memory as its window.
class ManyQueues {
 public:
  static constexpr unsigned kQueues = 8;
  static constexpr std::uint64_t kRingsAt = 1 << 19;
  static constexpr std::uint64_t kWindowBase = 1 << 20;

  explicit ManyQueues(BenchDevice& bench) : window_bytes_(bench.window().size() / 2) {
    Queue::Options options;
    options.window_bytes = window_bytes_;
    for (unsigned i = 0; i < kQueues; ++i) {
      options.index = 2 + i;
      options.rings_at = kRingsAt + i * Queue::ring_bytes(options.ring_entries);
      options.window_base = kWindowBase + i % 2 * window_bytes_;
      EXPECT_EQ(Queue::open(&bench.device(), options, &queues_.at(i)), Status::kOk);
    }
  }

  /// Each command in both windows, through queues in turn; their completions as they should be.
  void run(const std::vector<StreamCommand>& commands,
           const std::vector<nkv_completion>& expected) {
    std::array<std::vector<std::size_t>, kQueues> sent;
    for (std::size_t i = 0; i < 2 * commands.size(); ++i) {
      std::uint16_t tag = 0;
      ASSERT_EQ(queues_.at(i % kQueues)->submit(commands[i / 2].bytes, &tag), Status::kOk);
      sent.at(i % kQueues).push_back(i / 2);
    }
    for (const auto& queue : queues_) queue->ring();
    for (unsigned i = 0; i < kQueues; ++i) {
      for (std::size_t done = 0; done < sent.at(i).size();) {
        std::array<nkv_completion, 8> completions{};
        ASSERT_EQ(queues_.at(i)->wait(std::chrono::seconds(60)), Status::kOk);
        const std::size_t count = queues_.at(i)->poll(completions);
        for (std::size_t c = 0; c < count; ++c, ++done) {
          const std::size_t command = sent.at(i).at(done);
          EXPECT_EQ(describe(completions.at(c)), describe(expected.at(command)))
              << "queue " << i << ", command " << command << ", " << commands.at(command).name;
        }
      }
    }
  }

  [[nodiscard]] std::uint64_t window_bytes() const { return window_bytes_; }

 private:
  std::uint64_t window_bytes_;
  std::array<std::unique_ptr<Queue>, kQueues> queues_;
};

// While the results of one command are written, that of another queue runs.
TEST_P(StreamParityTest, CommandsOfManyQueuesDoNotMeet) {
  constexpr unsigned kCommandsPerList = 12;
  DevicePair pair(GetParam(), "24MiB");
  ManyQueues queues(pair.subject());
  const std::span<std::byte> window = pair.subject().window();
  std::uint64_t attends = 0;
  for (std::uint64_t number = 0; attends < wanted_commands() / 16 && !HasFailure(); ++number) {
    Stream stream(pair, 9000 + number);
    if (!stream.append()) continue;
    SCOPED_TRACE(case_name(9000 + number) + ": " + stream.name());
    std::vector<StreamCommand> commands;
    while (commands.size() < kCommandsPerList) {
      const StreamCommand command = stream.next();
      const bool is_attend = command.bytes.opcode == NKV_OPCODE_ATTEND;
      const bool is_scan = is_attend || command.bytes.opcode == NKV_OPCODE_TOPK ||
                           command.bytes.opcode == NKV_OPCODE_SCRUB;
      if (!is_scan || !offers_mode(pair.subject().device(), command)) continue;
      commands.push_back(command);
      attends += is_attend;
    }
    const std::span<std::byte> allocated = pair.model().allocated();
    ASSERT_LE(allocated.size(), queues.window_bytes());
    std::ranges::copy(allocated, window.begin());
    std::ranges::copy(allocated, window.subspan(queues.window_bytes()).begin());
    std::vector<nkv_completion> expected;
    for (const StreamCommand& command : commands) {
      expected.push_back(pair.model().run(command.bytes));
    }
    queues.run(commands, expected);
    EXPECT_TRUE(std::ranges::equal(allocated, window.first(allocated.size())));
    EXPECT_TRUE(
        std::ranges::equal(allocated, window.subspan(queues.window_bytes(), allocated.size())));
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, StreamParityTest, testing::ValuesIn(exact_uris()), exact_name);

}  // namespace
}  // namespace nearkv::test
