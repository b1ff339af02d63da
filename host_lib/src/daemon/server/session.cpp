#include "daemon/server/session.hpp"

#include <algorithm>
#include <cstring>

#include "edge.hpp"

namespace nearkv {
namespace {

// A chunk is what a dead client's job may still cost, and how long an urgent call waits.
constexpr std::size_t kChunkItems = 64;
constexpr std::uint64_t kChunkBytes = 16 << 20;

constexpr std::size_t kCallsBetweenChunks = 64;
constexpr std::size_t kSpareJobs = 8;

std::uint64_t bytes_of_item(const ObjectItem& item) {
  std::uint64_t bytes = 0;
  for (const auto& segment : item.source) bytes += segment.size();
  for (const auto& segment : item.target) bytes += segment.size();
  return bytes;
}

Permission needed_by(JobKind kind) {
  switch (kind) {
    case JobKind::kSet:
    case JobKind::kSetParts:
      return kMayWrite;
    case JobKind::kErase:
      return kMayErase;
    default:
      return kMayRead;
  }
}

void add(std::atomic<std::uint64_t>& counter, std::uint64_t amount) {
  counter.fetch_add(amount, std::memory_order_relaxed);
}

}  // namespace

Session::Session(const SessionContext& context, std::vector<Grant> grants, ClientStatus* client,
                 const WindowView& window, Regions* regions)
    : context_(context),
      grants_(std::move(grants)),
      client_(client),
      window_(window),
      rings_(window),
      regions_(regions) {
  spare_.reserve(kSpareJobs);
  watcher_.sees_all = is_administrator();
}

Session::~Session() {
  (void)context_.events->watch(&watcher_, 0);
  for (const auto& [lease, deadline] : leases_) (void)context_.store->unpin(lease);
  for (const auto& [number, grant] : namespaces_) (void)context_.store->close_namespace(number);
}

bool Session::has_work() const { return !jobs_.empty() || rings_.has_submission(); }

bool Session::take_submission(nkv_daemon_submission* submission) {
  const DaemonRings::Taken taken = rings_.take(submission);
  if (taken == DaemonRings::Taken::kOverrun) {
    break_off("more requests in flight than its completion ring has entries");
  }
  return taken == DaemonRings::Taken::kOne;
}

Session::Step Session::step() {
  bool worked = false;
  nkv_daemon_submission submission;
  for (std::size_t i = 0; i < kCallsBetweenChunks && take_submission(&submission); ++i) {
    const Status status = at_edge([&] {
      handle(submission);
      return Status::kOk;
    });
    if (status != Status::kOk) complete(submission, {status});
    worked = true;
    if (!fault_.empty()) break;
  }
  if (!fault_.empty()) return Step::kBroken;
  if (!jobs_.empty()) {
    run_chunk();
    worked = true;
  }
  return worked ? Step::kWorked : Step::kIdle;
}

void Session::handle(const nkv_daemon_submission& submission) {
  add(client_->requests, 1);
  if (submission.operation <= NKV_DAEMON_OPERATION_SET_PARTS) {
    queue_job(submission);
    return;
  }
  if (!lies_in(window_.requests, submission)) {
    complete(submission, {Status::kBadArgument});
    return;
  }
  call_.submission = submission;
  copy_request(window_.requests, &call_);
  complete(submission, call(call_));
}

void Session::queue_job(const nkv_daemon_submission& submission) {
  if (!lies_in(window_.requests, submission)) {
    complete(submission, {Status::kBadArgument});
    return;
  }
  // Requests of a client that keeps to its area do not overlap; others would cost memory here.
  const std::uint64_t bytes = std::uint64_t{submission.request_bytes} + submission.result_bytes;
  if (queued_bytes_ + bytes > window_.requests.size()) {
    break_off("requests that overlap");
    return;
  }
  std::unique_ptr<QueuedJob> job;
  if (spare_.empty()) {
    job = std::make_unique<QueuedJob>();
  } else {
    job = std::move(spare_.back());
    spare_.pop_back();
  }
  job->request.submission = submission;
  copy_request(window_.requests, &job->request);
  Status status = parse_job(*regions_, job.get());
  if (status == Status::kOk) status = check(submission.number, needed_by(job->job.kind));
  if (status != Status::kOk) {
    complete(submission, {status});
    return;
  }
  job->next = 0;
  job->result.items.assign(submission.items, Status::kOk);
  job->result.object_bytes.assign(submission.items, 0);
  job->counters = namespaces_.at(submission.number).counters;
  job->begin = Clock::now();
  jobs_.push_back(std::move(job));
  queued_bytes_ += bytes;
  client_->queued_jobs.store(static_cast<std::uint32_t>(jobs_.size()), std::memory_order_relaxed);
}

void Session::run_chunk() {
  QueuedJob& job = *jobs_.front();
  std::size_t count = 0;
  std::uint64_t bytes = 0;
  while (job.next + count < job.items.size() && count < kChunkItems && bytes < kChunkBytes) {
    bytes += bytes_of_item(job.items[job.next + count]);
    ++count;
  }
  if (count != 0) {
    Job chunk = job.job;
    chunk.items = std::span(job.items).subspan(job.next, count);
    if (chunk.chain && job.next != 0) chunk.parent = job.items[job.next - 1].key;
    context_.copying->acquire();
    const Status status = context_.store->run(chunk, &chunk_);
    context_.copying->release();
    if (status != Status::kOk) {
      chunk_.items.assign(count, status);
      chunk_.object_bytes.assign(count, 0);
    }
    std::ranges::copy(chunk_.items,
                      job.result.items.begin() + static_cast<std::ptrdiff_t>(job.next));
    std::ranges::copy(chunk_.object_bytes,
                      job.result.object_bytes.begin() + static_cast<std::ptrdiff_t>(job.next));
    this->count(job, chunk_);
    job.next += count;
  }
  if (job.next == job.items.size()) finish_job(0);
}

void Session::count(const QueuedJob& job, const JobResult& chunk) {
  TenantCounters& counters = *job.counters;
  std::uint64_t done = 0;
  std::uint64_t done_bytes = 0;
  std::uint64_t missing = 0;
  for (std::size_t i = 0; i < chunk.items.size(); ++i) {
    missing += chunk.items[i] == Status::kNotFound ? 1 : 0;
    if (chunk.items[i] != Status::kOk) continue;
    ++done;
    done_bytes += job.job.kind == JobKind::kGet ? chunk.object_bytes[i]
                                                : bytes_of_item(job.items[job.next + i]);
  }
  if (job.job.kind == JobKind::kGet) {
    add(counters.hits, done);
    add(counters.get_bytes, done_bytes);
    add(counters.misses, missing);
  } else if (job.job.kind == JobKind::kSet || job.job.kind == JobKind::kSetParts) {
    if (job.job.kind == JobKind::kSet) add(counters.sets, done);
    add(counters.set_bytes, done_bytes);
  }
  add(client_->copied_bytes, done_bytes);
}

void Session::finish_job(std::size_t index) {
  const auto place = jobs_.begin() + static_cast<std::ptrdiff_t>(index);
  std::unique_ptr<QueuedJob> job = std::move(*place);
  jobs_.erase(place);
  client_->queued_jobs.store(static_cast<std::uint32_t>(jobs_.size()), std::memory_order_relaxed);
  const nkv_daemon_submission& submission = job->request.submission;
  queued_bytes_ -= std::uint64_t{submission.request_bytes} + submission.result_bytes;
  const std::size_t sizes_bytes = job->result.object_bytes.size() * sizeof(std::uint32_t);
  std::byte* const result = window_.requests.data() + submission.result_at;
  if (!job->result.items.empty()) {
    std::memcpy(result, job->result.object_bytes.data(), sizes_bytes);
    std::memcpy(result + sizes_bytes, job->result.items.data(), job->result.items.size());
  }
  context_.counters->jobs[static_cast<std::size_t>(job->job.kind)].add(Clock::now() - job->begin);
  complete(submission, {});
  if (spare_.size() < kSpareJobs) spare_.push_back(std::move(job));
}

void Session::complete(const nkv_daemon_submission& submission, const Answer& answer) {
  nkv_daemon_completion completion{};
  completion.status = static_cast<std::uint8_t>(answer.status);
  completion.count = answer.count;
  completion.tag = submission.tag;
  completion.value = answer.value;
  const bool notify = (submission.flags & NKV_DAEMON_FLAG_NOTIFY) != 0;
  wake_ = rings_.put(completion, notify) || wake_;
}

Status Session::check(std::uint32_t namespace_number, Permission permission) {
  const auto found = namespaces_.find(namespace_number);
  if (found == namespaces_.end()) return Status::kBadArgument;
  if ((found->second.permissions & permission) != 0) return Status::kOk;
  add(found->second.counters->denials, 1);
  return Status::kDenied;
}

bool Session::is_administrator() const {
  return std::ranges::any_of(
      grants_, [](const Grant& grant) { return (grant.permissions & kMayAdminister) != 0; });
}

Status Session::check_admin() {
  if (is_administrator()) return Status::kOk;
  add(grants_.front().counters->denials, 1);
  return Status::kDenied;
}

}  // namespace nearkv
