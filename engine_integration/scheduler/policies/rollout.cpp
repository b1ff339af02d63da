#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "policies/policies.hpp"

namespace nearkv::scheduler {
namespace {

class Rollout final : public SchedulingPolicy {
 public:
  [[nodiscard]] std::string_view name() const override { return "rollout"; }

  void on_wait(RequestId id, const View& view) override {
    Group& group = groups_[key(id, view)];
    if (view[id].preemptions == 0) ++group.present;
    group.waiting.insert({view[id].order, id});
    reorder(key(id, view), &group);
  }
  void on_leave(RequestId id, const View& view) override {
    Group& group = groups_[key(id, view)];
    group.waiting.erase({view[id].order, id});
    reorder(key(id, view), &group);
  }
  void on_start(RequestId id, const Residency& /*residency*/, const View& view) override {
    Group& group = groups_[key(id, view)];
    if (group.is_computed || group.first != kNoRequest) return;
    group.first = id;
    reorder(key(id, view), &group);
  }
  void on_prefilled(RequestId id, const View& view) override {
    Group& group = groups_[key(id, view)];
    group.is_computed = true;
    reorder(key(id, view), &group);
  }
  void on_stop(RequestId id, const View& view) override {
    Group& group = groups_[key(id, view)];
    if (group.first == id) group.first = kNoRequest;
    reorder(key(id, view), &group);
  }
  void on_end(RequestId id, const View& view) override {
    const std::uint64_t number = key(id, view);
    Group& group = groups_[number];
    group.longest = std::max(group.longest, view[id].generated_tokens);
    reorder(number, &group);
    if (--group.present > 0) return;
    order_.erase(group.place);
    groups_.erase(number);
  }

  [[nodiscard]] std::optional<RequestId> next(const View& /*view*/) override {
    if (order_.empty()) return std::nullopt;
    return groups_[std::get<2>(*order_.begin())].waiting.begin()->second;
  }

 private:
  /// Those that have not begun first, then the longest outputs; then by number.
  using Place = std::tuple<bool, std::int64_t, std::uint64_t>;

  struct Group {
    std::set<std::pair<std::uint64_t, RequestId>> waiting;
    std::uint32_t present = 0;     ///< Samples that have not ended.
    std::uint32_t longest = 0;     ///< Of the outputs that have ended.
    RequestId first = kNoRequest;  ///< Who computes the prompt.
    bool is_computed = false;
    Place place;
  };

  /// Who has no group is one by itself.
  [[nodiscard]] static std::uint64_t key(RequestId id, const View& view) {
    const RequestState& state = view[id];
    if (state.request.group == kNoGroup) return (state.order + 1) << 32;
    return state.request.group;
  }

  /// Only groups of which a sample may start now have a place.
  void reorder(std::uint64_t number, Group* group) {
    order_.erase(group->place);
    const bool waits_for_first = group->first != kNoRequest && !group->is_computed;
    if (group->waiting.empty() || waits_for_first) return;
    // While no output of a group has ended, it may be the longest of all.
    const std::int64_t length = group->longest == 0 ? std::int64_t{1} << 32 : group->longest;
    group->place = {group->is_computed, -length, number};
    order_.insert(group->place);
  }

  std::unordered_map<std::uint64_t, Group> groups_;
  std::set<Place> order_;
};

}  // namespace

std::unique_ptr<SchedulingPolicy> make_rollout() { return std::make_unique<Rollout>(); }

}  // namespace nearkv::scheduler
