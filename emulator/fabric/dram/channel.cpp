#include "fabric/dram/channel.hpp"

#include <algorithm>
#include <bitset>

namespace nearkv::dram {

Channel::Channel(const Timing& timing)
    : timing_(timing), banks_(timing), refresh_at_(timing.refresh.interval) {}

bool Channel::read(std::uint64_t token, const Place& place) {
  if (std::ranges::find(writes_, place, &Request::place) != writes_.end()) {
    ++counts_.forwards;
    return false;
  }
  reads_.push_back({.token = token, .place = place, .arrived = now_, .columns = timing_.columns});
  wake_ = now_;
  return true;
}

void Channel::write(const Place& place) {
  if (std::ranges::find(writes_, place, &Request::place) != writes_.end()) {
    ++counts_.forwards;
    return;
  }
  writes_.push_back({.token = 0, .place = place, .arrived = now_, .columns = timing_.columns});
  wake_ = now_;
}

std::optional<Channel::Done> Channel::advance() {
  std::optional<Done> done;
  if (now_ >= wake_) {
    wake_ = std::max(refresh_at_, now_ + 1);
    take_turns();
    if (now_ >= refresh_at_) refresh();
    const Choice choice = choose();
    // Column commands go first where they share the bus; the row command's request is still there.
    if (choice.column == kNone || timing_.has_row_bus) issue_row(choice);
    if (choice.column != kNone) done = issue_column(choice.column);
  }
  ++now_;
  return done;
}

void Channel::take_turns() {
  const bool is_over = turn_lines_ >= kBatch;
  const bool ends = writes_turn_ ? writes_.empty() || (!reads_.empty() &&
                                                       (is_over || writes_.size() <= kFewWrites))
                                 : (reads_.empty() ? writes_.size() >= kSomeWrites
                                                   : is_over && writes_.size() >= kManyWrites);
  if (!ends) return;
  writes_turn_ = !writes_turn_;
  turn_lines_ = 0;
}

void Channel::refresh() {
  const bool is_closed = banks_.is_slice_closed(refresh_slice_);
  const Operation operation = is_closed ? Operation::kRefresh : Operation::kPrechargeSlice;
  if (!is_due(operation, refresh_slice_)) return;
  issue(operation, refresh_slice_, 0);
  if (!is_closed) return;
  ++counts_.refreshes;
  refresh_at_ += timing_.refresh.interval;
  refresh_slice_ = (refresh_slice_ + 1) % timing_.refresh.slices;
}

bool Channel::is_refreshing(unsigned bank) const {
  return now_ >= refresh_at_ && timing_.slice_of(bank) == refresh_slice_;
}

Channel::Choice Channel::choose() {
  const std::vector<Request>& requests = queue();
  const Operation column = writes_turn_ ? Operation::kWrite : Operation::kRead;
  const bool is_starved = !requests.empty() && now_ - requests.front().arrived > kStarved;
  Choice choice;
  std::bitset<kMostBanks> is_hit;   // Some request wants the open row.
  std::bitset<kMostBanks> is_seen;  // The oldest that wants another one stands in `conflicts`.
  std::array<std::size_t, kMostBanks> conflicts{};
  std::size_t conflict_count = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Place& place = requests[i].place;
    if (is_refreshing(place.bank)) continue;
    if (is_starved && place.bank == requests.front().place.bank &&
        place.row != requests.front().place.row) {
      continue;
    }
    const std::uint64_t open_row = banks_.row(place.bank);
    if (open_row == place.row) {
      is_hit.set(place.bank);
      if (choice.column == kNone && is_due(column, place.bank)) choice.column = i;
    } else if (!is_seen.test(place.bank)) {
      is_seen.set(place.bank);
      if (open_row != Banks::kClosed) {
        conflicts.at(conflict_count++) = i;
      } else if (choice.activate == kNone && is_due(Operation::kActivate, place.bank)) {
        choice.activate = i;
      }
    }
  }
  for (std::size_t i = 0; i < conflict_count && choice.precharge == kNone; ++i) {
    const unsigned bank = requests[conflicts.at(i)].place.bank;
    if (!is_hit.test(bank) && is_due(Operation::kPrecharge, bank))
      choice.precharge = conflicts.at(i);
  }
  return choice;
}

bool Channel::is_due(Operation operation, unsigned bank) {
  const std::uint64_t earliest = banks_.earliest(operation, bank);
  if (earliest > now_) wake_ = std::min(wake_, earliest);
  return earliest <= now_;
}

void Channel::issue(Operation operation, unsigned bank, std::uint64_t row) {
  const Command command{.clock = now_, .operation = operation, .bank = bank, .row = row};
  banks_.issue(command);
  if (log_ != nullptr) log_->push_back(command);
  wake_ = now_ + 1;
}

void Channel::issue_row(const Choice& choice) {
  const bool activates = choice.activate != kNone;
  const std::size_t index = activates ? choice.activate : choice.precharge;
  if (index == kNone) return;
  Request& request = queue()[index];
  const Operation operation = activates ? Operation::kActivate : Operation::kPrecharge;
  issue(operation, request.place.bank, request.place.row);
  if (!activates) {
    request.cause = Cause::kConflict;
  } else if (request.cause == Cause::kHit) {
    request.cause = Cause::kMiss;
  }
}

std::optional<Channel::Done> Channel::issue_column(std::size_t index) {
  Request& request = queue()[index];
  issue(writes_turn_ ? Operation::kWrite : Operation::kRead, request.place.bank, request.place.row);
  if (--request.columns != 0) return {};
  count(request.cause);
  ++turn_lines_;
  const std::uint64_t token = request.token;
  queue().erase(queue().begin() + static_cast<std::ptrdiff_t>(index));
  if (writes_turn_) return {};
  return Done{.token = token, .clock = now_ + timing_.cl + timing_.burst};
}

void Channel::count(Cause cause) {
  counts_.hits += cause == Cause::kHit ? 1 : 0;
  counts_.misses += cause == Cause::kMiss ? 1 : 0;
  counts_.conflicts += cause == Cause::kConflict ? 1 : 0;
}

}  // namespace nearkv::dram
