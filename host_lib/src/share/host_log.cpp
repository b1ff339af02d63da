#include "share/host_log.hpp"

#include "share/record.hpp"

namespace nearkv {
LogWriter::LogWriter(SharedMemory& memory, const Region& region, const LogName& name)
    : memory_(memory), region_(region), name_(name) {}

bool LogWriter::is_nearly_full() const {
  return (last_ - tail_) * 4 > std::uint64_t{region_.log_entries()} * 3;
}

Status LogWriter::write(nkv_share_entry* entry, std::uint64_t acked) {
  const std::uint64_t number = last_ + 1;
  if (number > region_.log_entries()) {
    const std::uint64_t overwritten = number - region_.log_entries();
    if (overwritten > safe_tail_ || overwritten > acked) return Status::kNotYet;
  }
  entry->number = number;
  entry->epoch = name_.epoch;
  if (entry->kind == NKV_SHARE_ENTRY_KIND_PUBLISH && entry->origin_number == 0) {
    entry->host = name_.host;
    entry->origin_epoch = name_.epoch;
    entry->origin_number = number;
  }
  write_record(memory_, region_.entry_at(name_.host, name_.area, number), *entry);
  last_ = number;
  return Status::kOk;
}

void LogWriter::publish(std::uint64_t view_revision, std::uint32_t free_extents) {
  // The line that carries this tail was in memory before the confirmation.
  safe_tail_ = line_tail_;
  nkv_share_host_line line{};
  line.epoch = name_.epoch;
  line.free_extents = free_extents;
  line.heartbeat = ++heartbeat_;
  line.head = last_;
  line.tail = tail_;
  line.view_revision = view_revision;
  write_record(memory_, region_.line_at(name_.host, name_.area, heartbeat_), line);
  line_tail_ = tail_;
  published_ = last_;
}

std::optional<nkv_share_entry> LogWriter::oldest() const {
  if (tail_ == last_) return std::nullopt;
  nkv_share_entry entry{};
  // The owner's own cache is the truth about its own lines.
  memory_.copy_out(region_.entry_at(name_.host, name_.area, tail_ + 1),
                   std::as_writable_bytes(std::span(&entry, 1)));
  return entry;
}

void LogWriter::drop_oldest() { ++tail_; }

bool LogReader::look(SharedMemory& memory, const Region& region) {
  is_fresh_ = true;
  for (std::uint64_t copy = 0; copy < 2; ++copy) {
    nkv_share_host_line line{};
    if (!read_record(memory, region.line_at(name_.host, name_.area, copy), &line)) {
      is_fresh_ = false;
      continue;
    }
    if (line.epoch == name_.epoch && line.heartbeat > line_.heartbeat) line_ = line;
  }
  return line_.epoch != 0;
}

std::optional<nkv_share_entry> LogReader::next(SharedMemory& memory, const Region& region) {
  return taken_ < line_.head ? next_written(memory, region) : std::nullopt;
}

std::optional<nkv_share_entry> LogReader::next_written(SharedMemory& memory, const Region& region) {
  nkv_share_entry entry{};
  if (!read_record(memory, region.entry_at(name_.host, name_.area, taken_ + 1), &entry) ||
      entry.epoch != name_.epoch || entry.number != taken_ + 1) {
    return std::nullopt;
  }
  ++taken_;
  return entry;
}

}  // namespace nearkv
