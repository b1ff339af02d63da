#include "remote/mirror.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "page/checksum.hpp"

namespace nearkv {
namespace {

constexpr std::uint64_t kMessageBytes = 64 << 20;  // Of data, at most.

template <typename List>
std::uint32_t checksum_of(std::span<const std::byte> header, const List& data) {
  std::vector<std::byte> zeroed(header.begin(), header.end());
  std::memset(zeroed.data() + offsetof(nkv_remote_message, checksum), 0, sizeof(std::uint32_t));
  std::uint32_t crc = crc32c(zeroed);
  for (const auto& run : data) crc = crc32c(run, crc);
  return crc;
}

std::size_t bytes_of_entry(std::uint32_t kind) {
  return kind == NKV_REMOTE_KIND_SUBMISSION ? sizeof(nkv_daemon_submission)
                                            : sizeof(nkv_daemon_completion);
}

}  // namespace

void Mirror::send(Link* link, nkv_remote_message message, std::span<const std::byte> rest,
                  const ConstRuns& data) {
  message.magic = NKV_REMOTE_MAGIC;
  std::ranges::copy(session_, message.session);
  message.number = sent_++;
  std::vector<std::byte> header(sizeof(message) + rest.size());
  std::memcpy(header.data(), &message, sizeof(message));
  std::ranges::copy(rest, header.begin() + sizeof(message));
  message.checksum = checksum_of(header, data);
  std::memcpy(header.data(), &message, sizeof(message));
  link->send(std::move(header), data);
}

std::uint64_t Mirror::messages_for(std::span<const Run> runs) {
  std::uint64_t bytes = 0;
  for (const Run& run : runs) bytes += run.bytes;
  return runs.size() / NKV_REMOTE_MAX_RUNS + bytes / kMessageBytes + 2;
}

void Mirror::send_data(Link* link, std::span<const Run> runs) {
  std::vector<nkv_daemon_segment> segments;
  ConstRuns data;
  std::uint64_t bytes = 0;
  const auto flush = [&] {
    if (segments.empty()) return;
    nkv_remote_message message{};
    message.kind = NKV_REMOTE_KIND_DATA;
    message.runs = static_cast<std::uint32_t>(segments.size());
    send(link, message, std::as_bytes(std::span(segments)), data);
    segments.clear();
    data.clear();
    bytes = 0;
  };
  for (Run run : runs) {
    while (run.bytes != 0) {
      if (segments.size() == NKV_REMOTE_MAX_RUNS || bytes == kMessageBytes) flush();
      const std::uint64_t taken = std::min(run.bytes, kMessageBytes - bytes);
      nkv_daemon_segment segment{};
      segment.offset = run.offset;
      segment.bytes = static_cast<std::uint32_t>(taken);
      segments.push_back(segment);
      data.push_back(data_.subspan(run.offset, taken));
      bytes += taken;
      run.offset += taken;
      run.bytes -= taken;
    }
  }
  flush();
}

void Mirror::send_entry(Link* link, std::uint32_t kind, std::span<const std::byte> entry,
                        std::span<const std::byte> bytes) {
  nkv_remote_message message{};
  message.kind = kind;
  send(link, message, entry, {bytes});
}

std::optional<nkv_remote_message> Mirror::check(std::span<const std::byte> header) const {
  nkv_remote_message message{};
  if (header.size() < sizeof(message)) return std::nullopt;
  std::memcpy(&message, header.data(), sizeof(message));
  const std::size_t rest = header.size() - sizeof(message);
  const bool is_data = message.kind == NKV_REMOTE_KIND_DATA;
  const bool is_whole = is_data ? message.runs <= NKV_REMOTE_MAX_RUNS &&
                                      rest == message.runs * sizeof(nkv_daemon_segment)
                                : message.kind == comes_ && rest == bytes_of_entry(comes_);
  const bool is_sound = message.magic == NKV_REMOTE_MAGIC && is_whole &&
                        same_proof(message.session, session_) && message.number >= next_ &&
                        message.number - next_ < NKV_REMOTE_MAX_UNLANDED;
  return is_sound ? std::optional(message) : std::nullopt;
}

std::optional<Runs> Mirror::place(std::span<const std::byte> header, std::size_t bytes) {
  heard_ = Clock::now();
  const auto message = check(header);
  if (!message || begun_[message->number % begun_.size()]) return std::nullopt;
  Runs runs;
  const std::span<const std::byte> rest = header.subspan(sizeof(*message));
  if (message->kind == NKV_REMOTE_KIND_DATA) {
    for (std::uint32_t i = 0; i < message->runs; ++i) {
      nkv_daemon_segment segment{};
      std::memcpy(&segment, rest.data() + i * sizeof(segment), sizeof(segment));
      if (segment.offset > data_.size() || segment.bytes > data_.size() - segment.offset) {
        return std::nullopt;
      }
      runs.push_back(data_.subspan(segment.offset, segment.bytes));
    }
  } else {
    Entry entry{};
    std::ranges::copy(rest, entry.begin());
    const auto place = owner_->place_of(entry, bytes);
    if (!place) return std::nullopt;
    runs.push_back(*place);
  }
  begun_.set(message->number % begun_.size());
  return runs;
}

bool Mirror::landed(std::span<const std::byte> header, const Runs& data) {
  heard_ = Clock::now();
  nkv_remote_message message{};
  std::memcpy(&message, header.data(), sizeof(message));
  if (checksum_of(header, data) != message.checksum) return false;
  landed_.set(message.number % landed_.size());
  if (message.kind != NKV_REMOTE_KIND_DATA) {
    Entry entry{};
    std::ranges::copy(header.subspan(sizeof(message)), entry.begin());
    waiting_.emplace(message.number, entry);
  }
  while (landed_[next_ % landed_.size()]) {
    landed_.reset(next_ % landed_.size());
    begun_.reset(next_ % begun_.size());
    const auto waiting = waiting_.find(next_++);
    if (waiting == waiting_.end()) continue;
    const Entry entry = waiting->second;
    waiting_.erase(waiting);
    owner_->take(entry);
  }
  return true;
}

}  // namespace nearkv
