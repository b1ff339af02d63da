// What a pool in a file has acknowledged survives the process, killed at any moment.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <map>

#include "support/layer_rows.hpp"
#include "support/seed.hpp"
#include "support/temporary_file.hpp"

namespace nearkv::test {
namespace {

constexpr int kKills = 48;
constexpr std::uint64_t kSequences = 6;

/// One step of the child, told to the parent once the pool has said kOk.
struct Step {
  enum Kind : std::uint32_t { kCreate, kAppend, kFork, kDrop, kNothing };
  Kind kind = kCreate;
  std::uint32_t layer = 0;
  std::uint64_t sequence = 0;
  std::uint64_t parent = 0;
  std::uint32_t tokens = 0;  ///< kFork: shared; kAppend: before it.
  std::uint32_t seed = 0;    ///< kAppend: of the page's rows.
};

/// Seeds of the pages of each layer.
using Contents = std::map<std::uint64_t, std::array<std::vector<std::uint32_t>, kLayers>>;

void record(const Step& step, Contents* contents) {
  switch (step.kind) {
    case Step::kCreate:
      (*contents)[step.sequence] = {};
      break;
    case Step::kAppend:
      (*contents)[step.sequence][step.layer].push_back(step.seed);
      break;
    case Step::kFork: {
      auto copy = contents->at(step.parent);
      for (auto& pages : copy) pages.resize(step.tokens / NKV_PAGE_TOKENS);
      (*contents)[step.sequence] = copy;
      break;
    }
    case Step::kDrop:
      contents->erase(step.sequence);
      break;
    case Step::kNothing:
      break;
  }
}

Step random_step(const Contents& contents, Random& random) {
  Step step;
  step.sequence = pick(random, 1, kSequences);
  const auto found = contents.find(step.sequence);
  if (found == contents.end()) {
    step.parent = pick(random, 1, kSequences);
    const auto parent = contents.find(step.parent);
    if (random() % 2 == 0 && parent != contents.end()) {
      step.kind = Step::kFork;
      const std::size_t pages = std::min(parent->second[0].size(), parent->second[1].size());
      step.tokens = NKV_PAGE_TOKENS * pick(random, 0, static_cast<std::uint32_t>(pages));
    }
    return step;
  }
  step.layer = pick(random, 0, kLayers - 1);
  const std::size_t pages = found->second[step.layer].size();
  step.kind = pages >= 12 || random() % 16 == 0 ? Step::kDrop : Step::kAppend;
  step.tokens = static_cast<std::uint32_t>(pages * NKV_PAGE_TOKENS);
  step.seed = static_cast<std::uint32_t>(random() % 100000);
  return step;
}

Status run(Pool* pool, const Step& step) {
  switch (step.kind) {
    case Step::kCreate:
      return pool->create_sequence(step.sequence);
    case Step::kAppend:
      return append(pool, step.sequence, static_cast<std::uint16_t>(step.layer),
                    LayerRows(NKV_PAGE_TOKENS, step.seed), 0, NKV_PAGE_TOKENS);
    case Step::kFork:
      return pool->fork(step.parent, step.sequence, step.tokens);
    default:
      return pool->drop(step.sequence);
  }
}

std::unique_ptr<Pool> open_pool(const std::string& uri, bool create) {
  std::string reason;
  std::unique_ptr<Device> device;
  if (open_device(uri, &device, &reason) != Status::kOk) throw std::runtime_error(reason);
  std::unique_ptr<Pool> pool;
  const Status status = create ? Pool::create(std::move(device), small_pool(), &pool, &reason)
                               : Pool::open(std::move(device), small_pool(), &pool, &reason);
  if (status != Status::kOk) throw std::runtime_error(reason);
  return pool;
}

/// The child: works until it is killed. Each step is announced before it is begun, because it may
/// have taken effect when the acknowledgement no longer gets out.
[[noreturn]] void work(const std::string& uri, Contents contents, Random random, int pipe) {
  const std::unique_ptr<Pool> pool = open_pool(uri, false);
  while (true) {
    Step step = random_step(contents, random);
    if (::write(pipe, &step, sizeof(step)) != sizeof(step)) ::_exit(1);
    const Status status = run(pool.get(), step);
    // The number of a dropped sequence stays taken while it has forks.
    if (status == Status::kExists) step.kind = Step::kNothing;
    if (status != Status::kOk && status != Status::kExists) ::_exit(2);
    if (::write(pipe, &step, sizeof(step)) != sizeof(step)) ::_exit(1);
    record(step, &contents);
  }
}

std::vector<Step> read_all(int pipe) {
  std::vector<Step> steps;
  for (Step step; ::read(pipe, &step, sizeof(step)) == sizeof(step);) steps.push_back(step);
  return steps;
}

/// Every page of `contents` is there, bit for bit, and nothing else.
bool matches(Pool* pool, const Contents& contents, std::string* why) {
  for (std::uint64_t id = 1; id <= kSequences; ++id) {
    const auto sequence = contents.find(id);
    for (std::uint16_t layer = 0; layer < kLayers; ++layer) {
      std::uint32_t tokens = 0;
      const Status status = pool->tokens(id, layer, &tokens);
      *why = "sequence " + std::to_string(id) + ", layer " + std::to_string(layer);
      if (sequence == contents.end()) {
        if (status != Status::kNotFound) return false;
        continue;
      }
      const std::vector<std::uint32_t>& pages = sequence->second[layer];
      *why += ": " + std::to_string(tokens) + " tokens, not " +
              std::to_string(pages.size() * NKV_PAGE_TOKENS);
      if (status != Status::kOk || tokens != pages.size() * NKV_PAGE_TOKENS) return false;
      for (std::uint32_t page = 0; page < pages.size(); ++page) {
        if (holds(pool, id, layer, page * NKV_PAGE_TOKENS,
                  LayerRows(NKV_PAGE_TOKENS, pages[page]))) {
          continue;
        }
        *why = "page " + std::to_string(page) + " differs: " + pool->last_error();
        return false;
      }
    }
  }
  return true;
}

TEST(CrashTest, WhatWasAcknowledgedIsFoundAgain) {
  const TemporaryFile file("crash");
  const std::string uri = file.uri("16MiB");
  open_pool(uri, true).reset();
  Contents contents;
  std::size_t steps_survived = 0;
  for (int kill = 0; kill < kKills; ++kill) {
    SCOPED_TRACE(case_name(static_cast<std::uint64_t>(kill)));
    Random random = case_random(static_cast<std::uint64_t>(kill));
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(pipe[0]);
      work(uri, contents, random, pipe[1]);
    }
    ::close(pipe[1]);
    ::usleep(pick(random, 3000, 40000));
    ::kill(child, SIGKILL);
    const std::vector<Step> steps = read_all(pipe[0]);
    ::close(pipe[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << WEXITSTATUS(status);

    // Announced and acknowledged alternate; the last one may only have been announced.
    for (std::size_t i = 1; i < steps.size(); i += 2) record(steps[i], &contents);
    steps_survived += steps.size() / 2;
    const std::unique_ptr<Pool> pool = open_pool(uri, false);
    std::string why;
    if (!matches(pool.get(), contents, &why)) {
      ASSERT_EQ(steps.size() % 2, 1U) << why;
      record(steps.back(), &contents);
      std::string why_after;
      ASSERT_TRUE(matches(pool.get(), contents, &why_after))
          << "neither before (" << why << ") nor after (" << why_after << ") the last step";
    }
    // The pool accepts more work.
    const LayerRows more(NKV_PAGE_TOKENS, 7);
    ASSERT_EQ(pool->create_sequence(99), Status::kOk) << pool->last_error();
    ASSERT_EQ(append(pool.get(), 99, 0, more, 0, NKV_PAGE_TOKENS), Status::kOk)
        << pool->last_error();
    ASSERT_TRUE(holds(pool.get(), 99, 0, 0, more));
    ASSERT_EQ(pool->drop(99), Status::kOk);
  }
  EXPECT_GT(steps_survived, 100U) << "the child was killed before it did anything";
}

}  // namespace
}  // namespace nearkv::test
