// A membership that decides at once and tells late.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "share/membership.hpp"
#include "support/seed.hpp"

namespace nearkv::test {

/// The service: all states that there have been.
class MembershipOracle {
 public:
  explicit MembershipOracle(std::uint16_t hosts) { states_.emplace_back().hosts.resize(hosts); }

  [[nodiscard]] const MembershipView& now() const { return states_.back(); }
  [[nodiscard]] const MembershipView& at(std::uint64_t revision) const { return states_[revision]; }

  /// Applies a transition.
  Status change(const std::function<Status(MembershipView*)>& transition) {
    MembershipView next = now();
    const Status status = transition(&next);
    if (status == Status::kOk) states_.push_back(next);
    return status;
  }

 private:
  std::vector<MembershipView> states_;  ///< By revision.
};

/// A host's client. Views are as old as they please, but never older than the last one.
class OracleMembership : public Membership {
 public:
  OracleMembership(MembershipOracle* oracle, std::uint16_t host, Random* random,
                   std::function<void()> before_call, std::function<void()> after_change)
      : oracle_(*oracle),
        host_(host),
        random_(*random),
        before_call_(std::move(before_call)),
        after_change_(std::move(after_change)) {}

  void set_calm(bool is_calm) { is_calm_ = is_calm; }

  [[nodiscard]] Status refresh(MembershipView* view) override {
    before_call_();
    const std::uint64_t newest = oracle_.now().revision;
    if (is_calm_ || random_() % 2 == 0) {
      seen_ = newest;
    } else {
      seen_ += random_() % (newest - seen_ + 1);
    }
    *view = oracle_.at(seen_);
    return Status::kOk;
  }

  [[nodiscard]] Status join(MembershipView* view) override {
    const Status status =
        change(view, [&](MembershipView* next) { return transition::join(next, host_); });
    if (status == Status::kOk) epoch_ = view->hosts[host_].epoch;
    return status;
  }
  [[nodiscard]] Status activate(MembershipView* view) override {
    return change(view,
                  [&](MembershipView* next) { return transition::activate(next, host_, epoch_); });
  }
  [[nodiscard]] Status declare_quiet(std::uint32_t epoch, MembershipView* view) override {
    return change(
        view, [&](MembershipView* next) { return transition::declare_quiet(next, host_, epoch); });
  }
  [[nodiscard]] Status claim(MembershipView* view) override {
    return change(view,
                  [&](MembershipView* next) { return transition::claim(next, host_, epoch_); });
  }
  [[nodiscard]] Status complete(MembershipView* view) override {
    return change(view,
                  [&](MembershipView* next) { return transition::complete(next, host_, epoch_); });
  }

  [[nodiscard]] bool confirm() override {
    before_call_();
    const bool is_live = oracle_.now().is_live(host_, epoch_);
    before_call_();
    return is_live;
  }

 private:
  Status change(MembershipView* view, const std::function<Status(MembershipView*)>& transition) {
    before_call_();
    const Status status = oracle_.change(transition);
    *view = oracle_.now();
    seen_ = view->revision;
    after_change_();
    return status;
  }

  MembershipOracle& oracle_;
  std::uint16_t host_;
  Random& random_;
  std::function<void()> before_call_;
  std::function<void()> after_change_;
  bool is_calm_ = false;
  std::uint32_t epoch_ = 0;
  std::uint64_t seen_ = 0;
};

}  // namespace nearkv::test
