#include "daemon/client/daemon_client.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "deadline.hpp"
#include "object/object_jobs.hpp"
#include "round_up.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kMostJobs = 4096;      // Then submitters have to drain, as in this process.
constexpr std::size_t kFlightsOfCalls = 16;  // That pieces of jobs do not take.
constexpr std::uint64_t kShareOfCalls = 8;   // One part in so many of the requests' bytes.
constexpr std::uint64_t kIndexMask = 0xFFFFFFFF;  // Of a tag: which flight it is.

void signal_event(int fd) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(fd, &one, sizeof(one));
}

DaemonClient::Clock::time_point deadline_of(std::chrono::nanoseconds timeout) {
  return DaemonClient::Clock::now() + std::min<std::chrono::nanoseconds>(timeout, kForever);
}

}  // namespace

DaemonClient::Flight* DaemonClient::take_flight(std::uint64_t request_bytes,
                                                std::uint64_t result_bytes,
                                                std::uint64_t carried_bytes) {
  if (free_flights_.empty()) return nullptr;
  const std::uint64_t whole_request = round_up(request_bytes, sizeof(std::uint64_t));
  const std::uint64_t bytes = whole_request + round_up(result_bytes, sizeof(std::uint64_t));
  const auto request_at = requests_.take(bytes);
  if (!request_at) return nullptr;
  const auto carried_at = memory_->carrier().take(carried_bytes);
  if (!carried_at) {
    requests_.give_back(*request_at, bytes);
    return nullptr;
  }
  Flight& flight = flights_[free_flights_.back()];
  flight = Flight();
  flight.tag = next_tag_++ << 32 | free_flights_.back();
  free_flights_.pop_back();
  flight.request_at = *request_at;
  flight.request_bytes = bytes;
  flight.result_at = *request_at + whole_request;
  flight.result_bytes = result_bytes;
  flight.carried_at = *carried_at;
  return &flight;
}

void DaemonClient::end_flight(Flight* flight) {
  requests_.give_back(flight->request_at, flight->request_bytes);
  memory_->carrier().give_back(flight->carried_at, flight->piece.carried_bytes);
  free_flights_.push_back(static_cast<std::uint32_t>(flight - flights_.data()));
  flight->tag = 0;
}

void DaemonClient::send(Flight* flight, nkv_daemon_submission* submission) {
  flight->sent = Clock::now();
  submission->tag = flight->tag;
  submission->request_at = static_cast<std::uint32_t>(flight->request_at);
  submission->request_bytes = static_cast<std::uint32_t>(flight->result_at - flight->request_at);
  submission->result_at = static_cast<std::uint32_t>(flight->result_at);
  submission->result_bytes = static_cast<std::uint32_t>(flight->result_bytes);
  connection_->submit(*submission);
}

/// Calls must not wait until all jobs have gone out. What fits in no other way goes alone.
bool DaemonClient::leaves_room(const Piece& piece) const {
  if (free_flights_.size() == flights_.size()) return true;
  const std::uint64_t bytes = piece.request_bytes + piece.result_bytes;
  return free_flights_.size() > kFlightsOfCalls &&
         requests_.free_bytes() >= bytes + requests_.bytes() / kShareOfCalls;
}

bool DaemonClient::send_piece(ClientJob* job) {
  Piece piece = plan_piece(job->job, job->next, *memory_);
  const auto space = namespaces_.find(job->job.namespace_number);
  const bool possible = space != namespaces_.end() &&
                        piece.request_bytes + piece.result_bytes <= requests_.bytes() &&
                        piece.carried_bytes <= memory_->carrier().bytes();
  if (!possible) {
    // Closed meanwhile, or one item alone that is larger than all the room there is.
    Status& status = job->result.items[job->next];
    const bool carries = piece.carried_bytes > memory_->carrier().bytes();
    status = carries ? Status::kWindowTooSmall : Status::kBadArgument;
    if (space == namespaces_.end()) status = Status::kNotFound;
    ++job->next;
    advance(job, 1);
    return true;
  }
  if (!leaves_room(piece)) return false;
  Flight* const flight = take_flight(piece.request_bytes, piece.result_bytes, piece.carried_bytes);
  if (flight == nullptr) return false;
  flight->job = job;
  flight->piece = piece;
  nkv_daemon_submission submission{};
  write_piece(job->job, piece, *memory_,
              connection_->window().requests.subspan(flight->request_at, piece.request_bytes),
              memory_->carried(flight->carried_at, piece.carried_bytes), flight->carried_at,
              &submission);
  submission.number = space->second.number;
  if (job->owned) submission.flags |= NKV_DAEMON_FLAG_NOTIFY;
  job->next += piece.count;
  send(flight, &submission);
  return true;
}

void DaemonClient::send_cancels() {
  while (!cancels_.empty()) {
    const std::uint64_t tag = cancels_.front();
    if (flights_[tag & kIndexMask].tag == tag) {
      Flight* const flight = take_flight(0, 0, 0);
      if (flight == nullptr) return;
      nkv_daemon_submission submission{};
      submission.operation = NKV_DAEMON_OPERATION_CANCEL;
      submission.argument = tag;
      send(flight, &submission);  // Nobody waits for its answer: the daemon may be stopped.
    }
    cancels_.pop_front();
  }
}

void DaemonClient::send_pieces() {
  send_cancels();
  while (!unsent_.empty()) {
    ClientJob* const job = unsent_.front();
    while (job->next < job->result.items.size()) {
      if (!send_piece(job)) return;
    }
    unsent_.pop_front();
  }
}

void DaemonClient::advance(ClientJob* job, std::size_t items) {
  job->over += items;
  if (!job->is_over() || !job->owned) return;
  done_.push_back(job->result.id);
  signal_event(ready_.get());
}

void DaemonClient::fail_rest(ClientJob* job, Status status) {
  const std::size_t left = job->result.items.size() - job->next;
  if (left == 0) return;
  std::fill(job->result.items.end() - static_cast<std::ptrdiff_t>(left), job->result.items.end(),
            status);
  job->next = job->result.items.size();
  std::erase(unsent_, job);
  advance(job, left);
}

void DaemonClient::take_completions() {
  nkv_daemon_completion completion;
  bool any = false;
  while (connection_ && connection_->take(&completion)) {
    const std::uint64_t index = completion.tag & kIndexMask;
    if (index < flights_.size() && flights_[index].tag == completion.tag) {
      land(&flights_[index], completion);
    }
    any = true;
  }
  if (connection_ && connection_->take_late_replies()) any = true;
  if (!any) return;
  heard_ = Clock::now();
  expects_answers_ = true;
  send_pieces();
}

void DaemonClient::land(Flight* flight, const nkv_daemon_completion& completion) {
  const auto status = static_cast<Status>(completion.status);
  const std::span<const std::byte> result =
      connection_->window().requests.subspan(flight->result_at, flight->result_bytes);
  if (flight->reply != nullptr) {
    Reply& reply = *flight->reply;
    reply.status = status;
    reply.value = completion.value;
    reply.count = completion.count;
    reply.result.assign(result.begin(), result.end());
    flight->is_over = true;
    return;
  }
  ClientJob* const job = flight->job;
  const Piece piece = flight->piece;
  if (job == nullptr) {
    end_flight(flight);
    return;
  }
  if (status == Status::kOk) {
    read_piece(job->job, piece, *memory_, result,
               memory_->carried(flight->carried_at, piece.carried_bytes), &job->result);
  } else {
    std::fill_n(job->result.items.begin() + static_cast<std::ptrdiff_t>(piece.first), piece.count,
                status);
  }
  end_flight(flight);
  advance(job, piece.count);
}

template <typename Over>
Status DaemonClient::wait_until(Lock& lock, Clock::time_point deadline, Over over) {
  while (true) {
    take_completions();
    if (over()) return Status::kOk;
    if (!connection_) return Status::kNoDaemon;
    if (looking_) {
      if (changed_.wait_until(lock, deadline) == std::cv_status::timeout && !over()) {
        return Status::kTimeout;
      }
      continue;
    }
    looking_ = true;
    const std::shared_ptr<Connection> connection = connection_;
    const std::uint32_t head = connection->head();
    lock.unlock();
    const Status status = connection->await(head, deadline);
    lock.lock();
    looking_ = false;
    take_completions();
    if (status == Status::kNoDaemon && connection == connection_) lose_connection();
    changed_.notify_all();
    if (status == Status::kTimeout && !over()) return status;
  }
}

Status DaemonClient::check(const Job& job) const {
  if (!namespaces_.contains(job.namespace_number)) return Status::kBadArgument;
  if (job.parts > NKV_MAX_OBJECT_PARTS) return Status::kBadArgument;
  return check_job(job);
}

Status DaemonClient::submit(const Job& job, JobId* id) {
  auto owned = std::make_unique<OwnedJob>(job);
  Lock lock(mutex_);
  Status status = check(job);
  if (status == Status::kOk) status = ensure_connected(lock);
  if (status != Status::kOk) return status;
  if (jobs_.size() >= kMostJobs) return Status::kQueueFull;
  auto made = std::make_unique<ClientJob>(owned->job());
  made->owned = std::move(owned);
  ClientJob* const raw = made.get();
  *id = raw->result.id = next_job_++;
  jobs_.emplace(*id, std::move(made));
  if (raw->is_over()) {
    advance(raw, 0);
    return Status::kOk;
  }
  unsent_.push_back(raw);
  take_completions();
  send_pieces();
  return Status::kOk;
}

/// What is still known of a job on the stack when its caller leaves: nothing, unless memory ran out
/// on the way. The daemon's answers to it then find nobody.
struct DaemonClient::Abandon {
  DaemonClient* client;
  ClientJob* job;

  Abandon(DaemonClient* of, ClientJob* abandoned) : client(of), job(abandoned) {}
  Abandon(const Abandon&) = delete;
  Abandon& operator=(const Abandon&) = delete;
  ~Abandon() {
    if (job->is_over()) return;
    std::erase(client->unsent_, job);
    for (Flight& flight : client->flights_) {
      if (flight.tag != 0 && flight.job == job) flight.job = nullptr;
    }
  }
};

Status DaemonClient::run(const Job& job, JobResult* result) {
  Lock lock(mutex_);
  Status status = check(job);
  if (status == Status::kOk) status = ensure_connected(lock);
  if (status != Status::kOk) return status;
  ClientJob own(job);
  const Abandon abandon{this, &own};
  const auto is_over = [&] { return own.is_over(); };
  if (!own.is_over()) {
    take_completions();
    unsent_.push_back(&own);
    if (expects_answers_) {
      send_pieces();
    } else {
      fail_rest(&own, Status::kTimeout);
    }
    // Over it is in any case: done, aborted with the connection, or given up with a silent daemon.
    constexpr int kLooks = 8;
    const auto pause = options_.answer_timeout / kLooks;
    while (wait_until(lock, Clock::now() + pause, is_over) == Status::kTimeout) {
      give_up_unanswered(&own);
    }
  }
  *result = std::move(own.result);
  return Status::kOk;
}

std::vector<JobResult> DaemonClient::drain() {
  Lock lock(mutex_);
  if (connection_) {
    // Whoever sleeps for the ring has to be woken by what is there, and clears it himself.
    if (!looking_) connection_->clear();
    const bool alive = connection_->is_alive();
    take_completions();
    if (!alive) {
      lose_connection();
      changed_.notify_all();
    }
  }
  std::uint64_t count = 0;
  [[maybe_unused]] const auto read = ::read(ready_.get(), &count, sizeof(count));
  std::vector<JobResult> results;
  for (const JobId id : done_) {
    const auto found = jobs_.find(id);
    results.push_back(std::move(found->second->result));
    jobs_.erase(found);
  }
  done_.clear();
  return results;
}

Status DaemonClient::wait(JobId id, std::chrono::nanoseconds timeout, JobResult* result) {
  Lock lock(mutex_);
  const auto is_known = [&] { return jobs_.contains(id); };
  const Status status = wait_until(lock, deadline_of(timeout), [&] {
    const auto found = jobs_.find(id);
    return found == jobs_.end() || found->second->is_over();
  });
  if (!is_known()) return Status::kNotFound;
  if (status == Status::kTimeout) return status;
  const auto found = jobs_.find(id);
  *result = std::move(found->second->result);
  std::erase(done_, id);
  jobs_.erase(found);
  return Status::kOk;
}

Status DaemonClient::cancel(JobId id) {
  Lock lock(mutex_);
  take_completions();
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || found->second->is_over()) return Status::kNotFound;
  ClientJob* const job = found->second.get();
  fail_rest(job, Status::kCancelled);
  for (Flight& flight : flights_) {
    if (flight.tag == 0 || flight.job != job) continue;
    if (is_unanswered(flight) && !flight.piece.has_regions) {
      give_up(&flight, Status::kTimeout);
    } else {
      cancels_.push_back(flight.tag);
    }
  }
  send_pieces();
  changed_.notify_all();
  return Status::kOk;
}

bool DaemonClient::is_unanswered(const Flight& flight) const {
  return Clock::now() - std::max(flight.sent, heard_) > options_.answer_timeout;
}

/// What a silent daemon has of a job, but for what it may touch yet, and what it cannot be sent.
void DaemonClient::give_up_unanswered(ClientJob* job) {
  bool is_silent = false;
  for (Flight& flight : flights_) {
    if (flight.tag == 0 || !is_unanswered(flight)) continue;
    is_silent = true;
    if (flight.job == job && !flight.piece.has_regions) give_up(&flight, Status::kTimeout);
  }
  if (!is_silent) return;
  expects_answers_ = false;
  fail_rest(job, Status::kTimeout);
}

/// Its bytes are in the window, which stays the flight's: should the daemon go on, it harms nobody.
void DaemonClient::give_up(Flight* flight, Status status) {
  ClientJob* const job = std::exchange(flight->job, nullptr);
  std::fill_n(job->result.items.begin() + static_cast<std::ptrdiff_t>(flight->piece.first),
              flight->piece.count, status);
  advance(job, flight->piece.count);
}

bool DaemonClient::fits(std::size_t keys, std::uint64_t key_bytes) const {
  return keys * (sizeof(nkv_daemon_key) + 1) + key_bytes + 64 <= requests_.bytes() / 2;
}

Reply DaemonClient::call(const Call& wanted) {
  Lock lock(mutex_);
  Reply reply;
  constexpr int kAttempts = 2;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    reply = Reply();
    reply.status = ensure_connected(lock);
    if (reply.status != Status::kOk) return reply;
    take_completions();
    if (!expects_answers_) {
      reply.status = Status::kTimeout;
      return reply;
    }
    if (wanted.life != 0 && wanted.life != life_) {
      reply.status = Status::kNotFound;
      return reply;
    }
    Call call = wanted;
    if (!call.keys.empty()) {
      const auto found = namespaces_.find(call.number);
      if (found == namespaces_.end()) {
        reply.status = Status::kBadArgument;
        return reply;
      }
      call.number = found->second.number;
    }
    const std::uint64_t life = life_;
    reply = call_once(lock, call);
    reply.life = life;
    if (reply.status != Status::kNoDaemon) break;
  }
  return reply;
}

Reply DaemonClient::call_once(Lock& lock, const Call& call) {
  Reply reply;
  std::uint64_t request_bytes = call.head.size() + call.keys.size() * sizeof(nkv_daemon_key);
  for (const Key& key : call.keys) request_bytes += key.size();
  if (request_bytes + call.result_bytes + 2 * sizeof(std::uint64_t) > requests_.bytes()) {
    reply.status = Status::kBadArgument;
    return reply;
  }
  Flight* flight = nullptr;
  const Clock::time_point deadline =
      call.is_work ? Clock::time_point::max() : Clock::now() + options_.answer_timeout;
  reply.status = wait_until(lock, deadline, [&] {
    flight = connection_ ? take_flight(request_bytes, call.result_bytes, 0) : nullptr;
    return flight != nullptr;
  });
  if (reply.status != Status::kOk) {
    expects_answers_ = reply.status != Status::kTimeout;
    return reply;
  }
  flight->reply = &reply;
  std::byte* const request = connection_->window().requests.data() + flight->request_at;
  if (!call.head.empty()) std::memcpy(request, call.head.data(), call.head.size());
  std::uint64_t key_at = call.head.size() + call.keys.size() * sizeof(nkv_daemon_key);
  for (std::size_t i = 0; i < call.keys.size(); ++i) {
    const nkv_daemon_key wire = {static_cast<std::uint32_t>(key_at),
                                 static_cast<std::uint32_t>(call.keys[i].size())};
    std::memcpy(request + i * sizeof(wire), &wire, sizeof(wire));
    if (!call.keys[i].empty()) {
      std::memcpy(request + key_at, call.keys[i].data(), call.keys[i].size());
    }
    key_at += call.keys[i].size();
  }
  nkv_daemon_submission submission{};
  submission.operation = call.operation;
  submission.number = call.number;
  submission.items = call.keys.empty() ? call.items : static_cast<std::uint32_t>(call.keys.size());
  submission.argument = call.argument;
  send(flight, &submission);
  const std::uint64_t tag = flight->tag;
  const auto is_over = [&] { return flight->tag != tag || flight->is_over; };
  if (wait_until(lock, deadline, is_over) == Status::kTimeout) {
    flight->reply = nullptr;  // Its answer will find nobody, and end the flight.
    expects_answers_ = false;
    reply.status = Status::kTimeout;
    return reply;
  }
  // A connection that was lost has ended all flights, and said so in the replies.
  if (flight->tag == tag) {
    end_flight(flight);
    send_pieces();
    changed_.notify_all();
  }
  return reply;
}

}  // namespace nearkv
