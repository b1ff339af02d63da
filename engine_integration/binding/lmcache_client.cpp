#include "lmcache_client.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <charconv>
#include <span>
#include <utility>

namespace nb = nanobind;

namespace nearkv::python {
namespace {

using std::chrono::steady_clock;

constexpr int kHex = 16;
constexpr std::chrono::seconds kTick{1};
constexpr std::chrono::seconds kPatience{11};  // A daemon's client waits 10 s for an answer.

/// MODEL@RANK@GROUP@HASH[@SALT], in its own memory.
struct Name {
  std::string_view model;
  std::uint32_t rank = 0;
  std::uint32_t group = 0;
  std::string key;
  std::string_view salt;
};

bool parse_number(std::string_view text, std::uint32_t* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number, kHex);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse_hash(std::string_view text, std::string* bytes) {
  if (text.empty() || text.size() % 2 != 0) return false;
  for (std::size_t at = 0; at < text.size(); at += 2) {
    std::uint32_t byte = 0;
    if (!parse_number(text.substr(at, 2), &byte)) return false;
    bytes->push_back(static_cast<char>(byte));
  }
  return true;
}

bool parse(std::string_view text, Name* name) {
  std::vector<std::string_view> fields;
  std::size_t begin = 0;
  for (std::size_t at = text.find('@'); at != std::string_view::npos; at = text.find('@', begin)) {
    fields.push_back(text.substr(begin, at - begin));
    begin = at + 1;
  }
  fields.push_back(text.substr(begin));
  constexpr std::size_t kPlain = 4;
  if (fields.size() != kPlain && fields.size() != kPlain + 1) return false;
  name->model = fields[0];
  if (fields.size() > kPlain) name->salt = fields[kPlain];
  return parse_number(fields[1], &name->rank) && parse_number(fields[2], &name->group) &&
         parse_hash(fields[3], &name->key);
}

void watch(int events, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  ::epoll_ctl(events, EPOLL_CTL_ADD, fd, &event);
}

}  // namespace

LMCacheClient::LMCacheClient(std::unique_ptr<ObjectStore> store, Namespace common)
    : store_(std::move(store)),
      common_(std::move(common)),
      events_(::epoll_create1(EPOLL_CLOEXEC)),
      over_early_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      ticks_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
  watch(events_, store_->event_fd());
  watch(events_, over_early_);
  watch(events_, ticks_);
}

LMCacheClient::~LMCacheClient() {
  for (const auto& [id, part] : jobs_) (void)store_->cancel(id);
  store_.reset();  // From here on nothing is copied to or from the memory of batches.
  ::close(events_);
  ::close(over_early_);
  ::close(ticks_);
  const nb::gil_scoped_acquire acquire;
  batches_.clear();
  over_.clear();
}

Status LMCacheClient::submit(JobKind kind, const std::vector<std::string>& strings,
                             std::vector<LentMemory>* memory, BatchId* id, std::string* reason) {
  struct Found {
    Status status = Status::kOk;
    Part part;
  };
  const std::scoped_lock lock(mutex_);
  std::map<std::string, Found> found;
  for (std::size_t place = 0; place < strings.size(); ++place) {
    Name name;
    if (!parse(strings[place], &name)) {
      *reason = "no key of LMCache's, MODEL@RANK@GROUP@HASH[@SALT]: " + strings[place];
      return Status::kBadArgument;
    }
    std::string known_as(name.model);
    known_as.append("@").append(name.salt).append("@");
    known_as += std::to_string(name.rank) + "@" + std::to_string(name.group);
    const auto [entry, is_new] = found.try_emplace(known_as);
    auto& [status, part] = entry->second;
    if (is_new) {
      Namespace space = common_;
      space.model = name.model;
      space.rank = name.rank;
      space.group = name.group;
      space.salt.append(1, '\0').append(name.salt);
      status = open(space, known_as, &part.namespace_number);
    }
    part.places.push_back(place);
    part.keys.push_back(std::move(name.key));
  }
  *id = next_++;
  Batch& batch = batches_[*id];
  batch.kind = kind;
  batch.completion.id = *id;
  batch.completion.items.resize(strings.size());
  batch.completion.memory = std::move(*memory);
  batch.parts_left = found.size() + 1;
  for (auto& [known_as, entry] : found) {
    auto& [status, part] = entry;
    part.batch = *id;
    if (status == Status::kOk) {
      waiting_.push_back(std::move(part));
      continue;
    }
    for (const std::size_t place : part.places) end_item(&batch, place, status, 0);
    end_part(*id);
  }
  send_waiting();
  end_part(*id);
  if (!over_.empty()) ::eventfd_write(over_early_, 1);
  return Status::kOk;
}

std::vector<LMCacheClient::Completion> LMCacheClient::drain() {
  const std::scoped_lock lock(mutex_);
  eventfd_t count = 0;
  (void)::eventfd_read(over_early_, &count);
  cancel_overdue();
  for (const JobResult& result : store_->drain()) {
    const Part part = std::move(jobs_.extract(result.id).mapped());
    Batch& batch = batches_.at(part.batch);
    for (std::size_t i = 0; i < part.places.size(); ++i) {
      end_item(&batch, part.places[i], result.items[i], result.object_bytes[i]);
    }
    end_part(part.batch);
  }
  send_waiting();
  if (jobs_.empty()) tick(std::chrono::seconds(0));
  return std::exchange(over_, {});
}

void LMCacheClient::cancel_overdue() {
  std::uint64_t ticks = 0;
  if (::read(ticks_, &ticks, sizeof(ticks)) < 0) return;
  const auto now = steady_clock::now();
  for (auto& [id, part] : jobs_) {
    if (now < part.due) continue;
    part.due = now + kPatience;
    (void)store_->cancel(id);
  }
}

/// 0: not any more.
void LMCacheClient::tick(std::chrono::seconds every) {
  itimerspec times{};
  times.it_value.tv_sec = times.it_interval.tv_sec = every.count();
  ::timerfd_settime(ticks_, 0, &times, nullptr);
}

Status LMCacheClient::open(const Namespace& name, const std::string& known_as,
                           std::uint32_t* number) {
  const auto known = namespaces_.find(known_as);
  if (known != namespaces_.end()) {
    *number = known->second;
    return Status::kOk;
  }
  const Status status = store_->open_namespace(name, number);
  if (status == Status::kOk) namespaces_.emplace(known_as, *number);
  return status;
}

void LMCacheClient::send_waiting() {
  while (!waiting_.empty() && send(&waiting_.front())) waiting_.pop_front();
}

/// False if the store's queue is full: it has room again when one of the jobs in it is drained.
bool LMCacheClient::send(Part* part) {
  Batch& batch = batches_.at(part->batch);
  std::vector<std::span<std::byte>> targets;
  std::vector<std::span<const std::byte>> sources;
  targets.reserve(part->keys.size());
  sources.reserve(part->keys.size());
  std::vector<ObjectItem> items(part->keys.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    items[i].key = std::as_bytes(std::span(part->keys[i]));
    if (batch.kind == JobKind::kGet) {
      targets.push_back(batch.completion.memory[part->places[i]].bytes());
      items[i].target = std::span(&targets.back(), 1);
    } else if (batch.kind == JobKind::kSet) {
      sources.push_back(batch.completion.memory[part->places[i]].bytes());
      items[i].source = std::span(&sources.back(), 1);
    }
  }
  Job job;
  job.kind = batch.kind;
  job.namespace_number = part->namespace_number;
  job.items = items;
  JobId id = 0;
  const Status status = store_->submit(job, &id);
  if (status == Status::kOk) {
    if (jobs_.empty()) tick(kTick);
    part->due = steady_clock::now() + kPatience;
    jobs_.emplace(id, std::move(*part));
    return true;
  }
  if (status == Status::kQueueFull && !jobs_.empty()) return false;
  for (const std::size_t place : part->places) end_item(&batch, place, status, 0);
  end_part(part->batch);
  return true;
}

void LMCacheClient::end_item(Batch* batch, std::size_t place, Status status,
                             std::size_t object_bytes) {
  const bool is_get = batch->kind == JobKind::kGet;
  const bool is_other_size =
      is_get && object_bytes != 0 && object_bytes != batch->completion.memory[place].bytes().size();
  const bool ok = status == Status::kOk && !is_other_size;
  batch->completion.items[place] = ok;
  if (ok || status == Status::kNotFound) return;
  ++batch->failed;
  if (batch->why.empty()) {
    batch->why = is_other_size ? "stored with another size" : std::string(message(status));
  }
}

void LMCacheClient::end_part(BatchId id) {
  const auto found = batches_.find(id);
  Batch& batch = found->second;
  if (--batch.parts_left != 0) return;
  Completion& over = batch.completion;
  over.ok = batch.failed == 0;
  if (!over.ok) {
    over.error = std::to_string(batch.failed) + " of " + std::to_string(over.items.size()) +
                 " objects: " + batch.why;
  }
  over_.push_back(std::move(over));
  batches_.erase(found);
}

}  // namespace nearkv::python
