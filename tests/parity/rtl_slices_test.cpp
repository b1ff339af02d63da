// Several slices of memory with as many engines: commands of several queues that run at once leave
// the model's bits, and what goes wrong for one does not touch the others.
#include <algorithm>
#include <functional>

#include "device_pair.hpp"
#include "support/kv_data.hpp"
#include "support/many_queues.hpp"
#include "support/page_commands.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint64_t kWindowBase = 1 << 20;  // Of a BenchDevice.
constexpr std::uint64_t kStatusMask =
    NKV_REG_DEVICE_STATUS_READY_MASK | NKV_REG_DEVICE_STATUS_FATAL_MASK;

struct Machine {
  unsigned slices;
  unsigned queues;
  std::string options;
};

class RtlSlicesTest : public testing::TestWithParam<Machine> {
 protected:
  RtlSlicesTest() {
    model_.allocate(4096);
    for (unsigned i = 0; i < GetParam().queues; ++i) {
      const KvData data = make_kv(Shape::kTopics, (2 + i % 3) * NKV_PAGE_TOKENS, 64, 64, 5 + i);
      data_.push_back(data);
      lists_.push_back(i % 2 == 0 ? append(&model_, data)
                                  : append(&model_, data, NKV_ROW_FORM_RAW, NKV_ROW_FORM_RAW));
    }
  }

  [[nodiscard]] std::string uri(const std::string& more = "") const {
    return "rtl:?memory=4MiB&slices=" + std::to_string(GetParam().slices) + GetParam().options +
           more;
  }

  /// Where page `page` of queue i's list begins in device memory.
  [[nodiscard]] std::uint64_t place_of(std::size_t i, std::size_t page) {
    const auto* const entry = model_.at<nkv_page_entry>(lists_.at(i).page_list) + page;
    return kWindowBase + std::uint64_t{entry->page} * NKV_PAGE_GRAIN_BYTES;
  }

  /// Of every kind that the engine knows, on queue i's own list and results.
  template <typename Submit>
  void for_each_command(std::size_t i, const Submit& submit) {
    const std::vector<std::uint16_t> queries = make_queries(data_.at(i), 3, 3.0, 6);
    const StoredList& list = lists_.at(i);
    for (const std::uint16_t top_k : {std::uint16_t{8}, std::uint16_t{20}}) {
      submit(topk_command(&model_, list, queries, top_k, NKV_SELECT_FULL));
      submit(attend_command(&model_, list, queries));
    }
    submit(append_command(&model_, data_.at(i), NKV_ROW_FORM_RAW, NKV_ROW_FORM_DELTA4, 2));
    submit(pages_command(list, NKV_OPCODE_SCRUB));
    submit(pages_command(list, NKV_OPCODE_COPY, free_places(&model_, list, list.page_bytes, 9)));
    nkv_read_command read{};
    read.opcode = NKV_OPCODE_READ;
    read.tensor = NKV_TENSOR_BOTH;
    read.count = static_cast<std::uint32_t>(list.tokens);
    read.page_list = list.page_list;
    read.result = model_.allocate(list.tokens * 2 * (list.head_dim + list.value_dim));
    submit(read);
    submit(pages_command(list, NKV_OPCODE_ERASE));
  }

  BenchDevice model_{"model:?memory=4MiB"};
  std::vector<KvData> data_;
  std::vector<StoredList> lists_;
};

TEST_P(RtlSlicesTest, QueuesAtOnceLeaveTheModelsBits) {
  BenchDevice engine(uri());
  ManyQueues queues(&engine, GetParam().queues);
  // All commands first, with their inputs and room for their results; then the model runs them.
  std::vector<std::vector<std::string>> expected(lists_.size());
  std::vector<std::function<void()>> runs;
  for (std::size_t i = 0; i < lists_.size(); ++i) {
    for_each_command(i, [&](const auto& command) {
      queues.submit(i, command);
      runs.emplace_back([this, i, command, &expected] {
        expected.at(i).push_back(describe(model_.run(command)));
      });
    });
  }
  std::ranges::copy(model_.allocated(), engine.window().begin());
  for (const auto& run : runs) run();
  const ManyRuns done = queues.finish();
  for (std::size_t i = 0; i < lists_.size(); ++i) {
    ASSERT_EQ(done.completions.at(i).size(), expected.at(i).size());
    for (std::size_t j = 0; j < expected.at(i).size(); ++j) {
      EXPECT_EQ(describe(done.completions.at(i).at(j)), expected.at(i).at(j))
          << "queue " << i << ", command " << j;
    }
  }
  EXPECT_TRUE(
      std::ranges::equal(model_.allocated(), engine.window().first(model_.allocated().size())));
}

TEST_P(RtlSlicesTest, PoisonIsToldToWhoReadsIt) {
  BenchDevice engine(uri("&poison=" + std::to_string(place_of(1, 1))));
  std::ranges::copy(model_.allocated(), engine.window().begin());
  ManyQueues queues(&engine, GetParam().queues);
  for (std::size_t i = 0; i < lists_.size(); ++i) {
    for (unsigned j = 0; j < 3; ++j) {
      queues.submit(i, pages_command(lists_.at(i), NKV_OPCODE_SCRUB));
    }
  }
  const ManyRuns done = queues.finish();
  for (std::size_t i = 0; i < lists_.size(); ++i) {
    for (const nkv_completion& completion : done.completions.at(i)) {
      EXPECT_EQ(completion.status, i == 1 ? NKV_STATUS_POISON : NKV_STATUS_OK) << "queue " << i;
    }
  }
  EXPECT_EQ(engine.device().read_csr(NKV_REG_DEVICE_STATUS), NKV_REG_DEVICE_STATUS_READY_MASK);
}

/// Waits for a watchdog, which takes most of a minute.
class RtlSlicesPatienceTest : public RtlSlicesTest {};

// The watchdog of the engine that misses it ends its command; the others take all queues' commands.
TEST_P(RtlSlicesPatienceTest, AReadWithoutAnswerStopsOneEngine) {
  BenchDevice engine(uri("&drop_read=90"));
  std::ranges::copy(model_.allocated(), engine.window().begin());
  const auto scrub_all = [&] {
    ManyQueues queues(&engine, GetParam().queues);
    for (std::size_t i = 0; i < lists_.size(); ++i) {
      for (unsigned j = 0; j < 4; ++j) {
        queues.submit(i, pages_command(lists_.at(i), NKV_OPCODE_SCRUB));
      }
    }
    unsigned internal = 0;
    unsigned ok = 0;
    for (const auto& completions : queues.finish().completions) {
      for (const nkv_completion& completion : completions) {
        internal += completion.status == NKV_STATUS_INTERNAL ? 1 : 0;
        ok += completion.status == NKV_STATUS_OK ? 1 : 0;
      }
    }
    EXPECT_EQ(internal + ok, 4 * lists_.size());
    return internal;
  };
  EXPECT_EQ(scrub_all(), 1U);
  Device& device = engine.device();
  EXPECT_EQ(device.read_csr(NKV_REG_DEVICE_STATUS), kStatusMask);
  device.write_csr(NKV_REG_CONTROL, NKV_REG_CONTROL_RESET_MASK);
  engine.await_ready();
  EXPECT_EQ(device.read_csr(NKV_REG_DEVICE_STATUS), NKV_REG_DEVICE_STATUS_READY_MASK);
  EXPECT_EQ(scrub_all(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Devices, RtlSlicesTest,
                         testing::Values(Machine{2, 2, "&latency=20"},
                                         Machine{2, 5, "&latency=7&jitter=90&seed=3"},
                                         Machine{4, 6, "&latency=60"},
                                         Machine{2, 5, "&latency=7&jitter=90&stall=30&seed=3"},
                                         Machine{4, 6, "&latency=9&jitter=40&stall=40&seed=5"}));
INSTANTIATE_TEST_SUITE_P(Devices, RtlSlicesPatienceTest,
                         testing::Values(Machine{2, 2, "&latency=20"},
                                         Machine{4, 6, "&latency=9&jitter=40&stall=40&seed=5"}));

}  // namespace
}  // namespace nearkv::test
