// SCRUB, ERASE and COPY: whole pages.
#include <algorithm>
#include <cstring>
#include <vector>

#include "commands.hpp"
#include "page.hpp"

namespace nearkv::model {

namespace {

constexpr Acceptance kAnyCodec{.whole_header = true, .any_codec = true};

Verdict check_fields(const Domain& domain, const nkv_pages_command& command) {
  Verdict verdict;
  verdict.status = nkv_check_pages_command(&command, &verdict.detail);
  if (!verdict.ok()) return verdict;
  return domain.window.check(command.source, uint64_t{command.count} * sizeof(nkv_page_entry));
}

// Ends a command after `done` pages.
Outcome stopped(Verdict verdict, uint32_t done) {
  Outcome outcome = failure(verdict);
  outcome.count = done;
  return outcome;
}

// A source page and where it goes.
struct Move {
  Page source;
  uint64_t destination;

  [[nodiscard]] uint64_t bytes() const { return source.bytes().size(); }
};

struct AddressRange {
  uint64_t begin;
  uint64_t end;
  bool is_destination;
};

// Whether a destination shares a byte with any other place.
bool overlap(std::vector<AddressRange> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const AddressRange& a, const AddressRange& b) { return a.begin < b.begin; });
  uint64_t source_end = 0;
  uint64_t destination_end = 0;
  for (const AddressRange& range : ranges) {
    if (range.begin < destination_end) return true;
    if (range.is_destination && range.begin < source_end) return true;
    uint64_t& end = range.is_destination ? destination_end : source_end;
    end = std::max(end, range.end);
  }
  return false;
}

bool overlap(const std::vector<Move>& moves) {
  std::vector<AddressRange> ranges;
  for (const Move& move : moves) {
    const uint64_t source = move.source.address();
    ranges.push_back({source, source + move.bytes(), false});
    ranges.push_back({move.destination, move.destination + move.bytes(), true});
  }
  return overlap(std::move(ranges));
}

void write_copy(const Window& window, const Move& move, uint16_t generation) {
  nkv_page_header header = move.source.header();
  header.generation = generation;
  seal(header);
  const auto place = window.at(move.destination, move.bytes());
  std::memset(place.data(), 0, NKV_PAGE_HEADER_BYTES);
  std::memcpy(place.data() + NKV_PAGE_HEADER_BYTES,
              move.source.bytes().data() + NKV_PAGE_HEADER_BYTES,
              move.bytes() - NKV_PAGE_HEADER_BYTES);
  std::memcpy(place.data(), &header, sizeof(header));
}

}  // namespace

Outcome scrub(const Domain& domain, const nkv_pages_command& command) {
  const Verdict checked = check_fields(domain, command);
  if (!checked.ok()) return failure(checked);
  const auto entries = domain.window.load<nkv_page_entry>(command.source, command.count);
  for (uint32_t index = 0; index < command.count; ++index) {
    Page page;
    const Verdict accepted = Page::accept(domain, entries[index], index, kAnyCodec, &page);
    if (!accepted.ok()) return stopped(accepted, index);
    if (!page.is_intact()) return stopped({NKV_STATUS_CORRUPT, index}, index);
  }
  return {.count = command.count};
}

Outcome erase(const Domain& domain, const nkv_pages_command& command) {
  const Verdict checked = check_fields(domain, command);
  if (!checked.ok()) return failure(checked);
  const auto entries = domain.window.load<nkv_page_entry>(command.source, command.count);
  for (uint32_t index = 0; index < command.count; ++index) {
    Page page;
    const Verdict accepted = Page::accept(domain, entries[index], index, kAnyCodec, &page);
    if (!accepted.ok()) return stopped(accepted, index);
    // Ascending, so that the header goes first and a half erased page is no page.
    std::memset(page.bytes().data(), 0, page.bytes().size());
  }
  return {.count = command.count};
}

Outcome copy(const Domain& domain, const nkv_pages_command& command) {
  Verdict verdict = check_fields(domain, command);
  if (!verdict.ok()) return failure(verdict);
  verdict =
      domain.window.check(command.destination, uint64_t{command.count} * sizeof(nkv_page_entry));
  if (!verdict.ok()) return failure(verdict);
  const auto sources = domain.window.load<nkv_page_entry>(command.source, command.count);
  auto destinations = domain.window.load<nkv_page_entry>(command.destination, command.count);

  std::vector<Move> moves;
  for (uint32_t index = 0; index < command.count && verdict.ok(); ++index) {
    Move move{.source = {},
              .destination = uint64_t{destinations[index].page} * NKV_PAGE_GRAIN_BYTES};
    verdict = Page::accept(domain, sources[index], index, kAnyCodec, &move.source);
    if (verdict.ok() && !domain.window.contains(move.destination, move.bytes())) {
      verdict = {NKV_STATUS_ADDRESS_FAULT, index};
    }
    if (verdict.ok()) moves.push_back(move);
  }
  if (overlap(moves)) return failure(bad_field(offsetof(nkv_pages_command, destination)));

  // The pages before the first bad one are copied, as the completion's count says.
  for (size_t index = 0; index < moves.size(); ++index) {
    nkv_page_entry& destination = destinations[index];
    write_copy(domain.window, moves[index], destination.generation);
    destination.k_exponent = moves[index].source.header().k_exponent;
    destination.v_exponent = moves[index].source.header().v_exponent;
  }
  domain.window.store<nkv_page_entry>(command.destination,
                                      std::span(destinations).first(moves.size()));
  return stopped(verdict, static_cast<uint32_t>(moves.size()));
}

}  // namespace nearkv::model
