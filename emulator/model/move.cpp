// COPY and TRANSCODE: pages to other places.
#include <cstring>
#include <functional>
#include <vector>

#include "cold_page.hpp"
#include "commands.hpp"
#include "page.hpp"
#include "page_builder.hpp"
#include "places.hpp"

namespace nearkv::model {

namespace {

// A source page and where it goes.
struct Move {
  Page source;
  nkv_page_entry destination;
  uint64_t room;  // Bytes that it may take there.

  [[nodiscard]] uint64_t address() const {
    return uint64_t{destination.page} * NKV_PAGE_GRAIN_BYTES;
  }
};

std::vector<Place> places_of(const std::vector<Move>& moves) {
  std::vector<Place> places;
  for (const Move& move : moves) {
    const uint64_t source = move.source.address();
    places.push_back({source, source + move.source.bytes().size(), false});
    places.push_back({move.address(), move.address() + move.room, true});
  }
  return places;
}

// Accepts the sources up to the first that fails; the verdict is that one's.
Verdict plan(const Domain& domain, const nkv_pages_command& command, std::vector<Move>* moves) {
  const auto sources = domain.window.load<nkv_page_entry>(command.source, command.count);
  const auto destinations = domain.window.load<nkv_page_entry>(command.destination, command.count);
  for (uint32_t index = 0; index < command.count; ++index) {
    Move move{.source = {}, .destination = destinations[index], .room = command.slot_bytes};
    const Verdict accepted =
        Page::accept(domain, sources[index], index, {.any_codec = true}, &move.source);
    if (!accepted.ok()) return accepted;
    if (command.opcode == NKV_OPCODE_COPY) move.room = move.source.bytes().size();
    if (!domain.window.contains(move.address(), move.room)) {
      return {NKV_STATUS_ADDRESS_FAULT, index};
    }
    moves->push_back(move);
  }
  return {};
}

Verdict check_fields(const Domain& domain, const nkv_pages_command& command) {
  Verdict verdict;
  verdict.status = nkv_check_pages_command(&command, &verdict.detail);
  if (verdict.ok() && command.opcode == NKV_OPCODE_TRANSCODE && command.slot_bytes == 0) {
    return bad_field(offsetof(nkv_pages_command, slot_bytes));
  }
  const uint64_t table_bytes = uint64_t{command.count} * sizeof(nkv_page_entry);
  if (verdict.ok()) verdict = domain.window.check(command.source, table_bytes);
  if (verdict.ok()) verdict = domain.window.check(command.destination, table_bytes);
  if (verdict.ok() && command.opcode == NKV_OPCODE_TRANSCODE) {
    verdict = domain.window.check(command.result, uint64_t{command.count} * sizeof(uint32_t));
  }
  return verdict;
}

// Makes the page that goes to the new place; a status of the contract.
using MakePage = std::function<uint8_t(const Move& move, BuiltPage* page)>;

Outcome move_pages(const Domain& domain, const nkv_pages_command& command, const MakePage& make) {
  const Verdict checked = check_fields(domain, command);
  if (!checked.ok()) return failure(checked);
  std::vector<Move> moves;
  Verdict verdict = plan(domain, command, &moves);
  if (collide(places_of(moves)))
    return failure(bad_field(offsetof(nkv_pages_command, destination)));

  Outcome outcome;
  for (Move& move : moves) {
    BuiltPage page;
    uint8_t status = NKV_STATUS_CORRUPT;
    if (move.source.is_intact()) status = make(move, &page);
    if (status != NKV_STATUS_OK) {
      verdict = {status, outcome.count};
      break;
    }
    publish(domain.window, page, &move.destination);
    domain.window.store<nkv_page_entry>(
        command.destination + outcome.count * sizeof(nkv_page_entry), {&move.destination, 1});
    if (command.opcode == NKV_OPCODE_TRANSCODE) {
      const auto bytes = static_cast<uint32_t>(page.bytes.size());
      domain.window.store<uint32_t>(command.result + outcome.count * sizeof(bytes), {&bytes, 1});
    }
    ++outcome.count;
  }
  outcome.verdict = verdict;
  return outcome;
}

uint8_t make_copy(const Move& move, BuiltPage* page) {
  const auto bytes = move.source.bytes();
  page->header = move.source.header();
  page->header.generation = move.destination.generation;
  seal(page->header);
  page->bytes.assign(bytes.begin(), bytes.end());
  std::memcpy(page->bytes.data(), &page->header, sizeof(page->header));
  return NKV_STATUS_OK;
}

uint8_t make_transcoded(const Move& move, uint8_t codec, BlockCoder& coder, BuiltPage* page) {
  PageRows rows;
  uint8_t status = rows_of(move.source, coder, &rows);
  if (status == NKV_STATUS_OK) {
    status =
        build_in_codec(move.source.header(), move.destination.generation, codec, rows, coder, page);
  }
  if (status == NKV_STATUS_OK && page->bytes.size() > move.room) return NKV_STATUS_PAGE_OVERFLOW;
  return status;
}

}  // namespace

Outcome copy(const Domain& domain, const nkv_pages_command& command) {
  return move_pages(domain, command, make_copy);
}

Outcome transcode(const Domain& domain, const nkv_pages_command& command) {
  BlockCoder coder;
  return transcode(domain, command, coder);
}

Outcome transcode(const Domain& domain, const nkv_pages_command& command, BlockCoder& coder) {
  return move_pages(domain, command, [&](const Move& move, BuiltPage* page) {
    return make_transcoded(move, command.codec, coder, page);
  });
}

}  // namespace nearkv::model
