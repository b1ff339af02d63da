// SCRUB, ERASE, COPY and TRANSCODE: whole pages.
#include <cstring>
#include <vector>

#include "device/engine.hpp"
#include "page/encode.hpp"
#include "page/maintain.hpp"
#include "page/places.hpp"

namespace nearkv {
namespace {

/// Copies a table of `count` entries out of the window; false if it does not lie inside.
bool load_entries(const Window& window, std::uint64_t address, std::uint32_t count,
                  std::vector<nkv_page_entry>* entries) {
  const std::span<std::byte> bytes =
      window.at(address, std::uint64_t{count} * sizeof(nkv_page_entry));
  if (bytes.empty()) return false;
  entries->resize(count);
  std::memcpy(entries->data(), bytes.data(), bytes.size());
  return true;
}

/// Accepts the sources up to the first that fails and finds their new places.
Outcome plan_moves(const nkv_pages_command& command, const Window& window,
                   std::span<const nkv_page_entry> sources,
                   std::span<const nkv_page_entry> destinations, std::vector<MovedPage>* pages) {
  for (std::size_t i = 0; i < sources.size(); ++i) {
    MovedPage page;
    page.source = sources[i];
    page.destination = destinations[i];
    nkv_page_header header{};
    const Status status = inspect_page(window, page.source, &header, &page.source_bytes);
    if (status != Status::kOk) return {status, i};
    page.slot = window.at(address_of(page.destination), command.opcode == NKV_OPCODE_COPY
                                                            ? page.source_bytes
                                                            : std::uint64_t{command.slot_bytes});
    if (page.slot.empty()) return {Status::kAddressFault, i};
    pages->push_back(page);
  }
  return {};
}

std::vector<Place> places_of(std::span<const MovedPage> pages) {
  std::vector<Place> places;
  for (const MovedPage& page : pages) {
    const std::uint64_t source = address_of(page.source);
    const std::uint64_t slot = address_of(page.destination);
    places.push_back({source, source + page.source_bytes, false});
    places.push_back({slot, slot + page.slot.size(), true});
  }
  return places;
}

}  // namespace

Outcome Engine::maintain(const nkv_pages_command& command, const Window& window,
                         nkv_completion* completion) {
  std::vector<nkv_page_entry> entries;
  if (!load_entries(window, command.source, command.count, &entries)) {
    return {Status::kAddressFault, command.source};
  }
  Outcome outcome;
  for (std::uint32_t page = 0; page < command.count && outcome.ok(); ++page) {
    const Status status = command.opcode == NKV_OPCODE_SCRUB ? scrub_page(window, entries[page])
                                                             : erase_page(window, entries[page]);
    outcome = {status, status == Status::kOk ? 0 : page};
    if (outcome.ok()) completion->count = page + 1;
  }
  window.persistence().fence();
  return outcome;
}

Outcome Engine::move(const nkv_pages_command& command, const Window& window,
                     nkv_completion* completion) {
  const bool transcodes = command.opcode == NKV_OPCODE_TRANSCODE;
  if (transcodes && command.slot_bytes == 0) {
    return bad_field(offsetof(nkv_pages_command, slot_bytes));
  }
  std::vector<nkv_page_entry> sources;
  std::vector<nkv_page_entry> destinations;
  if (!load_entries(window, command.source, command.count, &sources)) {
    return {Status::kAddressFault, command.source};
  }
  if (!load_entries(window, command.destination, command.count, &destinations)) {
    return {Status::kAddressFault, command.destination};
  }
  const std::span<std::byte> sizes =
      transcodes ? window.at(command.result, command.count * sizeof(std::uint32_t))
                 : std::span<std::byte>();
  if (transcodes && sizes.empty()) return {Status::kAddressFault, command.result};

  std::vector<MovedPage> pages;
  const Outcome planned = plan_moves(command, window, sources, destinations, &pages);
  if (collide(places_of(pages))) return bad_field(offsetof(nkv_pages_command, destination));
  Persistence& persistence = window.persistence();
  FirstFault fault;
  if (!planned.ok()) fault.record(planned.detail, planned.status);
  workers_->for_each(pages.size(), 1, [&](unsigned member, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end && !fault.precludes(i); ++i) {
      const Status status = transcodes
                                ? transcoders_[member].transcode(window, command.codec, &pages[i])
                                : copy_page(window, &pages[i]);
      if (status != Status::kOk) fault.record(i, status);
      persistence.write_back(pages[i].slot.first(pages[i].bytes));
    }
    persistence.fence();  // Of what this member wrote.
  });
  const Outcome outcome = fault.outcome();
  const std::size_t done = outcome.ok() ? pages.size() : outcome.detail;
  const std::span<std::byte> table =
      window.at(command.destination, command.count * sizeof(nkv_page_entry));
  for (std::size_t i = 0; i < done; ++i) {
    publish_page(pages[i].slot, pages[i].flags, window);
    std::memcpy(table.data() + i * sizeof(nkv_page_entry), &pages[i].destination,
                sizeof(nkv_page_entry));
    if (transcodes) {
      std::memcpy(sizes.data() + i * sizeof(std::uint32_t), &pages[i].bytes, sizeof(std::uint32_t));
    }
  }
  persistence.fence();
  completion->count = static_cast<std::uint32_t>(done);
  return outcome;
}

}  // namespace nearkv
