#include "fabric/dram/dram.hpp"

namespace nearkv::dram {

Dram::Dram(const Timing& timing, unsigned latency_cycles, unsigned port_lines)
    : timing_(timing),
      path_cycles_(latency_cycles - least_latency(timing)),
      port_lines_(port_lines),
      channels_(timing.channels, Channel(timing)) {}

unsigned Dram::least_latency(const Timing& timing) {
  return (timing.closed_read() + timing.clocks_per_cycle - 1) / timing.clocks_per_cycle;
}

void Dram::read(std::uint64_t token, std::uint64_t address) {
  reads_.push_back({.token = token, .place = place_of(timing_, address)});
}

void Dram::write(std::uint64_t token, std::uint64_t address) {
  writes_.push_back({.token = token, .place = place_of(timing_, address)});
}

void Dram::advance() {
  for (unsigned line = 0; line < port_lines_; ++line) feed();
  for (unsigned clock = 0; clock < timing_.clocks_per_cycle; ++clock) {
    for (Channel& channel : channels_) {
      const std::optional<Channel::Done> done = channel.advance();
      if (done) answer(&read_answers_, done->token, done->clock);
    }
  }
  ++now_;
}

void Dram::feed() {
  const std::uint64_t clock = now_ * timing_.clocks_per_cycle;
  if (!writes_.empty() && channels_[writes_.front().place.channel].takes_writes()) {
    channels_[writes_.front().place.channel].write(writes_.front().place);
    answer(&write_answers_, writes_.front().token, clock);
    writes_.pop_front();
  }
  if (!reads_.empty() && channels_[reads_.front().place.channel].takes_reads()) {
    const Access& read = reads_.front();
    if (!channels_[read.place.channel].read(read.token, read.place)) {
      answer(&read_answers_, read.token, clock);
    }
    reads_.pop_front();
  }
}

void Dram::answer(Answers* answers, std::uint64_t token, std::uint64_t clock) {
  const std::uint64_t cycle = (clock + timing_.clocks_per_cycle - 1) / timing_.clocks_per_cycle;
  answers->push({.at = cycle + path_cycles_, .order = answer_count_++, .token = token});
}

std::optional<std::uint64_t> Dram::next(Answers* answers) {
  if (answers->empty() || answers->top().at > now_) return {};
  const std::uint64_t token = answers->top().token;
  answers->pop();
  return token;
}

}  // namespace nearkv::dram
