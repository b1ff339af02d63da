// Each flush, invalidation and fence of the protocol is needed: without it, some schedule fails.
#include <gtest/gtest.h>

#include <cstdio>

#include "share/world.hpp"
#include "support/environment.hpp"

namespace nearkv::test {
namespace {

using Call = Omission::Call;

/// Schedules without the call until one fails; their number, or 0.
std::uint64_t schedules_until_failure(const Omission& omission, std::uint64_t limit,
                                      std::string* wrong) {
  for (std::uint64_t schedule = 0; schedule < limit; ++schedule) {
    WorldOptions options;
    options.hosts = static_cast<std::uint16_t>(2 + schedule % 3);
    options.omission = omission;
    *wrong = World(options, schedule).run();
    if (!wrong->empty()) return schedule + 1;
  }
  return 0;
}

class OmissionTest : public testing::TestWithParam<Omission> {};

TEST_P(OmissionTest, IsNoticed) {
  const std::uint64_t limit = by_size(500, 60000);
  std::string wrong;
  const std::uint64_t schedules = schedules_until_failure(GetParam(), limit, &wrong);
  EXPECT_GT(schedules, 0U) << "nothing failed in " << limit << " schedules without the "
                           << GetParam().name();
  // The same schedule with the call is fine.
  if (schedules > 0) {
    WorldOptions options;
    options.hosts = static_cast<std::uint16_t>(2 + (schedules - 1) % 3);
    EXPECT_EQ(World(options, schedules - 1).run(), "");
  }
  std::printf("%-55s %5lu schedules: %s\n", GetParam().name().c_str(), schedules, wrong.c_str());
}

// Most are missed at once; some only in a rare order of things, which the long size looks for.
std::vector<Omission> omissions() {
  if (is_long()) {
    return {Omission{Call::kFlush, Record::kWholeRegion},
            Omission{Call::kFenceAfterFlush, Record::kNone},
            Omission{Call::kFenceAfterFlush, Record::kLease},
            Omission{Call::kFenceAfterFlush, Record::kPayload},
            Omission{Call::kFenceAfterFlush, Record::kWholeRegion},
            Omission{Call::kFenceAfterInvalidate, Record::kEntry}};
  }
  return {Omission{Call::kFlush, Record::kHeader},
          Omission{Call::kFlush, Record::kLine},
          Omission{Call::kFlush, Record::kEntry},
          Omission{Call::kFlush, Record::kAck},
          Omission{Call::kFlush, Record::kLease},
          Omission{Call::kFlush, Record::kMessage},
          Omission{Call::kFlush, Record::kPayload},
          Omission{Call::kInvalidate, Record::kHeader},
          Omission{Call::kInvalidate, Record::kLine},
          Omission{Call::kInvalidate, Record::kEntry},
          Omission{Call::kInvalidate, Record::kAck},
          Omission{Call::kInvalidate, Record::kLease},
          Omission{Call::kInvalidate, Record::kMessage},
          Omission{Call::kInvalidate, Record::kPayload},
          Omission{Call::kFenceAfterFlush, Record::kHeader},
          Omission{Call::kFenceAfterFlush, Record::kLine},
          Omission{Call::kFenceAfterInvalidate, Record::kHeader},
          Omission{Call::kFenceAfterInvalidate, Record::kLine},
          Omission{Call::kFenceAfterInvalidate, Record::kLease},
          Omission{Call::kFenceAfterInvalidate, Record::kPayload}};
}

INSTANTIATE_TEST_SUITE_P(EachCall, OmissionTest, testing::ValuesIn(omissions()),
                         [](const testing::TestParamInfo<Omission>& parameter) {
                           std::string name = parameter.param.name();
                           std::erase_if(name, [](char c) {
                             return std::isalnum(static_cast<unsigned char>(c)) == 0;
                           });
                           return name;
                         });

}  // namespace
}  // namespace nearkv::test
