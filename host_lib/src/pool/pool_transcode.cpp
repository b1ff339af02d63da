// TRANSCODE: a sequence's pages move to slots of their new sizes, a run of them at a time.
#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <numeric>
#include <string_view>

#include "nearkv/codec.hpp"
#include "pool/pool_impl.hpp"
#include "round_up.hpp"

namespace nearkv {
namespace {

/// Compressed pages differ in size; their slots come in so many sizes up to an attendable page's.
constexpr std::uint32_t kSlotSizes = 8;

constexpr std::array<std::string_view, NKV_CODEC_FP8 + 1> kCodecNames = {
    "NONE", "", "PLANES_LZ4", "PLANES_ZSTD", "INT8", "INT4", "FP8"};

std::string name_of(unsigned codec) {
  const std::string_view name = is_codec(codec) ? kCodecNames[codec] : "unknown";
  return std::to_string(codec) + " (" + std::string(name) + ")";
}

/// The codecs of a field of register CODECS.
std::string names_of(std::uint64_t codecs) {
  std::string names;
  for (unsigned codec = 0; codec < kCodecNames.size(); ++codec) {
    if ((codecs >> codec & 1) != 0) names += (names.empty() ? "" : ", ") + name_of(codec);
  }
  return names.empty() ? "none" : names;
}

}  // namespace

std::size_t Pool::Impl::pages_staged_together(std::uint64_t beside_bytes) const {
  constexpr std::uint64_t kOverheadBytes = 4UL * NKV_PAGE_GRAIN_BYTES;
  constexpr std::uint64_t kTableBytes = 3 * sizeof(nkv_page_entry) + sizeof(std::uint32_t);
  const std::uint64_t page_bytes =
      2 * std::uint64_t{PoolPlan::most_page_bytes(options_.shape)} + kTableBytes;
  const std::uint64_t taken = kOverheadBytes + beside_bytes;
  const std::uint64_t room = plan_.staging_bytes - std::min(taken, plan_.staging_bytes);
  return std::max<std::size_t>(room / page_bytes, 1);
}

Status Pool::Impl::stage_transcoded(const HeadList& list, std::span<const std::uint32_t> numbers,
                                    std::uint8_t codec, const std::string& what, Staged* staged) {
  const std::uint32_t room = 2 * PoolPlan::most_page_bytes(options_.shape);
  const std::size_t count = numbers.size();
  std::vector<nkv_page_entry> sources;
  for (const std::uint32_t number : numbers) sources.push_back(list.entries[number]);
  nkv_pages_command command{};
  std::uint64_t places = 0;
  batch_->clear();
  if (!batch_->reserve(count * sizeof(nkv_page_entry), &command.source) ||
      !batch_->reserve(count * sizeof(nkv_page_entry), &command.destination) ||
      !batch_->reserve(count * sizeof(std::uint32_t), &command.result) ||
      !batch_->reserve(count * room + NKV_PAGE_GRAIN_BYTES, &places)) {
    return Status::kInternal;  // Callers choose runs that fit.
  }
  const std::uint64_t first = (places + NKV_PAGE_GRAIN_BYTES - 1) / NKV_PAGE_GRAIN_BYTES;
  staged->entries.assign(count, {});
  staged->sizes.assign(count, 0);
  staged->list = command.destination;
  for (std::size_t i = 0; i < count; ++i) {
    staged->entries[i].page = static_cast<std::uint32_t>(first + i * (room / NKV_PAGE_GRAIN_BYTES));
  }
  batch_->write(command.source, std::as_bytes(std::span(sources)));
  batch_->write(command.destination, std::as_bytes(std::span(staged->entries)));
  command.opcode = NKV_OPCODE_TRANSCODE;
  command.count = static_cast<std::uint32_t>(count);
  command.codec = codec;
  command.slot_bytes = room;
  Status status = batch_->add(command);
  if (status == Status::kOk) status = run_batch();
  if (status != Status::kOk) return status;
  if (batch_->completions().back().status != NKV_STATUS_OK) {
    return fail_completion(batch_->completions().back(), what, numbers);
  }
  batch_->read(command.result, std::as_writable_bytes(std::span(staged->sizes)));
  batch_->read(command.destination, std::as_writable_bytes(std::span(staged->entries)));
  return Status::kOk;
}

Status Pool::Impl::copy_staged(std::uint64_t list, const std::string& what,
                               std::span<const std::uint32_t> numbers,
                               std::vector<nkv_page_entry>* entries) {
  nkv_pages_command command{};
  if (!batch_->reserve(entries->size() * sizeof(nkv_page_entry), &command.destination)) {
    return Status::kInternal;  // Callers choose runs that fit.
  }
  batch_->write(command.destination, std::as_bytes(std::span(*entries)));
  command.opcode = NKV_OPCODE_COPY;
  command.source = list;
  command.count = static_cast<std::uint32_t>(entries->size());
  Status status = batch_->add(command);
  if (status == Status::kOk) status = run_batch();
  if (status != Status::kOk) return status;
  if (batch_->completions().back().status != NKV_STATUS_OK) {
    return fail_completion(batch_->completions().back(), what, numbers);
  }
  batch_->read(command.destination, std::as_writable_bytes(std::span(*entries)));
  return Status::kOk;
}

// New pages are made in the staging area, since their sizes decide their slots, and copied to
// these. A page is published in its new slot before the old one is freed: whoever takes the pool up
// after a crash finds one of them, or both and keeps one.
Status Pool::Impl::transcode_run(std::size_t head, std::span<const std::uint32_t> pages,
                                 std::uint8_t codec, const std::string& what, Sequence* sequence) {
  const std::uint32_t page_bytes = new_page_bytes(/*raw=*/false);
  const std::size_t count = pages.size();
  const HeadList& list = sequence->heads[head];
  Staged staged;
  Status status = stage_transcoded(list, pages, codec, what, &staged);
  if (status != Status::kOk) return status;

  std::vector<nkv_page_entry> new_entries(count);
  std::size_t placed = 0;
  for (std::vector<Slot> slot; placed < count; ++placed) {
    const std::uint64_t grain = codec == NKV_CODEC_NONE
                                    ? NKV_PAGE_GRAIN_BYTES
                                    : round_up(page_bytes / kSlotSizes, NKV_PAGE_GRAIN_BYTES);
    const auto slot_bytes = static_cast<std::uint32_t>(round_up(staged.sizes[placed], grain));
    if (!slabs_.allocate(slot_bytes, 1, &slot)) break;
    new_entries[placed].page = slot.front().page;
    new_entries[placed].generation = slot.front().generation;
  }
  if (placed < count) {
    status = fail(Status::kPoolFull, what);
  } else {
    batch_->go_on();
    status = copy_staged(staged.list, what + ", moving pages", pages, &new_entries);
  }
  if (status != Status::kOk) {
    for (std::size_t i = 0; i < placed; ++i) give_up(new_entries[i].page);
    return status;
  }
  if (device_->is_gone()) return Status::kNoDevice;
  for (std::size_t i = 0; i < count; ++i) {
    replace_page(head, pages[i], list.entries[pages[i]].page, new_entries[i], codec);
  }
  return Status::kOk;
}

void Pool::Impl::replace_page(std::size_t head, std::size_t index, std::uint32_t old_page,
                              const nkv_page_entry& entry, std::uint8_t codec) {
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
  cold_.erase(old_page);
  if (codec != NKV_CODEC_NONE) cold_.emplace(entry.page, codec);
  slabs_.release(old_page);
}

std::uint8_t Pool::Impl::codec_of(const nkv_page_entry& entry) const {
  const auto cold = cold_.find(entry.page);
  return cold == cold_.end() ? std::uint8_t{NKV_CODEC_NONE} : cold->second;
}

Status Pool::Impl::check_built(std::uint8_t codec, const std::string& what) {
  if (!is_codec(codec)) {
    return fail(Status::kBadArgument, what,
                "there is no codec " + std::to_string(codec) + "; take one of enum nkv_codec");
  }
  const std::uint64_t built = device_->read_csr(NKV_REG_CODECS) >> NKV_REG_CODECS_BUILT_SHIFT;
  if ((built >> codec & 1) != 0) return Status::kOk;
  return fail(Status::kUnsupported, what,
              "this device builds no pages of codec " + name_of(codec) +
                  "; take one of those that it does: " + names_of(built));
}

Status Pool::Impl::check_readable(const HeadList& list, std::span<const std::uint32_t> numbers,
                                  const std::string& what) {
  const std::uint64_t readable = device_->read_csr(NKV_REG_CODECS) >> NKV_REG_CODECS_READ_SHIFT;
  for (const std::uint32_t number : numbers) {
    const std::uint8_t codec = codec_of(list.entries[number]);
    if ((readable >> codec & 1) != 0) continue;
    return fail(Status::kUnsupported, what + ", page " + std::to_string(number),
                "this device reads no pages of codec " + name_of(codec) +
                    "; open the pool on one that does, and transcode it there to one of: " +
                    names_of(readable));
  }
  return Status::kOk;
}

Status Pool::Impl::transcode_pages(std::size_t head, std::span<const std::uint32_t> pages,
                                   std::uint8_t codec, const std::string& what, Sequence* sequence,
                                   std::uint32_t* moved) {
  const HeadList& list = sequence->heads[head];
  std::vector<std::uint32_t> others;
  std::ranges::copy_if(pages, std::back_inserter(others), [&](std::uint32_t number) {
    return codec_of(list.entries[number]) != codec;
  });
  const Status readable = check_readable(list, others, what);
  if (readable != Status::kOk) return readable;
  const std::size_t run = pages_staged_together(0);
  for (std::span<const std::uint32_t> left(others); !left.empty();) {
    const std::size_t count = std::min(run, left.size());
    const Status status = transcode_run(head, left.first(count), codec, what, sequence);
    if (status != Status::kOk) return status;
    *moved += static_cast<std::uint32_t>(count);
    left = left.subspan(count);
  }
  return Status::kOk;
}

Status Pool::Impl::transcode(std::uint64_t id, std::uint8_t codec) {
  const std::string what = "transcoding sequence " + std::to_string(id);
  Sequence* const sequence = find(id);
  if (sequence == nullptr) return fail(Status::kNotFound, what);
  Status status = check_built(codec, what);
  std::uint32_t moved = 0;
  const std::size_t kv_heads = options_.shape.kv_heads;
  for (std::size_t head = 0; head < sequence->heads.size() && status == Status::kOk; ++head) {
    std::vector<std::uint32_t> pages(sequence->heads[head].entries.size());
    std::iota(pages.begin(), pages.end(), 0);
    const std::string of = "transcoding " + place(id, static_cast<std::uint16_t>(head / kv_heads),
                                                  static_cast<std::uint16_t>(head % kv_heads));
    status = transcode_pages(head, pages, codec, of, sequence, &moved);
  }
  return status;
}

Status Pool::Impl::transcode(std::uint64_t id, std::uint16_t layer, std::uint16_t kv_head,
                             std::span<const std::uint32_t> pages, std::uint8_t codec,
                             std::uint32_t* moved) {
  *moved = 0;
  const std::string what = "transcoding pages of " + place(id, layer, kv_head);
  const HeadList* const list = find_head(id, layer, kv_head);
  if (list == nullptr) return fail(Status::kNotFound, what);
  std::vector<std::uint32_t> chosen;
  for (const std::uint32_t page : pages) {
    if (page >= list->entries.size()) {
      return fail(Status::kBadArgument, what,
                  "there is no page " + std::to_string(page) + " among the " +
                      std::to_string(list->entries.size()) + " pages, numbered from 0, of " +
                      std::to_string(NKV_PAGE_TOKENS) + " tokens each");
    }
    const bool is_shared = shares_.contains(list->entries[page].page);
    if (!is_shared || codec == NKV_CODEC_NONE) chosen.push_back(page);
  }
  std::ranges::sort(chosen);
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  const Status status = check_built(codec, what);
  if (status != Status::kOk) return status;
  return transcode_pages(std::size_t{layer} * options_.shape.kv_heads + kv_head, chosen, codec,
                         what, find(id), moved);
}

}  // namespace nearkv
