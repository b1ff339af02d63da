// TRANSCODE: a sequence's pages move to slots of their new sizes, a run of them at a time.
#include <algorithm>
#include <cstring>

#include "pool/pool_impl.hpp"
#include "round_up.hpp"

namespace nearkv {
namespace {

/// Compressed pages differ in size; their slots come in so many sizes up to an attendable page's.
constexpr std::uint32_t kSlotSizes = 8;

}  // namespace

// New pages are made in the staging area, since their sizes decide their slots, and copied to
// these. A page is published in its new slot before the old one is freed: whoever takes the pool up
// after a crash finds one of them, or both and keeps one.
Status Pool::Impl::transcode_run(std::size_t head, std::span<const std::size_t> pages,
                                 std::uint8_t codec, Sequence* sequence) {
  const std::uint32_t page_bytes = PoolPlan::page_bytes(options_.shape, false);
  const std::uint32_t room = 2 * PoolPlan::page_bytes(options_.shape, true);
  const std::size_t count = pages.size();
  std::vector<nkv_page_entry> old_entries(count);
  std::vector<nkv_page_entry> staged(count);
  nkv_pages_command command{};
  std::uint64_t places = 0;
  batch_->clear();
  if (!batch_->reserve(count * sizeof(nkv_page_entry), &command.source) ||
      !batch_->reserve(count * sizeof(nkv_page_entry), &command.destination) ||
      !batch_->reserve(count * sizeof(std::uint32_t), &command.result) ||
      !batch_->reserve(count * room + NKV_PAGE_GRAIN_BYTES, &places)) {
    return Status::kInternal;  // transcode() chooses runs that fit.
  }
  const std::uint64_t first = (places + NKV_PAGE_GRAIN_BYTES - 1) / NKV_PAGE_GRAIN_BYTES;
  for (std::size_t i = 0; i < count; ++i) {
    old_entries[i] = sequence->heads[head].entries[pages[i]];
    staged[i].page = static_cast<std::uint32_t>(first + i * (room / NKV_PAGE_GRAIN_BYTES));
  }
  const auto run = [&](std::uint8_t opcode) {
    command.opcode = opcode;
    const Status status = batch_->add(command);
    return status == Status::kOk ? run_batch() : status;
  };
  batch_->write(command.source, std::as_bytes(std::span(old_entries)));
  batch_->write(command.destination, std::as_bytes(std::span(staged)));
  command.count = static_cast<std::uint32_t>(count);
  command.codec = codec;
  command.slot_bytes = room;
  Status status = run(NKV_OPCODE_TRANSCODE);
  if (status != Status::kOk) return status;
  if (batch_->completions().back().status != NKV_STATUS_OK) {
    return fail_completion(batch_->completions().back(), "transcoding");
  }

  std::vector<std::uint32_t> sizes(count);
  std::vector<nkv_page_entry> new_entries(count);
  batch_->read(command.result, std::as_writable_bytes(std::span(sizes)));
  batch_->read(command.destination, std::as_writable_bytes(std::span(staged)));
  std::size_t placed = 0;
  for (std::vector<Slot> slot; placed < count; ++placed) {
    const std::uint64_t grain = codec == NKV_CODEC_NONE
                                    ? NKV_PAGE_GRAIN_BYTES
                                    : round_up(page_bytes / kSlotSizes, NKV_PAGE_GRAIN_BYTES);
    const auto slot_bytes = static_cast<std::uint32_t>(round_up(sizes[placed], grain));
    if (!slabs_.allocate(slot_bytes, 1, &slot)) break;
    new_entries[placed].page = slot.front().page;
    new_entries[placed].generation = slot.front().generation;
  }
  if (placed < count) {
    status = fail(Status::kPoolFull, "transcoding");
  } else {
    // The staged pages stay where they are: nothing is reserved between the two commands.
    batch_->clear();
    batch_->write(command.source, std::as_bytes(std::span(staged)));
    batch_->write(command.destination, std::as_bytes(std::span(new_entries)));
    status = run(NKV_OPCODE_COPY);
    if (status == Status::kOk && batch_->completions().back().status != NKV_STATUS_OK) {
      status = fail_completion(batch_->completions().back(), "moving a transcoded page");
    }
  }
  if (status != Status::kOk) {
    for (std::size_t i = 0; i < placed; ++i) slabs_.release(new_entries[i].page);
    return status;
  }
  batch_->read(command.destination, std::as_writable_bytes(std::span(new_entries)));
  if (device_->is_gone()) return Status::kNoDevice;
  for (std::size_t i = 0; i < count; ++i) {
    replace_page(head, pages[i], old_entries[i].page, new_entries[i]);
  }
  return Status::kOk;
}

void Pool::Impl::replace_page(std::size_t head, std::size_t index, std::uint32_t old_page,
                              const nkv_page_entry& entry) {
  for (auto& [id, sequence] : sequences_) {
    if (head >= sequence.heads.size()) continue;
    HeadList& list = sequence.heads[head];
    if (index >= list.entries.size() || list.entries[index].page != old_page) continue;
    list.entries[index] = entry;
    std::memcpy(memory_.data() + list.address + index * sizeof(entry), &entry, sizeof(entry));
  }
  const auto shared = shares_.find(old_page);
  if (shared != shares_.end()) {
    shares_.emplace(entry.page, shared->second);
    shares_.erase(shared);
  }
  slabs_.release(old_page);
}

Status Pool::Impl::transcode(std::uint64_t id, std::uint8_t codec) {
  const std::scoped_lock lock(mutex_);
  const std::string what = "transcoding sequence " + std::to_string(id);
  Sequence* const sequence = find(id);
  if (sequence == nullptr) return fail(Status::kNotFound, what);
  if (codec > NKV_CODEC_FP8) return fail(Status::kBadArgument, what + ": no such codec");
  const std::uint64_t codecs = device_->read_csr(NKV_REG_CODECS);
  const auto has = [codecs](unsigned shift, unsigned number) {
    return (codecs >> shift >> number & 1) != 0;
  };
  if (!has(NKV_REG_CODECS_BUILT_SHIFT, codec)) {
    return fail(Status::kUnsupported,
                what + ": this device builds no pages of codec " + std::to_string(codec));
  }
  constexpr std::uint64_t kOverheadBytes = 4UL * NKV_PAGE_GRAIN_BYTES;
  constexpr std::uint64_t kTableBytes = 2 * sizeof(nkv_page_entry) + sizeof(std::uint32_t);
  const std::uint64_t staged_bytes =
      2 * std::uint64_t{PoolPlan::page_bytes(options_.shape, true)} + kTableBytes;
  const std::size_t run =
      std::max<std::size_t>((plan_.staging_bytes - kOverheadBytes) / staged_bytes, 1);
  for (std::size_t head = 0; head < sequence->heads.size(); ++head) {
    std::vector<std::size_t> pages;
    const std::vector<nkv_page_entry>& entries = sequence->heads[head].entries;
    for (std::size_t index = 0; index < entries.size(); ++index) {
      nkv_page_header header{};
      std::memcpy(&header,
                  memory_.data() + std::uint64_t{entries[index].page} * NKV_PAGE_GRAIN_BYTES,
                  sizeof(header));
      if (header.codec == codec) continue;
      if (!has(NKV_REG_CODECS_READ_SHIFT, header.codec)) {
        return fail(Status::kUnsupported,
                    what + ": this device reads no pages of codec " + std::to_string(header.codec));
      }
      pages.push_back(index);
    }
    for (std::span<const std::size_t> left(pages); !left.empty();) {
      const std::size_t count = std::min(run, left.size());
      const Status status = transcode_run(head, left.first(count), codec, sequence);
      if (status != Status::kOk) {
        last_error_ = what + ", list " + std::to_string(head) + ": " + last_error_;
        return status;
      }
      left = left.subspan(count);
    }
  }
  return Status::kOk;
}

}  // namespace nearkv
