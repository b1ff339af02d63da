// The generated command checkers against the tests' own reading of the contract.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ostream>
#include <string>
#include <vector>

#include "contract_rules.hpp"
#include "nkv_abi.h"

namespace nearkv::abi_test {
namespace {

constexpr std::size_t kCommandBytes = 64;
constexpr int kRounds = 200;

struct Answer {
  int status;
  std::uint64_t detail;
  bool operator==(const Answer&) const = default;
};

constexpr Answer kOk{NKV_STATUS_OK, 0};

Answer bad_field(std::size_t offset_bytes) { return {NKV_STATUS_BAD_FIELD, offset_bytes}; }

std::ostream& operator<<(std::ostream& out, const Answer& answer) {
  return out << "status " << answer.status << " detail " << answer.detail;
}

template <typename Command>
Answer check_with(std::uint8_t (*checker)(const Command*, std::uint64_t*),
                  std::span<const std::byte> bytes) {
  static_assert(sizeof(Command) == kCommandBytes);
  Command command;
  std::memcpy(&command, bytes.data(), sizeof(command));
  std::uint64_t detail = ~std::uint64_t{0};
  const int status = checker(&command, &detail);
  return {status, detail};
}

Answer check(std::string_view command, std::span<const std::byte> bytes) {
#define COMMAND(name) \
  if (command == #name) return check_with(nkv_check_##name, bytes);
#include "commands.inc"
#undef COMMAND
  ADD_FAILURE() << "no checker for " << command;
  return kOk;
}

class Checkers : public ::testing::TestWithParam<std::string> {
 protected:
  void fill() { fill_with_good_values(GetParam(), bytes_, random_); }

  Random random_{1};
  std::array<std::byte, kCommandBytes> bytes_{};
};

TEST_P(Checkers, AcceptWhateverTheContractAllows) {
  for (int round = 0; round < 10 * kRounds; ++round) {
    fill();
    ASSERT_EQ(check(GetParam(), bytes_), kOk);
  }
}

TEST_P(Checkers, AcceptTheBoundsThemselves) {
  for (const Rule& rule : rules_of(GetParam())) {
    for (const std::uint64_t value :
         {rule.min, rule.max, rule.max / rule.multiple * rule.multiple}) {
      if (rule.allows(value)) {
        fill();
        rule.write(bytes_, 0, value);
        EXPECT_EQ(check(GetParam(), bytes_), kOk) << rule.field << " = " << value;
      }
    }
  }
}

TEST_P(Checkers, NameTheOffsetOfTheBadField) {
  int refused = 0;
  for (const Rule& rule : rules_of(GetParam())) {
    for (std::size_t element = 0; element < rule.count; ++element) {
      for (const std::uint64_t value : rule.bad_values(random_)) {
        fill();
        rule.write(bytes_, element, value);
        ASSERT_EQ(check(GetParam(), bytes_), bad_field(rule.offset_bytes))
            << rule.field << "[" << element << "] = " << value;
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 0);
}

TEST_P(Checkers, NameTheFirstOfTwoBadFields) {
  const std::vector<Rule> rules = rules_of(GetParam());
  for (int round = 0; round < kRounds; ++round) {
    fill();
    std::size_t first_offset = kCommandBytes;
    for (int breakage = 0; breakage < 2; ++breakage) {
      const Rule& rule = rules[random_() % rules.size()];
      const std::vector<std::uint64_t> bad = rule.bad_values(random_);
      if (!bad.empty()) {
        rule.write(bytes_, 0, bad[random_() % bad.size()]);
        first_offset = std::min(first_offset, rule.offset_bytes);
      }
    }
    const Answer expected = first_offset == kCommandBytes ? kOk : bad_field(first_offset);
    ASSERT_EQ(check(GetParam(), bytes_), expected);
  }
}

TEST_P(Checkers, JudgeRandomBytesAsTheRulesDo) {
  for (int round = 0; round < 10 * kRounds; ++round) {
    fill();
    // A few random bytes in a good command get further than a command of nothing but noise.
    const std::size_t noise_bytes = round % 2 == 0 ? 2 : kCommandBytes;
    for (std::size_t i = 0; i < noise_bytes; ++i) {
      bytes_[random_() % kCommandBytes] = static_cast<std::byte>(random_());
    }
    Answer expected = kOk;
    for (const Rule& rule : rules_of(GetParam())) {
      if (!rule.holds_in(bytes_)) {
        expected = bad_field(rule.offset_bytes);
        break;
      }
    }
    ASSERT_EQ(check(GetParam(), bytes_), expected);
  }
}

std::vector<std::string> all_commands() {
  return {
#define COMMAND(name) #name,
#include "commands.inc"
#undef COMMAND
  };
}

INSTANTIATE_TEST_SUITE_P(EveryCommand, Checkers, ::testing::ValuesIn(all_commands()),
                         [](const auto& command) { return command.param; });

// Numbers from the contract's text, typed here by hand: they guard the reading above as well.
TEST(AttendChecker, HoldsTheContractsNumbers) {
  nkv_attend_command command{};
  command.opcode = NKV_OPCODE_ATTEND;
  command.head_dim = 576;
  command.value_dim = 16;
  command.tokens = 1048576;
  command.result = 4096;
  command.group = 128;
  std::uint64_t detail = 1;
  EXPECT_EQ(nkv_check_attend_command(&command, &detail), NKV_STATUS_OK);
  EXPECT_EQ(detail, 0U);

  nkv_attend_command wide = command;
  wide.head_dim = 592;
  EXPECT_EQ(nkv_check_attend_command(&wide, &detail), NKV_STATUS_BAD_FIELD);
  EXPECT_EQ(detail, 4U);

  nkv_attend_command long_list = command;
  long_list.tokens = 1048577;
  EXPECT_EQ(nkv_check_attend_command(&long_list, &detail), NKV_STATUS_BAD_FIELD);
  EXPECT_EQ(detail, 8U);

  nkv_attend_command crooked = command;
  crooked.result = 4096 + 32;
  EXPECT_EQ(nkv_check_attend_command(&crooked, &detail), NKV_STATUS_BAD_FIELD);
  EXPECT_EQ(detail, 32U);

  nkv_attend_command crowd = command;
  crowd.group = 129;
  EXPECT_EQ(nkv_check_attend_command(&crowd, &detail), NKV_STATUS_BAD_FIELD);
  EXPECT_EQ(detail, 53U);
}

}  // namespace
}  // namespace nearkv::abi_test
