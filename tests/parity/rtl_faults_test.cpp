// What the engine says when memory fails it: poison is told with the page that it hit, a read that
// is never answered ends the command, and nothing hangs.
#include <algorithm>

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
    const std::vector<std::uint16_t> queries = make_queries(data, 3, 3.0, 6);
    topk_ = topk_command(&model_, list_, queries, 8, NKV_SELECT_CERTIFIED);
    attend_ = attend_command(&model_, list_, queries);
    scrub_ = pages_command(list_, NKV_OPCODE_SCRUB);
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
  expect_poison(run_with(poison(NKV_PAGE_ARRAY_K_DIGEST), topk_));
  expect_poison(run_with(poison(NKV_PAGE_ARRAY_K_PLANE2), topk_));
  expect_poison(run_with(poison(NKV_PAGE_ARRAY_K_ROWS), attend_));
  expect_poison(run_with(poison(NKV_PAGE_ARRAY_V_ROWS), attend_));
  expect_poison(run_with(poison(NKV_PAGE_ARRAY_V_SUM), scrub_));
  EXPECT_FALSE(is_fatal_);
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

TEST_F(RtlFaultsTest, PoisonThatIsNotReadIsNotSeen) {
  const std::string fault = "poison=" + std::to_string(place_of(NKV_PAGE_ARRAY_V_SUM));
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

TEST_F(RtlFaultsTest, AResetBringsADeviceBack) {
  BenchDevice engine("rtl:?memory=4MiB&latency=20&drop_read=4");
  std::ranges::copy(model_.window(), engine.window().begin());
  EXPECT_EQ(engine.run(scrub_).status, NKV_STATUS_INTERNAL);
  Device& device = engine.device();
  device.write_csr(NKV_REG_CONTROL, NKV_REG_CONTROL_RESET_MASK);
  EXPECT_EQ(device.read_csr(NKV_REG_DEVICE_STATUS), NKV_REG_DEVICE_STATUS_READY_MASK);
  std::unique_ptr<Queue> queue;
  Queue::Options options;
  options.window_base = kWindowBase;
  options.window_bytes = device.memory().size() - kWindowBase;
  ASSERT_EQ(Queue::open(&device, options, &queue), Status::kOk);
  std::uint16_t tag = 0;
  ASSERT_EQ(queue->submit(scrub_, &tag), Status::kOk);
  queue->ring();
  ASSERT_EQ(queue->wait(std::chrono::seconds(60)), Status::kOk);
  nkv_completion done{};
  ASSERT_EQ(queue->poll(std::span(&done, 1)), 1U);
  EXPECT_EQ(done.status, NKV_STATUS_OK) << describe(done);
}

}  // namespace
}  // namespace nearkv::test
