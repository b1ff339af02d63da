// What a host does in each round, and how it comes to be one of them.
#include <algorithm>

#include "share/sharing_host.hpp"

namespace nearkv {

Status SharingHost::poll() {
  if (is_fenced_) return Status::kFenced;
  MembershipView view;
  Status status = context_.membership.refresh(&view);
  if (status != Status::kOk) return status;
  if (!view.is_live(context_.self, context_.epoch)) return fenced();
  // The answer of complete() may have been lost: then the view tells of it.
  if (is_completing_ && view.claimant != context_.self) take_completion(view);
  take_view(view);
  follow_logs();
  forget_ended_logs();
  directory_.follow_view();
  answer_messages();
  acknowledge();
  acknowledged_ = lease::acknowledged_by_all(context_);
  reclaim();
  if (is_ready_) lend();
  mailboxes_.deliver();
  if (is_fenced_) return Status::kFenced;
  status = commit();
  if (status != Status::kOk || is_ready_) return status;
  status = become_ready();
  return status == Status::kNotYet ? Status::kOk : status;
}

void SharingHost::take_view(const MembershipView& view) {
  context_.view = view;
  const auto open = [&](const LogName& name) { peers_.try_emplace(name, Peer{LogReader(name)}); };
  for (std::uint16_t host = 0; host < context_.region.hosts(); ++host) {
    const HostRecord& record = view.hosts[host];
    for (const OrphanLog& log : record.orphans) open({host, log.epoch, log.area});
    if (record.is_live && host != context_.self) open({host, record.epoch, record.area});
  }
}

void SharingHost::follow(Peer* peer) {
  if (!peer->reader.look(context_.memory, context_.region) || !counts(peer->reader.name())) return;
  while (const auto entry = peer->reader.next(context_.memory, context_.region)) {
    apply(*entry, peer->reader.name(), &peer->index);
  }
  if (!peer->reader.has_caught_up() && peer->reader.has_fallen_behind()) {
    peer->index.clear();
    peer->reader.skip_to_tail();
  }
}

void SharingHost::follow_logs() {
  for (auto& [name, peer] : peers_) follow(&peer);
}

void SharingHost::forget_ended_logs() {
  // After the others have been followed: what stood there stands in its successor's log.
  std::erase_if(peers_, [&](const auto& item) {
    return !context_.view.is_live(item.first.host, item.first.epoch) && !is_orphan(item.first);
  });
}

bool SharingHost::is_current(const nkv_share_entry& object) const {
  const auto holds = [&](const ObjectIndex& index) {
    const nkv_share_entry* const found = index.find(id_of(object));
    return found != nullptr && found->version == object.version;
  };
  return holds(own_) ||
         std::ranges::any_of(peers_, [&](const auto& item) { return holds(item.second.index); });
}

void SharingHost::answer_messages() {
  mailboxes_.receive([&](std::uint16_t from, const nkv_share_message& message) {
    if (message.kind == NKV_SHARE_MESSAGE_KIND_ASK) {
      borrow_.take(from, message);
    } else {
      directory_.take(from, message);
    }
  });
  directory_.advance();
}

void SharingHost::acknowledge() {
  if (!leases_.publish([&](const nkv_share_entry& object) { return is_current(object); })) return;
  acted_revision_ = context_.view.revision;
  for (const auto& [name, peer] : peers_) {
    if (!context_.view.is_live(name.host, name.epoch)) continue;
    leases_.acknowledge(name.host, name.epoch, peer.reader.taken(), mailboxes_.taken(name.host));
  }
}

bool SharingHost::all_act_on(std::uint64_t revision) const {
  return std::ranges::all_of(peers_, [&](const auto& item) {
    return !context_.view.is_live(item.first.host, item.first.epoch) ||
           item.second.reader.line().view_revision >= revision;
  });
}

void SharingHost::reclaim() {
  const bool is_quiet = context_.view.is_quiet();
  space_.reclaim(
      [&](const Grace& grace) {
        return grace.log_number <= std::min(acknowledged_, log_.published()) &&
               all_act_on(grace.view_revision) && (is_quiet || !grace.needs_quiet);
      },
      [&](const Place& place) {
        return leases_.is_pinned(place) || lease::is_leased(context_, place);
      });
}

void SharingHost::lend() {
  while (const auto gift = borrow_.next_gift()) {
    if (append(*gift, nullptr) != Status::kOk) {
      space_.take_back(*gift);
      break;
    }
  }
  borrow_.seek([&](std::uint16_t host) {
    const auto found = std::ranges::find_if(peers_, [&](const auto& item) {
      return item.first.host == host && context_.view.is_live(host, item.first.epoch);
    });
    return found == peers_.end() ? 0 : found->second.reader.line().free_extents;
  });
}

bool SharingHost::is_orphan(const LogName& name) const {
  return std::ranges::any_of(context_.view.hosts[name.host].orphans,
                             [&](const OrphanLog& log) { return log.epoch == name.epoch; });
}

bool SharingHost::counts(const LogName& name) const {
  const bool is_live = context_.view.is_live(name.host, name.epoch);
  return is_live ? context_.view.hosts[name.host].is_active : is_orphan(name);
}

bool SharingHost::has_all_logs() const {
  return std::ranges::all_of(peers_, [&](const auto& item) {
    const LogReader& reader = item.second.reader;
    if (!context_.view.is_live(item.first.host, item.first.epoch)) {
      return reader.has_caught_up() || !is_orphan(item.first);
    }
    return reader.is_fresh() &&
           (counts(item.first) ? reader.has_caught_up() : reader.line().epoch != 0);
  });
}

Status SharingHost::become_ready() {
  if (!has_all_logs() || !all_act_on(joined_revision_)) return Status::kNotYet;
  if (!context_.view.hosts[context_.self].orphans.empty()) {
    const Status status = adopt();
    if (status != Status::kOk) return status;
  } else {
    MembershipView view;
    const Status status = context_.membership.activate(&view);
    if (status != Status::kOk) return status == Status::kFenced ? fenced() : status;
    sort_space(view.revision);
    take_view(view);
  }
  is_ready_ = true;
  return Status::kOk;
}

void SharingHost::sort_space(std::uint64_t view_revision) {
  std::vector<bool> is_used(context_.region.extents());
  for (const auto& [id, object] : own_.objects()) {
    const std::uint32_t end = object.first_extent + context_.region.extents_for(object.length);
    for (std::uint32_t i = object.first_extent; i < end; ++i) is_used[i] = true;
  }
  space_.sort([&](std::uint32_t extent) { return is_used[extent]; },
              {log_.published(), view_revision, true});
}

Status SharingHost::adopt() {
  if (is_fenced_) return Status::kFenced;
  if (context_.view.claimant != context_.self) {
    MembershipView view;
    const Status status = context_.membership.claim(&view);
    if (status == Status::kFenced) return fenced();
    if (status != Status::kOk) return status;
    take_view(view);
  }
  // Also of the living: a log speaks of extents that others had given to its host.
  follow_logs();
  if (!has_all_logs()) return Status::kNotYet;
  for (auto& [name, peer] : peers_) {
    if (!is_orphan(name)) continue;
    const Status status = read_orphan(&peer);
    if (status != Status::kOk) return status;
  }
  Status status = inherit();
  if (status != Status::kOk) return status;
  MembershipView view;
  is_completing_ = true;
  status = context_.membership.complete(&view);
  if (status == Status::kFenced) return fenced();
  if (status != Status::kOk) return status;
  take_completion(view);
  take_view(view);
  return Status::kOk;
}

void SharingHost::take_completion(const MembershipView& view) {
  is_completing_ = false;
  adopted_revision_ = view.revision;
  sort_space(view.revision);
}

Status SharingHost::read_orphan(Peer* peer) {
  // Beyond the head stands what was confirmed but not yet said so.
  while (const auto entry = peer->reader.next_written(context_.memory, context_.region)) {
    apply(*entry, peer->reader.name(), &peer->index);
  }
  return peer->reader.has_caught_up() ? Status::kOk : Status::kNotYet;
}

Status SharingHost::inherit() {
  // An entry that stood in several logs is counted to one of them, which may be gone already.
  std::vector<LogName> lasting{log_.name()};
  std::vector<bool> heirless(context_.view.hosts.size());
  for (const auto& item : peers_) {
    const LogName& name = item.first;
    const auto& orphans = context_.view.hosts[name.host].orphans;
    const bool is_claimed = std::ranges::any_of(
        orphans, [&](const OrphanLog& log) { return log.epoch == name.epoch && log.is_claimed; });
    if (context_.view.is_live(name.host, name.epoch)) lasting.push_back(name);
    if (!is_claimed) continue;
    heirless[name.host] = name.host != context_.self;
    for (const auto& [id, object] : item.second.index.objects()) {
      const nkv_share_entry* const known = own_.find(id);
      if (known != nullptr && known->version >= object.version) continue;
      const Status status = append(object, nullptr);
      if (status != Status::kOk) return status;
    }
  }
  for (const nkv_share_entry& entry : space_.inherit(lasting, heirless)) {
    const Status status = append(entry, nullptr);
    if (status != Status::kOk) return status;
  }
  return commit();
}

}  // namespace nearkv
