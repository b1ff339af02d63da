#include "card/counters.hpp"

#include <unistd.h>

#include "nkv_card.h"

namespace nearkv {
namespace {

struct Event {
  std::uint64_t config;
  std::uint64_t CardCounters::* value;
};

constexpr std::array<Event, 7> kAll = {{
    {NKV_CARD_COUNTER_COMMANDS, &CardCounters::commands},
    {NKV_CARD_COUNTER_STREAM_BURSTS, &CardCounters::stream_bursts},
    {NKV_CARD_COUNTER_REFINE_BURSTS, &CardCounters::refine_bursts},
    {NKV_CARD_COUNTER_EXACT_BURSTS, &CardCounters::exact_bursts},
    {NKV_CARD_COUNTER_VALUE_BURSTS, &CardCounters::value_bursts},
    {NKV_CARD_COUNTER_WRITTEN_BURSTS, &CardCounters::written_bursts},
    {NKV_CARD_COUNTER_BUSY_TICKS, &CardCounters::busy_ticks},
}};

}  // namespace

Status CounterWatch::open(const std::string& card, std::string* reason) {
  card_ = card;
  for (std::size_t i = 0; i < kEvents; ++i) {
    Status status = open_perf_event(card, {kAll.at(i).config}, &events_.at(i), reason);
    if (status == Status::kOk) status = enable_perf_event(events_.at(i), reason);
    if (status != Status::kOk) return status;
  }
  return Status::kOk;
}

Status CounterWatch::read(CardCounters* counters, std::string* reason) const {
  // One event more brings all counts up to date, and tells whether the card is still there.
  FileDescriptor fresh;
  const Status status = open_perf_event(card_, {NKV_CARD_COUNTER_COMMANDS}, &fresh, reason);
  if (status != Status::kOk) return status;
  for (std::size_t i = 0; i < kEvents; ++i) {
    std::uint64_t value = 0;
    if (::read(events_.at(i).get(), &value, sizeof(value)) != sizeof(value)) {
      *reason = card_ + ": a counter cannot be read";
      return Status::kIoError;
    }
    counters->*kAll.at(i).value = value;
  }
  return Status::kOk;
}

}  // namespace nearkv
