// Commands that a kernel gives a near-data device, whose host sleeps meanwhile.
#include <atomic>
#include <functional>
#include <thread>

#include "cuda/device_memory.hpp"
#include "nearkv/lent_queue.hpp"
#include "support/eventually.hpp"
#include "support/reference.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint32_t kEntries = 16;
constexpr std::size_t kDim = 64;

class NearTest : public NearGpu {
 protected:
  void SetUp() override {
    NearGpu::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    options_.queue.index = 5;
    options_.queue.ring_entries = kEntries;
    options_.queue.rings_at = device_address(bench_.allocate(Queue::ring_bytes(kEntries)));
    options_.queue.window_base = device_address(0);
    options_.queue.window_bytes = bench_.window().size();
    options_.doorbells_at = device_address(bench_.allocate(LentQueue::doorbell_bytes()));
    open();
    data_ = make_kv(Shape::kTopics, 320, kDim, kDim, 2);
    list_ = append(&bench_, data_);
    ASSERT_EQ(list_.completion.status, NKV_STATUS_OK);
  }

  void TearDown() override {
    close();
    NearGpu::TearDown();
  }

  void open() {
    ASSERT_EQ(LentQueue::open(&bench_.device(), options_, &lent_), Status::kOk);
    std::byte* const memory = bench_.device().memory().data();
    const nearkv_cuda_queue_places places{
        bench_.window().data(),
        bench_.window().size(),
        memory + options_.queue.rings_at,
        memory + options_.queue.rings_at + Queue::ring_bytes(kEntries) / 2,
        memory + lent_->doorbell_at(),
        kEntries};
    ASSERT_EQ(nearkv_cuda_queue_open(gpu_, &places, &queue_), NKV_STATUS_OK) << error();
  }
  void close() {
    if (gpu_ != nullptr) nearkv_cuda_queue_close(gpu_, queue_);
    queue_ = nullptr;
    lent_.reset();
  }

  std::uint64_t device_address(std::uint64_t in_window) {
    const std::byte* const memory = bench_.device().memory().data();
    return static_cast<std::uint64_t>(bench_.window().data() - memory) + in_window;
  }

  /// Commands with queries of their own, which lie elsewhere until a kernel brings them.
  struct Work {
    std::vector<nkv_attend_command> commands;
    std::vector<std::uint16_t> queries;
    nearkv_cuda_submission submission{};
  };
  Work work_of(std::size_t count, std::size_t rows = 4, std::uint32_t seed = 3) {
    Work work;
    for (std::size_t i = 0; i < count; ++i) {
      const auto queries = make_queries(data_, rows, 3, static_cast<std::uint32_t>(seed + i));
      const std::vector<std::uint16_t> nothing(queries.size());
      work.commands.push_back(attend_command(&bench_, list_, nothing));
      work.queries.insert(work.queries.end(), queries.begin(), queries.end());
    }
    work.submission = submission_of(work);
    return work;
  }
  /// A command that the device refuses.
  Work bad_work() {
    Work work = work_of(1);
    work.commands[0].head_dim = 24;
    work.submission = submission_of(work);
    return work;
  }
  nearkv_cuda_submission submission_of(const Work& work) {
    const std::size_t count = work.commands.size();
    return {stored(work.commands).data(), stored(work.queries).data(),
            static_cast<std::uint32_t>(count),
            static_cast<std::uint32_t>(work.queries.size() / count * sizeof(std::uint16_t))};
  }

  std::uint8_t submit(const Work& work) {
    return nearkv_cuda_queue_submit(gpu_, queue_, &work.submission, nullptr);
  }
  std::span<nkv_completion> wait(std::size_t count, std::uint64_t timeout_ns = 20 * kSecond) {
    const std::span<nkv_completion> taken = room<nkv_completion>(count);
    EXPECT_EQ(nearkv_cuda_queue_wait(gpu_, queue_, static_cast<std::uint32_t>(count), timeout_ns,
                                     taken.data(), nullptr),
              NKV_STATUS_OK)
        << error();
    return taken;
  }
  nearkv_cuda_queue_report state() {
    nearkv_cuda_queue_report report{};
    EXPECT_EQ(nearkv_cuda_queue_state(gpu_, queue_, &report, nullptr), NKV_STATUS_OK) << error();
    return report;
  }

  /// The results of a command are those of the same command on a queue of the library's.
  void expect_results(const Work& work) {
    const std::size_t elements = work.queries.size() / work.commands.size();
    for (std::size_t i = 0; i < work.commands.size(); ++i) {
      nkv_attend_command command = work.commands[i];
      const auto* const results = bench_.at<float>(command.result);
      const std::size_t rows = command.group;
      const std::vector<float> output(results, results + rows * kDim);
      const std::size_t lse_at = (rows * kDim + 15) / 16 * 16;
      const std::vector<float> lse(results + lse_at, results + lse_at + rows);
      command.query = bench_.store(std::span(work.queries).subspan(i * elements, elements));
      command.result = bench_.allocate(rows * kDim * sizeof(float) + 1024);
      const AttendOutcome own = attend(&bench_, command);
      ASSERT_EQ(own.completion.status, NKV_STATUS_OK);
      EXPECT_EQ(output, own.output) << "command " << i;
      EXPECT_EQ(lse, own.lse) << "command " << i;
    }
  }

  LentQueue::Options options_;
  std::unique_ptr<LentQueue> lent_;
  nearkv_cuda_queue* queue_ = nullptr;
  KvData data_;
  StoredList list_;
};

TEST_F(NearTest, AKernelsCommandsGiveWhatTheLibrarysGive) {
  const Work work = work_of(3);
  ASSERT_EQ(submit(work), NKV_STATUS_OK) << error();
  const std::span<nkv_completion> taken = wait(3);
  EXPECT_EQ(state().status, NKV_STATUS_OK);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(taken[i].status, NKV_STATUS_OK);
    EXPECT_EQ(taken[i].tag, i);
    EXPECT_GT(taken[i].stream_bursts, 0U);
  }
  expect_results(work);
}

TEST_F(NearTest, RingsGoRound) {
  // 7 and 16 have no common factor; 10 rounds pass the ring's end four times.
  std::uint16_t tag = 0;
  for (std::uint32_t round = 0; round < 10; ++round) {
    const Work work = work_of(7, 1, 10 * round);
    ASSERT_EQ(submit(work), NKV_STATUS_OK) << error();
    const std::span<nkv_completion> taken = wait(7);
    ASSERT_EQ(state().status, NKV_STATUS_OK) << "round " << round;
    for (const nkv_completion& completion : taken) EXPECT_EQ(completion.tag, tag++);
    if (round % 3 == 0) expect_results(work);
  }
}

TEST_F(NearTest, CompletionsMayBeTakenInPieces) {
  const Work work = work_of(9, 1);
  ASSERT_EQ(submit(work), NKV_STATUS_OK) << error();
  EXPECT_EQ(wait(4)[3].tag, 3);
  EXPECT_EQ(wait(5)[0].tag, 4);
  EXPECT_EQ(state().status, NKV_STATUS_OK);
  expect_results(work);
}

TEST_F(NearTest, ItsPartMergesWithWhatTheGpuHolds) {
  // The newest 64 tokens are the GPU's, the older ones the device's.
  constexpr std::uint32_t kNear = 256;
  constexpr std::uint32_t kGroup = 4;
  Work work = work_of(1, kGroup);
  work.commands[0].tokens = kNear;
  work.submission = submission_of(work);
  ASSERT_EQ(submit(work), NKV_STATUS_OK) << error();

  const auto newest = [&](const std::vector<std::uint16_t>& rows) {
    return stored(std::vector<std::uint16_t>(rows.begin() + kNear * kDim, rows.end()));
  };
  const std::span<float> here = room<float>(kGroup * kDim);
  const std::span<float> here_lse = room<float>(kGroup);
  nearkv_cuda_attend_args local{};
  local.query = work.submission.queries;
  local.key = newest(data_.keys).data();
  local.value = newest(data_.values).data();
  local.output = here.data();
  local.lse = here_lse.data();
  local.query_strides = {0, 0, kDim};
  local.key_strides = local.value_strides = {0, 0, kDim};
  local.batch = local.kv_heads = local.splits = 1;
  local.group = kGroup;
  local.tokens = 64;
  local.head_dim = local.value_dim = kDim;
  local.scale = work.commands[0].scale;
  ASSERT_EQ(nearkv_cuda_attend(gpu_, &local, nullptr), NKV_STATUS_OK) << error();
  (void)wait(1);

  const auto* const far = bench_.at<float>(work.commands[0].result);
  const std::span<float> output = room<float>(kGroup * kDim);
  const std::span<float> lse = room<float>(kGroup);
  nearkv_cuda_merge_args merge{};
  merge.source[0] = {here.data(), here_lse.data(), 0, 0, 0, 0, kGroup, 1};
  merge.source[1] = {far, far + kGroup * kDim, 0, 0, 0, 0, kGroup, 1};
  merge.output = output.data();
  merge.lse = lse.data();
  merge.rows = kGroup;
  merge.value_dim = kDim;
  merge.sources = 2;
  ASSERT_EQ(nearkv_cuda_merge(gpu_, &merge, nullptr), NKV_STATUS_OK) << error();
  synchronize();
  EXPECT_EQ(state().status, NKV_STATUS_OK);

  AttentionOptions options;
  options.scale = work.commands[0].scale;
  options.tokens = data_.tokens;
  for (std::size_t row = 0; row < kGroup; ++row) {
    const auto query = std::span<const std::uint16_t>(work.queries).subspan(row * kDim, kDim);
    const Attention exact = reference_attention(data_, query, options);
    EXPECT_LT(max_norm_error(output.subspan(row * kDim, kDim), exact.output), 1.0 / 256);
    EXPECT_NEAR(lse[row], exact.lse, 1e-3 * (1 + std::abs(exact.lse)));
  }
}

TEST_F(NearTest, ACommandThatFailsIsNamedAndTheQueueGoesOnWhenTold) {
  Work work = work_of(3);
  work.commands[1].head_dim = 24;
  work.submission = submission_of(work);
  ASSERT_EQ(submit(work), NKV_STATUS_OK);
  (void)wait(3);
  nearkv_cuda_queue_report report = state();
  EXPECT_EQ(report.status, NKV_STATUS_BAD_FIELD);
  EXPECT_EQ(report.index, 1U);
  EXPECT_EQ(report.detail, offsetof(nkv_attend_command, head_dim));

  const Work good = work_of(2);
  ASSERT_EQ(submit(good), NKV_STATUS_OK);  // Writes nothing.
  (void)wait(2);
  EXPECT_EQ(state().status, NKV_STATUS_BAD_FIELD);
  ASSERT_EQ(nearkv_cuda_queue_resume(gpu_, queue_, nullptr), NKV_STATUS_OK) << error();
  ASSERT_EQ(submit(good), NKV_STATUS_OK);
  (void)wait(2);
  EXPECT_EQ(state().status, NKV_STATUS_OK);
  expect_results(good);
}

TEST_F(NearTest, WhatWasInFlightWhenACommandFailedIsNotTakenForLaterCommands) {
  ASSERT_EQ(submit(bad_work()), NKV_STATUS_OK);
  ASSERT_EQ(submit(work_of(2, 4, 20)), NKV_STATUS_OK);
  (void)wait(1);
  EXPECT_EQ(wait(2)[1].tag, 2);
  const nearkv_cuda_queue_report report = state();
  EXPECT_EQ(report.status, NKV_STATUS_BAD_FIELD);
  EXPECT_EQ(report.index, 0U);
  ASSERT_EQ(nearkv_cuda_queue_resume(gpu_, queue_, nullptr), NKV_STATUS_OK) << error();

  const Work good = work_of(2, 4, 30);
  ASSERT_EQ(submit(good), NKV_STATUS_OK);
  EXPECT_EQ(wait(2)[0].tag, 3);
  EXPECT_EQ(state().status, NKV_STATUS_OK);
  expect_results(good);
}

TEST_F(NearTest, WhatWasInFlightMayBeWaitedForAfterTheQueueGoesOn) {
  ASSERT_EQ(submit(bad_work()), NKV_STATUS_OK);
  const Work good = work_of(2, 4, 20);
  ASSERT_EQ(submit(good), NKV_STATUS_OK);
  (void)wait(1);
  ASSERT_EQ(nearkv_cuda_queue_resume(gpu_, queue_, nullptr), NKV_STATUS_OK) << error();
  EXPECT_EQ(wait(2)[0].tag, 1);
  EXPECT_EQ(state().status, NKV_STATUS_OK);
  expect_results(good);
}

TEST_F(NearTest, ATimeoutIsToldBeforeAnEarlierCommandsFailure) {
  ASSERT_EQ(submit(bad_work()), NKV_STATUS_OK);
  (void)wait(2, kSecond / 5);  // The second was never submitted.
  EXPECT_EQ(state().status, NKV_STATUS_TIMEOUT);
  EXPECT_EQ(state().index, 1U);
  EXPECT_EQ(nearkv_cuda_queue_resume(gpu_, queue_, nullptr), NKV_STATUS_BAD_ARGUMENT);
}

TEST_F(NearTest, ATimeoutAfterAFailureIsToldToo) {
  ASSERT_EQ(submit(bad_work()), NKV_STATUS_OK);
  (void)wait(1);
  ASSERT_EQ(state().status, NKV_STATUS_BAD_FIELD);
  ASSERT_EQ(nearkv_cuda_queue_resume(gpu_, queue_, nullptr), NKV_STATUS_OK) << error();
  bench_.device().write_csr(NKV_REG_QUEUE_CONTROL(options_.queue.index), 0);
  ASSERT_EQ(submit(work_of(1)), NKV_STATUS_OK);
  Work outside = work_of(1);
  outside.commands[0].query = std::uint64_t{1} << 40;
  outside.submission = submission_of(outside);
  ASSERT_EQ(submit(outside), NKV_STATUS_OK);
  EXPECT_EQ(state().status, NKV_STATUS_ADDRESS_FAULT);
  (void)wait(1, kSecond / 100);
  EXPECT_EQ(state().status, NKV_STATUS_TIMEOUT);
  EXPECT_EQ(nearkv_cuda_queue_resume(gpu_, queue_, nullptr), NKV_STATUS_BAD_ARGUMENT);
}

TEST_F(NearTest, ADeviceThatDoesNotAnswerIsATimeout) {
  bench_.device().write_csr(NKV_REG_QUEUE_CONTROL(options_.queue.index), 0);
  ASSERT_EQ(submit(work_of(1)), NKV_STATUS_OK);
  (void)wait(1, kSecond / 100);
  EXPECT_EQ(state().status, NKV_STATUS_TIMEOUT);
  EXPECT_EQ(nearkv_cuda_queue_resume(gpu_, queue_, nullptr), NKV_STATUS_BAD_ARGUMENT);
  close();
  open();
  const Work work = work_of(2);
  ASSERT_EQ(submit(work), NKV_STATUS_OK);
  (void)wait(2);
  EXPECT_EQ(state().status, NKV_STATUS_OK);
  expect_results(work);
}

TEST_F(NearTest, NothingIsWrittenOutsideTheWindowOrOffItsGrain) {
  for (const std::uint64_t place : {bench_.window().size() - 16, std::uint64_t{1} << 40}) {
    Work work = work_of(2);
    work.commands[1].query = place;
    work.submission = submission_of(work);
    ASSERT_EQ(submit(work), NKV_STATUS_OK);
    EXPECT_EQ(state().status, NKV_STATUS_ADDRESS_FAULT);
    EXPECT_EQ(state().index, 1U);
    ASSERT_EQ(nearkv_cuda_queue_resume(gpu_, queue_, nullptr), NKV_STATUS_OK);
  }
  Work work = work_of(1);
  work.commands[0].query += 4;
  work.submission = submission_of(work);
  ASSERT_EQ(submit(work), NKV_STATUS_OK);
  EXPECT_EQ(state().status, NKV_STATUS_BAD_FIELD);
}

TEST_F(NearTest, ARingThatIsFullTakesNoMore) {
  ASSERT_EQ(submit(work_of(10, 1)), NKV_STATUS_OK);
  ASSERT_EQ(submit(work_of(7, 1)), NKV_STATUS_OK);
  EXPECT_EQ(state().status, NKV_STATUS_QUEUE_FULL);
  ASSERT_EQ(nearkv_cuda_queue_resume(gpu_, queue_, nullptr), NKV_STATUS_OK);
  EXPECT_EQ(wait(10)[9].tag, 9);
  EXPECT_EQ(state().status, NKV_STATUS_OK);
}

TEST_F(NearTest, AKernelThatStaysServesWhoeverAsks) {
  Work work = work_of(2);
  const std::span<nearkv_cuda_mailbox> mailbox = room<nearkv_cuda_mailbox>(1);
  mailbox[0] = {};
  const std::span<nkv_completion> taken = room<nkv_completion>(2);
  // Emulated, a launch returns when the kernel ends.
  std::jthread kernel([&] {
    EXPECT_EQ(nearkv_cuda_queue_serve(gpu_, queue_, &work.submission, mailbox.data(), 20 * kSecond,
                                      60 * kSecond, taken.data(), nullptr),
              NKV_STATUS_OK)
        << error();
  });
  std::atomic_ref asked(mailbox[0].asked);
  std::atomic_ref done(mailbox[0].done);
  auto* const queries = static_cast<std::uint16_t*>(const_cast<void*>(work.submission.queries));
  for (std::uint32_t turn = 1; turn <= 3; ++turn) {
    for (std::size_t i = 0; i < work.queries.size(); ++i) {
      work.queries[i] ^= static_cast<std::uint16_t>((turn & 1) << 15);
      queries[i] = work.queries[i];
    }
    asked.store(turn);
    ASSERT_TRUE(eventually([&] { return done.load() == turn; })) << turn;
    EXPECT_EQ(taken[1].tag, 2 * turn - 1);
    expect_results(work);
  }
  std::atomic_ref(mailbox[0].stop).store(1);
  kernel.join();
  EXPECT_EQ(state().status, NKV_STATUS_OK);
}

TEST_F(NearTest, AKernelThatStaysLeavesWhenNobodyAsksAndWhenACommandFails) {
  Work work = work_of(1);
  const std::span<nearkv_cuda_mailbox> mailbox = room<nearkv_cuda_mailbox>(1);
  mailbox[0] = {};
  const std::span<nkv_completion> taken = room<nkv_completion>(1);
  const auto serve = [&] {
    ASSERT_EQ(nearkv_cuda_queue_serve(gpu_, queue_, &work.submission, mailbox.data(), kSecond,
                                      kSecond / 100, taken.data(), nullptr),
              NKV_STATUS_OK)
        << error();
    synchronize();
  };
  serve();
  EXPECT_EQ(mailbox[0].done, 0U);
  work.commands[0].top_k = NKV_MAX_TOP_K + 1;
  work.submission = submission_of(work);
  mailbox[0].asked = 1;
  serve();
  EXPECT_EQ(mailbox[0].done, 1U);
  EXPECT_EQ(state().status, NKV_STATUS_BAD_FIELD);
}

TEST_F(NearTest, AKernelThatStaysTakesNobodyElsesCompletions) {
  const Work others = work_of(10, 1);
  ASSERT_EQ(submit(others), NKV_STATUS_OK);
  const Work work = work_of(7, 1);
  const std::span<nearkv_cuda_mailbox> mailbox = room<nearkv_cuda_mailbox>(1);
  mailbox[0] = {1, 0, 0};
  ASSERT_EQ(nearkv_cuda_queue_serve(gpu_, queue_, &work.submission, mailbox.data(), kSecond,
                                    kSecond, room<nkv_completion>(7).data(), nullptr),
            NKV_STATUS_OK)
      << error();
  EXPECT_EQ(state().status, NKV_STATUS_QUEUE_FULL);
  EXPECT_EQ(mailbox[0].done, 1U);
  ASSERT_EQ(nearkv_cuda_queue_resume(gpu_, queue_, nullptr), NKV_STATUS_OK) << error();
  EXPECT_EQ(wait(10)[9].tag, 9);
  EXPECT_EQ(state().status, NKV_STATUS_OK);
}

TEST_F(NearTest, RefusesWhatIsNoQueueAndNoSubmission) {
  std::byte* const memory = bench_.device().memory().data();
  const nearkv_cuda_queue_places good{memory, 1 << 20, memory, memory, memory, kEntries};
  const auto refused = [&](const std::function<void(nearkv_cuda_queue_places*)>& spoil) {
    nearkv_cuda_queue_places places = good;
    spoil(&places);
    nearkv_cuda_queue* other = nullptr;
    EXPECT_EQ(nearkv_cuda_queue_open(gpu_, &places, &other), NKV_STATUS_BAD_ARGUMENT);
    EXPECT_EQ(other, nullptr);
  };
  using Places = nearkv_cuda_queue_places;
  for (const std::uint32_t entries : {0U, 8U, 24U, 8192U}) {
    refused([&](Places* p) { p->entries = entries; });
  }
  refused([](Places* p) { p->submissions = nullptr; });
  refused([](Places* p) { p->completions = static_cast<std::byte*>(p->completions) + 16; });
  refused([](Places* p) { p->doorbell = static_cast<std::byte*>(p->doorbell) + 2; });

  const Work work = work_of(1);
  const auto refused_work = [&](const std::function<void(nearkv_cuda_submission*)>& spoil) {
    nearkv_cuda_submission submission = work.submission;
    spoil(&submission);
    EXPECT_EQ(nearkv_cuda_queue_submit(gpu_, queue_, &submission, nullptr),
              NKV_STATUS_BAD_ARGUMENT);
  };
  using Submission = nearkv_cuda_submission;
  refused_work([](Submission* s) { s->count = kEntries + 1; });
  refused_work([](Submission* s) { s->query_bytes = 40; });
  refused_work([](Submission* s) { s->queries = nullptr; });
  nkv_completion taken{};
  EXPECT_EQ(nearkv_cuda_queue_wait(gpu_, queue_, kEntries + 1, kSecond, &taken, nullptr),
            NKV_STATUS_BAD_ARGUMENT);
  EXPECT_EQ(nearkv_cuda_queue_wait(gpu_, queue_, 1, kSecond, nullptr, nullptr),
            NKV_STATUS_BAD_ARGUMENT);
}

}  // namespace
}  // namespace nearkv::test
