// What the engine says when memory fails it: poison is told with the page that it hit, a read that
// is never answered ends the command, and nothing hangs.
#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "device_pair.hpp"
#include "support/kv_data.hpp"
#include "support/page_commands.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint64_t kWindowBase = 1 << 20;  // Of a BenchDevice.

/// Three pages in the model's memory, and commands over them.
class RtlFaultsTest : public testing::Test {
 protected:
  RtlFaultsTest() {
    const KvData data = make_kv(Shape::kTopics, 3 * NKV_PAGE_TOKENS, 64, 64, 5);
    model_.allocate(4096);
    list_ = append(&model_, data);
    append_ = append_command(&model_, data, NKV_ROW_FORM_RAW, NKV_ROW_FORM_DELTA4);
    coded_ = with_codes(append_command(&model_, data, NKV_ROW_FORM_DELTA4, NKV_ROW_FORM_RAW));
    const std::vector<std::uint16_t> queries = make_queries(data, 3, 3.0, 6);
    topk_ = topk_command(&model_, list_, queries, 8, NKV_SELECT_FULL);
    attend_ = attend_command(&model_, list_, queries);
    scrub_ = pages_command(list_, NKV_OPCODE_SCRUB);
  }

  /// The same APPEND to pages with codes, with gains of 0 in a burst of their own.
  nkv_append_command with_codes(nkv_append_command command) {
    std::array<nkv_page_entry, 3> entries{};
    for (nkv_page_entry& entry : entries) {
      entry.page = static_cast<std::uint32_t>(model_.allocate(1 << 16) / NKV_PAGE_GRAIN_BYTES);
    }
    command.flags = NKV_APPEND_FLAG_CODES;
    command.page_list = model_.allocate(2 * NKV_BURST_BYTES) + NKV_BURST_BYTES - sizeof(entries);
    std::ranges::copy(entries, model_.at<nkv_page_entry>(command.page_list));
    return command;
  }

  /// Where in device memory an array of page 1 begins, or with -1 the page itself.
  [[nodiscard]] std::uint64_t place_of(int array) {
    const auto* const entry = model_.at<nkv_page_entry>(list_.page_list) + 1;
    const std::uint64_t page = std::uint64_t{entry->page} * NKV_PAGE_GRAIN_BYTES;
    nkv_page_shape shape{};
    shape.k_form = shape.v_form = NKV_ROW_FORM_DELTA4;
    shape.head_dim = shape.value_dim = 64;
    nkv_page_layout layout{};
    nkv_lay_out_page(&shape, &layout);
    return kWindowBase + page + (array < 0 ? 0 : layout.offset[array]);
  }

  template <typename Command>
  nkv_completion run_with(const std::string& fault, const Command& command) {
    BenchDevice engine("rtl:?memory=4MiB&latency=20&" + fault);
    std::ranges::copy(model_.window(), engine.window().begin());
    const nkv_completion done = engine.run(command);
    is_fatal_ =
        (engine.device().read_csr(NKV_REG_DEVICE_STATUS) & NKV_REG_DEVICE_STATUS_FATAL_MASK) != 0;
    return done;
  }

  BenchDevice model_{"model:?memory=4MiB"};
  StoredList list_;
  nkv_append_command append_{};
  nkv_append_command coded_{};
  nkv_topk_command topk_{};
  nkv_attend_command attend_{};
  nkv_pages_command scrub_{};
  bool is_fatal_ = false;
};

void expect_poison(const nkv_completion& done) {
  EXPECT_EQ(done.status, NKV_STATUS_POISON) << describe(done);
  EXPECT_EQ(done.detail, 1U);
}

TEST_F(RtlFaultsTest, PoisonIsToldWithItsPage) {
  const auto poison = [this](int array) { return "poison=" + std::to_string(place_of(array)); };
  expect_poison(run_with(poison(-1), scrub_));
  expect_poison(run_with(poison(-1), topk_));
  expect_poison(run_with(poison(NKV_PAGE_ARRAY_K_EXPONENTS), topk_));
  expect_poison(run_with(poison(NKV_PAGE_ARRAY_K_ROWS), topk_));
  expect_poison(run_with(poison(NKV_PAGE_ARRAY_K_ROWS), attend_));
  expect_poison(run_with(poison(NKV_PAGE_ARRAY_V_ROWS), attend_));
  expect_poison(run_with(poison(NKV_PAGE_ARRAY_V_EXCEPTIONS), scrub_));
  EXPECT_FALSE(is_fatal_);
}

TEST_F(RtlFaultsTest, PoisonOfWhatACommandBringsIsOfNoPage) {
  nkv_gather_command gather{};
  gather.opcode = NKV_OPCODE_GATHER;
  gather.tensor = NKV_TENSOR_KEYS;
  gather.tokens = 3 * NKV_PAGE_TOKENS;
  gather.count = 4;
  gather.page_list = list_.page_list;
  gather.ids = model_.allocate(64);
  gather.result = model_.allocate(4096);
  const auto poison = [](std::uint64_t at) { return "poison=" + std::to_string(kWindowBase + at); };
  for (const nkv_completion& done :
       {run_with(poison(scrub_.source), scrub_), run_with(poison(topk_.page_list), topk_),
        run_with(poison(topk_.query), topk_), run_with(poison(attend_.query), attend_),
        run_with(poison(gather.page_list), gather), run_with(poison(gather.ids), gather)}) {
    EXPECT_EQ(done.status, NKV_STATUS_POISON) << describe(done);
    EXPECT_EQ(done.detail, 0U);
  }
  EXPECT_FALSE(is_fatal_);
}

TEST_F(RtlFaultsTest, WeightsThatArePoisonedOrNoNumbersEndAnIndexersCommand) {
  const KvData data = make_kv(Shape::kTopics, 3 * NKV_PAGE_TOKENS, 64, 64, 5);
  const StoredList raw = append(&model_, data, NKV_ROW_FORM_RAW, NKV_ROW_FORM_RAW);
  nkv_topk_command indexer =
      topk_command(&model_, raw, make_queries(data, 3, 3.0, 6), 8, NKV_SELECT_INDEXER);
  indexer.weights = model_.allocate(64);
  EXPECT_EQ(run_with("seed=1", indexer).status, NKV_STATUS_OK);
  const nkv_completion poisoned =
      run_with("poison=" + std::to_string(kWindowBase + indexer.weights), indexer);
  EXPECT_EQ(poisoned.status, NKV_STATUS_POISON) << describe(poisoned);
  EXPECT_EQ(poisoned.detail, 0U);
  model_.at<float>(indexer.weights)[1] = std::numeric_limits<float>::quiet_NaN();
  const nkv_completion bad = run_with("seed=1", indexer);
  EXPECT_EQ(describe(bad), describe(model_.run(indexer)));
  EXPECT_EQ(bad.status, NKV_STATUS_BAD_QUERY);
}

TEST_F(RtlFaultsTest, PoisonedSourceRowsAreToldWithTheirPage) {
  const std::uint64_t row = NKV_PAGE_TOKENS + 5;
  for (const std::uint64_t at :
       {append_.keys + row * append_.key_stride, append_.values + row * append_.value_stride}) {
    expect_poison(run_with("poison=" + std::to_string(kWindowBase + at), append_));
    EXPECT_FALSE(is_fatal_);
  }
  EXPECT_EQ(run_with("drop_read=9", append_).status, NKV_STATUS_INTERNAL);
  EXPECT_TRUE(is_fatal_);
}

TEST_F(RtlFaultsTest, PoisonedGainsAreOfNoPage) {
  const std::uint64_t gains = kWindowBase + coded_.page_list + 3 * sizeof(nkv_page_entry);
  const nkv_completion done = run_with("poison=" + std::to_string(gains), coded_);
  EXPECT_EQ(done.status, NKV_STATUS_POISON) << describe(done);
  EXPECT_EQ(done.detail, 0U);
  EXPECT_FALSE(is_fatal_);
  EXPECT_EQ(run_with("seed=1", coded_).status, NKV_STATUS_OK);
  // The command, its page list, then the gains.
  EXPECT_EQ(run_with("drop_read=3", coded_).status, NKV_STATUS_INTERNAL);
  EXPECT_TRUE(is_fatal_);
}

TEST_F(RtlFaultsTest, PoisonedCodesAreSeenByWhatVerifiesThem) {
  ASSERT_EQ(model_.run(coded_).status, NKV_STATUS_OK);
  const auto* const entry = model_.at<nkv_page_entry>(coded_.page_list) + 1;
  const std::uint64_t page = std::uint64_t{entry->page} * NKV_PAGE_GRAIN_BYTES;
  nkv_page_shape shape{};
  shape.k_form = NKV_ROW_FORM_DELTA4;
  shape.flags = NKV_PAGE_FLAG_CODES;
  shape.head_dim = shape.value_dim = 64;
  nkv_page_layout layout{};
  nkv_lay_out_page(&shape, &layout);
  scrub_.source = attend_.page_list = coded_.page_list;
  for (int array = NKV_PAGE_ARRAY_CODE_SUMMARY; array < NKV_PAGE_ARRAY_COUNT; ++array) {
    const std::string fault = "poison=" + std::to_string(kWindowBase + page + layout.offset[array]);
    expect_poison(run_with(fault, scrub_));
    EXPECT_EQ(run_with(fault, attend_).status, NKV_STATUS_OK);
    EXPECT_FALSE(is_fatal_);
  }
}

TEST_F(RtlFaultsTest, PoisonThatIsNotReadIsNotSeen) {
  const std::string fault = "poison=" + std::to_string(place_of(NKV_PAGE_ARRAY_V_EXCEPTIONS));
  EXPECT_EQ(run_with(fault, attend_).status, NKV_STATUS_OK);
  EXPECT_EQ(run_with(fault, topk_).status, NKV_STATUS_OK);
}

TEST_F(RtlFaultsTest, AReadWithoutAnswerEndsTheCommandAndTheDeviceSaysSo) {
  // The first burst read is the command; the second is the query's, the twentieth in the pages.
  for (const char* const fault : {"drop_read=2", "drop_read=20"}) {
    EXPECT_EQ(run_with(fault, topk_).status, NKV_STATUS_INTERNAL) << fault;
    EXPECT_TRUE(is_fatal_) << fault;
  }
}

TEST_F(RtlFaultsTest, ACommandThatMemoryDoesNotGiveEndsAndTheDeviceGoesOn) {
  EXPECT_EQ(run_with("drop_read=1", topk_).status, NKV_STATUS_INTERNAL);
  EXPECT_FALSE(is_fatal_);
}

TEST_F(RtlFaultsTest, AWriteThatMemoryRefusesFailsItsCommandAloneAndNoPageIsFound) {
  // The second write wipes a place; the fortieth is of a body.
  for (const char* const fault : {"refuse_write=2", "refuse_write=40"}) {
    SCOPED_TRACE(fault);
    BenchDevice engine("rtl:?memory=4MiB&latency=20&" + std::string(fault));
    std::ranges::copy(model_.window(), engine.window().begin());
    EXPECT_EQ(engine.run(append_).status, NKV_STATUS_INTERNAL);
    for (std::uint32_t page = 0; page < append_.tokens / NKV_PAGE_TOKENS; ++page) {
      const auto* const entry = engine.at<nkv_page_entry>(append_.page_list) + page;
      EXPECT_NE(*engine.at<std::uint32_t>(std::uint64_t{entry->page} * NKV_PAGE_GRAIN_BYTES),
                NKV_PAGE_MAGIC);
    }
    EXPECT_EQ(engine.device().read_csr(NKV_REG_DEVICE_STATUS), NKV_REG_DEVICE_STATUS_READY_MASK);
    EXPECT_EQ(engine.run(append_).status, NKV_STATUS_OK);
  }
  // Results that trail are writes too.
  EXPECT_EQ(run_with("refuse_write=1", attend_).status, NKV_STATUS_INTERNAL);
  EXPECT_FALSE(is_fatal_);
}

// As many writes as may wait for an answer: then the engine asks for nothing more, and beats of the
// pages that it copies wait to be taken.
TEST_F(RtlFaultsTest, ACommandEndsWhoseBeatsWaitForever) {
  const nkv_pages_command copy =
      pages_command(list_, NKV_OPCODE_COPY, free_places(&model_, list_, list_.page_bytes, 7));
  EXPECT_EQ(run_with("seed=1", copy).status, NKV_STATUS_OK);
  EXPECT_EQ(run_with("drop_write=20&drop_writes=63", copy).status, NKV_STATUS_INTERNAL);
  EXPECT_TRUE(is_fatal_);
}

TEST_F(RtlFaultsTest, AResetBringsADeviceBack) {
  BenchDevice engine("rtl:?memory=4MiB&latency=20&drop_read=4");
  std::ranges::copy(model_.window(), engine.window().begin());
  EXPECT_EQ(engine.run(scrub_).status, NKV_STATUS_INTERNAL);
  engine.reset_after(0);
  EXPECT_EQ(engine.device().read_csr(NKV_REG_DEVICE_STATUS), NKV_REG_DEVICE_STATUS_READY_MASK);
  const nkv_completion done = engine.run(scrub_);
  EXPECT_EQ(done.status, NKV_STATUS_OK) << describe(done);
}

/// An ATTEND and, behind it in another queue, a second command: as the first one's results are
/// written, the second runs.
class RtlTwoCommandsTest : public RtlFaultsTest {
 protected:
  RtlTwoCommandsTest() {
    expected_ = model_.run(attend_);
    const std::span<std::byte> allocated = model_.allocated();
    results_.assign(allocated.begin(), allocated.end());
    std::ranges::fill(result(model_.window()), std::byte{0});
  }

  struct Done {
    nkv_completion first{};
    nkv_completion second{};
    bool has_second = false;
  };

  std::span<std::byte> result(std::span<std::byte> window) {
    return window.subspan(attend_.result, model_.allocated().size() - attend_.result);
  }

  void start(const std::string& fault) {
    for (auto& queue : queues_) queue.reset();
    engine_ = std::make_unique<BenchDevice>("rtl:?memory=4MiB&latency=20" + fault);
    open(2);
  }

  void open(unsigned first_index) {
    std::ranges::copy(model_.allocated(), engine_->window().begin());
    Queue::Options options;
    options.window_base = kWindowBase;
    options.window_bytes = engine_->window().size();
    for (unsigned i = 0; i < 2; ++i) {
      options.index = first_index + i;
      options.rings_at = kRingsAt + i * Queue::ring_bytes(options.ring_entries);
      queues_.at(i).reset();
      ASSERT_EQ(Queue::open(&engine_->device(), options, &queues_.at(i)), Status::kOk);
    }
  }

  template <typename Second>
  void submit(const Second& second) {
    std::uint16_t tag = 0;
    ASSERT_EQ(queues_[0]->submit(attend_, &tag), Status::kOk);
    ASSERT_EQ(queues_[1]->submit(second, &tag), Status::kOk);
    for (const auto& queue : queues_) queue->ring();
  }

  /// A device that failed meanwhile may not have taken the second command.
  Done finish() {
    Done done;
    EXPECT_EQ(queues_[0]->wait(std::chrono::seconds(60)), Status::kOk);
    EXPECT_EQ(queues_[0]->poll(std::span(&done.first, 1)), 1U);
    const bool failed = done.first.status == NKV_STATUS_INTERNAL;
    const Status status = queues_[1]->wait(std::chrono::seconds(failed ? 1 : 60));
    done.has_second = queues_[1]->poll(std::span(&done.second, 1)) == 1;
    EXPECT_TRUE(done.has_second || (failed && status != Status::kOk));
    return done;
  }

  void expect_results() {
    const std::span<std::byte> found = result(engine_->window());
    EXPECT_TRUE(std::ranges::equal(found, std::span(results_).last(found.size())));
  }

  static constexpr std::uint64_t kRingsAt = 1 << 19;
  nkv_completion expected_{};
  std::vector<std::byte> results_;
  std::unique_ptr<BenchDevice> engine_;
  std::array<std::unique_ptr<Queue>, 2> queues_;
};

TEST_F(RtlTwoCommandsTest, PoisonIsToldOfTheCommandThatReadIt) {
  start("&poison=" + std::to_string(place_of(NKV_PAGE_ARRAY_V_EXCEPTIONS)));
  submit(scrub_);
  const Done done = finish();
  EXPECT_EQ(describe(done.first), describe(expected_));
  expect_results();
  expect_poison(done.second);
}

TEST_F(RtlTwoCommandsTest, BothEndWhenMemoryDoesNotAnswer) {
  unsigned of_the_second = 0;
  for (const unsigned drop : {40U, 700U, 1000U}) {
    start("&drop_read=" + std::to_string(drop));
    submit(attend_);
    const Done done = finish();
    if (done.first.status == NKV_STATUS_OK) {
      EXPECT_EQ(describe(done.first), describe(expected_)) << drop;
      expect_results();
      of_the_second += done.second.status == NKV_STATUS_INTERNAL;
    } else {
      EXPECT_EQ(done.first.status, NKV_STATUS_INTERNAL) << drop;
      EXPECT_TRUE(!done.has_second || done.second.status == NKV_STATUS_INTERNAL) << drop;
    }
    engine_->reset_after(0);
    EXPECT_EQ(engine_->device().read_csr(NKV_REG_DEVICE_STATUS), NKV_REG_DEVICE_STATUS_READY_MASK);
    open(4);
    submit(scrub_);
    const Done again = finish();
    EXPECT_EQ(describe(again.first), describe(expected_)) << drop;
    EXPECT_EQ(again.second.status, NKV_STATUS_OK) << drop;
    expect_results();
  }
  EXPECT_GT(of_the_second, 0U);
}

TEST_F(RtlTwoCommandsTest, AResetInAnyCycleForgetsBoth) {
  start("");
  for (unsigned after = 20; after < 1600; after += 41) {
    open(2);
    submit(attend_);
    engine_->reset_after(after);
    open(2);
    submit(scrub_);
    const Done done = finish();
    EXPECT_EQ(describe(done.first), describe(expected_)) << after;
    EXPECT_EQ(done.second.status, NKV_STATUS_OK) << after;
    expect_results();
  }
}

}  // namespace
}  // namespace nearkv::test
