#include "daemon/wire/window.hpp"

#include "page_bytes.hpp"
#include "round_up.hpp"

namespace nearkv {
namespace {

constexpr std::uint64_t kLineBytes = 64;
constexpr std::uint64_t kPageBytes = 4096;

}  // namespace

WindowLayout WindowLayout::make(std::uint64_t request_area_bytes, std::uint64_t data_bytes) {
  WindowLayout layout;
  layout.submissions_at = round_up(sizeof(nkv_daemon_ring_state), kLineBytes);
  layout.completions_at =
      layout.submissions_at + sizeof(nkv_daemon_submission) * NKV_DAEMON_RING_ENTRIES;
  layout.requests_at = round_up(
      layout.completions_at + sizeof(nkv_daemon_completion) * NKV_DAEMON_RING_ENTRIES, kPageBytes);
  layout.request_area_bytes = round_up(request_area_bytes, kPageBytes);
  layout.data_at = round_up(layout.requests_at + layout.request_area_bytes, kHugePageBytes);
  layout.data_bytes = round_up(data_bytes, kPageBytes);
  layout.window_bytes = layout.data_at + layout.data_bytes;
  return layout;
}

WindowView WindowView::make(std::span<std::byte> window, const WindowLayout& layout) {
  WindowView view;
  view.state = reinterpret_cast<nkv_daemon_ring_state*>(window.data());
  view.submissions = {
      reinterpret_cast<nkv_daemon_submission*>(window.data() + layout.submissions_at),
      NKV_DAEMON_RING_ENTRIES};
  view.completions = {
      reinterpret_cast<nkv_daemon_completion*>(window.data() + layout.completions_at),
      NKV_DAEMON_RING_ENTRIES};
  view.requests = window.subspan(layout.requests_at, layout.request_area_bytes);
  view.data = window.subspan(layout.data_at, layout.data_bytes);
  return view;
}

nkv_daemon_welcome welcome_to(const WindowLayout& layout) {
  nkv_daemon_welcome welcome{};
  welcome.magic = NKV_DAEMON_MAGIC;
  welcome.message = NKV_DAEMON_MESSAGE_WELCOME;
  welcome.version = NKV_DAEMON_VERSION;
  welcome.status = NKV_STATUS_OK;
  welcome.window_bytes = layout.window_bytes;
  welcome.submissions_at = layout.submissions_at;
  welcome.completions_at = layout.completions_at;
  welcome.requests_at = layout.requests_at;
  welcome.request_area_bytes = layout.request_area_bytes;
  welcome.data_at = layout.data_at;
  welcome.data_bytes = layout.data_bytes;
  return welcome;
}

}  // namespace nearkv
