#include "fabric/link/system.hpp"

#include <stdexcept>
#include <utility>

namespace nearkv::fabric {
namespace {

const dram::Timing& require_timing(const std::string& name) {
  const dram::Timing* timing = dram::find_timing(name);
  if (timing == nullptr) throw std::invalid_argument(name + ": no such DRAM");
  return *timing;
}

}  // namespace

System::System(const Shape& shape)
    : shape_(shape), timing_(require_timing(shape.card.memory.timing)) {
  const MemoryShape& memory = shape.card.memory;
  if (shape.hosts == 0 || shape.cards == 0 || (!shape.link && shape.hosts > 1)) {
    throw std::invalid_argument("a system has a host and a memory; without links, one host");
  }
  for (unsigned card = 0; card < shape.cards; ++card) {
    cards_.push_back({.memory = {timing_, memory.latency_cycles, memory.port_lines}, .queue = {}});
  }
  ways_.assign(std::size_t{shape.hosts} * shape.cards,
               Way{.credits = shape.card.credits, .waiting = {}});
  if (!shape.link) return;
  const std::size_t host_links =
      shape.fabric_switch ? shape.hosts : std::size_t{shape.hosts} * shape.cards;
  host_links_.assign(host_links, Link(*shape.link));
  if (shape.fabric_switch) card_links_.assign(shape.cards, Link(*shape.link));
}

void System::schedule(Picoseconds at, std::function<void()> run) {
  events_.push({.at = at, .order = order_++, .run = std::move(run)});
}

unsigned System::card_of(const Access& access) const {
  return static_cast<unsigned>(access.address / shape_.interleave_bytes % shape_.cards);
}

std::uint64_t System::card_address(const Access& access) const {
  const std::uint64_t piece = shape_.interleave_bytes;
  return access.address / piece / shape_.cards * piece + access.address % piece;
}

System::Link& System::host_link(unsigned host, unsigned card) {
  return host_links_[shape_.fabric_switch ? host : host * shape_.cards + card];
}

void System::submit(Access access, Picoseconds at) {
  std::uint64_t token = accesses_.size();
  if (free_tokens_.empty()) {
    accesses_.push_back(std::move(access));
  } else {
    token = free_tokens_.back();
    free_tokens_.pop_back();
    accesses_[token] = std::move(access);
  }
  const HostShape& host = shape_.host;
  if (shape_.link) {
    schedule(at + host.path + host.bridge + host.protocol, [this, token] { reach_link(token); });
  } else {
    schedule(at + host.path, [this, token] { reach_card(token); });
  }
}

void System::reach_link(std::uint64_t token) {
  const Access& access = accesses_[token];
  way(access.host, card_of(access)).waiting.push_back(token);
  send(access.host, card_of(access));
}

void System::send(unsigned host, unsigned card) {
  Way& from = way(host, card);
  while (from.credits > 0 && !from.waiting.empty()) {
    const std::uint64_t token = from.waiting.front();
    from.waiting.pop_front();
    --from.credits;
    const unsigned halves = accesses_[token].is_write ? kWriteHalves : kRequestHalves;
    const Picoseconds arrived = host_link(host, card).down.send(now_, halves);
    const auto reach = [this, token] { reach_card(token); };
    if (!shape_.fabric_switch) {
      schedule(arrived + shape_.card.protocol, reach);
      continue;
    }
    schedule(arrived + shape_.fabric_switch->port, [this, card, halves, reach] {
      schedule(card_links_[card].down.send(now_, halves) + shape_.card.protocol, reach);
    });
  }
}

void System::reach_card(std::uint64_t token) {
  const Access& access = accesses_[token];
  if (access.at_card) access.at_card(now_);
  cards_[card_of(access)].queue.push_back(token);
}

/// The memory takes what it has room for, in order.
void System::feed(unsigned number) {
  Card& card = cards_[number];
  while (!card.queue.empty()) {
    const std::uint64_t token = card.queue.front();
    const Access& access = accesses_[token];
    if (!(access.is_write ? card.memory.takes_writes() : card.memory.takes_reads())) return;
    if (access.is_write) {
      card.memory.write(token, card_address(access));
    } else {
      card.memory.read(token, card_address(access));
    }
    card.queue.pop_front();
  }
}

/// A credit goes home on the link, with what goes there anyway.
void System::give_back(unsigned host, unsigned card) {
  const Picoseconds hop = shape_.link->flit();
  const Picoseconds flight = shape_.fabric_switch ? 2 * hop + shape_.fabric_switch->port : hop;
  schedule(now_ + flight + shape_.host.protocol, [this, host, card] {
    ++way(host, card).credits;
    send(host, card);
  });
}

void System::answer(std::uint64_t token) {
  const HostShape& host = shape_.host;
  const auto finish = [this, token] {
    const Told done = std::move(accesses_[token].done);
    free_tokens_.push_back(token);
    if (done) done(now_);
  };
  if (!shape_.link) {
    schedule(now_ + host.path, finish);
    return;
  }
  const Access& access = accesses_[token];
  const unsigned card = card_of(access);
  const unsigned halves = access.is_write ? kWrittenHalves : kReadDataHalves;
  const Picoseconds home = host.protocol + host.bridge + host.path;
  schedule(now_ + shape_.card.protocol, [this, number = access.host, card, halves, home, finish] {
    give_back(number, card);
    Link& first = shape_.fabric_switch ? card_links_[card] : host_link(number, card);
    const Picoseconds arrived = first.up.send(now_, halves);
    if (!shape_.fabric_switch) {
      schedule(arrived + home, finish);
      return;
    }
    schedule(arrived + shape_.fabric_switch->port, [this, number, halves, home, finish] {
      schedule(host_link(number, 0).up.send(now_, halves) + home, finish);
    });
  });
}

void System::advance() {
  const Picoseconds cycle = now_ + shape_.card.memory.cycle;
  while (!events_.empty() && events_.top().at < cycle) {
    const Event event = events_.top();
    events_.pop();
    now_ = event.at;
    event.run();
  }
  now_ = cycle;
  for (unsigned number = 0; number < shape_.cards; ++number) {
    feed(number);
    dram::Dram& memory = cards_[number].memory;
    for (unsigned line = 0; line < shape_.card.memory.port_lines; ++line) {
      if (const auto token = memory.answered_read()) answer(*token);
      if (const auto token = memory.answered_write()) answer(*token);
    }
    memory.advance();
  }
}

}  // namespace nearkv::fabric
