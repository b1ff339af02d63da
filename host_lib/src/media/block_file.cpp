#include "media/block_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "edge.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kTransferBytes = std::size_t{1} << 20;
constexpr unsigned kMostStalls = 3;

/// The first failure of a request is the one that is told.
void fail(BlockRequest* request, int system_error) {
  if (request->status != Status::kOk) return;
  request->status = block_status(system_error);
  request->system_error = system_error;
}

}  // namespace

Status BlockFile::check(std::span<const BlockRequest> requests) {
  for (const BlockRequest& request : requests) {
    if (request.operation != BlockOperation::kSync &&
        is_aligned(request.offset_bytes, kBlockBytes) &&
        is_aligned(request.memory.size(), kBlockBytes) && request.offset_bytes <= bytes_ &&
        request.memory.size() <= bytes_ - request.offset_bytes) {
      continue;
    }
    last_error_ = describe(request) + ": not whole blocks of the file";
    return Status::kBadArgument;
  }
  return Status::kOk;
}

Status BlockFile::run(std::span<BlockRequest> requests) {
  return at_edge([&] {
    const Status status = check(requests);
    return status == Status::kOk ? run_checked(requests) : status;
  });
}

Status BlockFile::sync() {
  return at_edge([&] {
    BlockRequest request{.operation = BlockOperation::kSync, .memory = {}};
    return run_checked({&request, 1});
  });
}

std::size_t BlockFile::in_flight() {
  pump(nullptr, Clock::now());
  return busy_slots();
}

Status BlockFile::run_checked(std::span<BlockRequest> requests) {
  for (BlockRequest& request : requests) {
    request.status = Status::kOk;
    request.system_error = 0;
  }
  Batch batch{.requests = requests};
  try {
    pump(&batch, Clock::now() + timeout_);
    if (!batch.done()) {
      stop(&batch);
      pump(&batch, Clock::now() + timeout_ / 10);
    }
  } catch (...) {
    stop(&batch);
    leave(&batch);
    throw;
  }
  leave(&batch);
  for (const BlockRequest& request : requests) {
    if (request.status == Status::kOk) continue;
    last_error_ = describe(request) + ": " + std::strerror(request.system_error);
    return request.status;
  }
  return Status::kOk;
}

/// Moves a batch on until it is done, or nothing is in flight if it is null, or the time has come.
void BlockFile::pump(Batch* batch, Clock::time_point deadline) {
  std::array<BlockResult, 64> results;
  while (true) {
    if (batch != nullptr) start_pieces(batch);
    if (batch != nullptr ? batch->done() : busy_slots() == 0) return;
    const auto left = std::max<std::chrono::nanoseconds>(deadline - Clock::now(),
                                                         std::chrono::nanoseconds::zero());
    const std::size_t count = engine_->reap(results, left);
    for (const BlockResult& result : std::span(results).first(count)) finish(result, batch);
    if (left.count() == 0) return;
  }
}

void BlockFile::start_pieces(Batch* batch) {
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].busy) continue;
    // Past what failed, and what there is nothing to do for.
    const auto wanted = [&](const BlockRequest& request) {
      return request.status == Status::kOk && (request.operation == BlockOperation::kSync ||
                                               batch->next_bytes < request.memory.size());
    };
    while (batch->next < batch->requests.size() && !wanted(batch->requests[batch->next])) {
      ++batch->next;
      batch->next_bytes = 0;
    }
    if (batch->next == batch->requests.size()) return;
    const BlockRequest& request = batch->requests[batch->next];
    Slot piece;
    piece.request = batch->next;
    piece.operation = request.operation;
    std::span<std::byte> rest = request.memory.subspan(batch->next_bytes);
    piece.bounced =
        direct_ && !is_aligned(reinterpret_cast<std::uintptr_t>(rest.data()), memory_alignment_);
    piece.memory = rest.first(std::min(rest.size(), piece.bounced ? kBounceBytes : kTransferBytes));
    piece.offset_bytes = request.offset_bytes + batch->next_bytes;
    slots_[slot] = piece;
    start(slot);
    ++batch->running;
    batch->next_bytes += piece.memory.size();
    if (batch->next_bytes == request.memory.size()) {
      ++batch->next;
      batch->next_bytes = 0;
    }
  }
}

/// What is left of a slot's piece.
void BlockFile::start(std::size_t slot) {
  Slot& piece = slots_[slot];
  BlockTransfer transfer{.id = static_cast<std::uint32_t>(slot),
                         .operation = piece.operation,
                         .offset_bytes = piece.offset_bytes + piece.done_bytes,
                         .memory = piece.memory.subspan(piece.done_bytes)};
  if (piece.bounced) {
    const std::span<std::byte> buffer = bounce_of(slot).first(transfer.memory.size());
    if (piece.operation == BlockOperation::kWrite)
      std::ranges::copy(transfer.memory, buffer.data());
    transfer.memory = buffer;
    transfer.bounce = static_cast<int>(slot);
  }
  piece.busy = false;
  engine_->start(transfer);
  piece.busy = true;
}

void BlockFile::finish(const BlockResult& result, Batch* batch) {
  Slot& slot = slots_[result.id];
  if (slot.request == kNoRequest) {
    slot.busy = false;
    return;
  }
  BlockRequest& request = batch->requests[slot.request];
  if (advance(&slot, result.id, result.bytes, &request)) {
    if (!batch->stopping) {
      start(result.id);
      return;
    }
    fail(&request, ETIMEDOUT);
  }
  slot.busy = false;
  --batch->running;
}

/// Takes a result into account; whether the slot has more to do.
bool BlockFile::advance(Slot* slot, std::size_t index, std::int64_t bytes, BlockRequest* request) {
  if (bytes == -EAGAIN || bytes == -EINTR) return true;
  if (bytes < 0) {
    fail(request, static_cast<int>(-bytes));
    return false;
  }
  if (slot->operation == BlockOperation::kSync) return false;
  // Parts of blocks are done again: past the cache, nothing smaller can be resumed.
  const std::size_t rest = slot->memory.size() - slot->done_bytes;
  const std::size_t whole =
      std::min(static_cast<std::size_t>(bytes) / kBlockBytes * kBlockBytes, rest);
  if (slot->bounced && slot->operation == BlockOperation::kRead) {
    std::ranges::copy(bounce_of(index).first(whole), slot->memory.data() + slot->done_bytes);
  }
  slot->done_bytes += whole;
  slot->stalls = whole == 0 ? slot->stalls + 1 : 0;
  if (slot->done_bytes == slot->memory.size()) return false;
  if (slot->stalls < kMostStalls) return true;
  fail(request, EIO);  // the file ends here, whatever it said
  return false;
}

/// Gives up what has not been started, and asks the rest to end.
void BlockFile::stop(Batch* batch) {
  for (BlockRequest& request : batch->requests.subspan(batch->next)) fail(&request, ETIMEDOUT);
  batch->next = batch->requests.size();
  batch->stopping = true;
  engine_->cancel_all();
}

/// Forgets a batch: what of it still runs belongs to nobody.
void BlockFile::leave(Batch* batch) {
  for (Slot& slot : slots_) {
    if (!slot.busy || slot.request == kNoRequest) continue;
    fail(&batch->requests[slot.request], ETIMEDOUT);
    slot.request = kNoRequest;
  }
}

std::size_t BlockFile::busy_slots() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(slots_, [](const Slot& slot) { return slot.busy; }));
}

std::span<std::byte> BlockFile::bounce_of(std::size_t slot) const {
  return bounce_.subspan(slot * kBounceBytes, kBounceBytes);
}

std::string BlockFile::describe(const BlockRequest& request) const {
  if (request.operation == BlockOperation::kSync) return path_ + ": making writes durable";
  return path_ + (request.operation == BlockOperation::kRead ? ": reading " : ": writing ") +
         std::to_string(request.memory.size()) + " bytes at " +
         std::to_string(request.offset_bytes);
}

}  // namespace nearkv
