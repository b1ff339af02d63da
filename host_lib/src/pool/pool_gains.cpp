// Gains: by what keys are multiplied before they are coded, one set for each (layer, KV head).
#include <algorithm>

#include "page/cold_page.hpp"
#include "page/maintain.hpp"
#include "page/page_view.hpp"
#include "page/window.hpp"
#include "pool/pool_impl.hpp"

namespace nearkv {
namespace {

/// The gains that a page with codes keeps; empty if it is damaged.
std::vector<std::int8_t> gains_in(const Window& window, const nkv_page_entry& entry,
                                  const nkv_page_header& header) {
  if (header.codec == NKV_CODEC_NONE) {
    PageView view;
    if (view.open(window, entry, HeaderDepth::kRows) != Status::kOk ||
        view.verify(NKV_PAGE_ARRAY_K_GAINS) != Status::kOk) {
      return {};
    }
    const auto* const first = view.data<std::int8_t>(NKV_PAGE_ARRAY_K_GAINS);
    return {first, first + header.head_dim};
  }
  if (scrub_page(window, entry) != Status::kOk) return {};
  PageRows rows;
  ColdPageCodec codec;
  const std::span<const std::byte> page = window.at(address_of(entry), page_bytes(header));
  if (codec.unpack(header, page, &rows) != Status::kOk) return {};
  return rows.gains;
}

}  // namespace

HeadGains* Pool::Impl::find_gains(std::uint16_t layer, std::uint16_t kv_head) {
  const ModelShape& shape = options_.shape;
  if (layer >= shape.layers || kv_head >= shape.kv_heads) return nullptr;
  return &gains_[std::size_t{layer} * shape.kv_heads + kv_head];
}

std::vector<std::int8_t> Pool::Impl::gains_of(std::uint16_t layer, std::uint16_t kv_head) {
  const std::vector<std::int8_t>& gains = find_gains(layer, kv_head)->gains;
  return gains.empty() ? std::vector<std::int8_t>(options_.shape.head_dim) : gains;
}

void Pool::Impl::keep_gains(std::uint16_t layer) {
  for (std::uint16_t head = 0; head < options_.shape.kv_heads; ++head) {
    HeadGains* const of_head = find_gains(layer, head);
    if (!of_head->are_kept) *of_head = {gains_of(layer, head), true};
  }
}

void Pool::Impl::take_gains(std::size_t head, const nkv_page_entry& entry,
                            const nkv_page_header& header) {
  if (gains_[head].are_kept || (header.flags & NKV_PAGE_FLAG_CODES) == 0) return;
  gains_[head].gains = gains_in(Window(memory_, kTenant, &pool_->persistence()), entry, header);
  gains_[head].are_kept = !gains_[head].gains.empty();
}

Status Pool::Impl::set_gains(std::uint16_t layer, std::uint16_t kv_head,
                             std::span<const std::int8_t> gains) {
  const std::string what =
      "setting gains of layer " + std::to_string(layer) + ", KV head " + std::to_string(kv_head);
  HeadGains* const head = find_gains(layer, kv_head);
  if (head == nullptr) return fail(Status::kBadArgument, what, "the pool has no such head");
  if (!options_.codes) {
    return fail(Status::kBadArgument, what, "the pool has no codes; make or open it with them");
  }
  if (gains.size() != options_.shape.head_dim) {
    return fail(Status::kBadArgument, what,
                "there are " + std::to_string(gains.size()) + " gains, and a key has " +
                    std::to_string(options_.shape.head_dim) + " channels");
  }
  if (head->are_kept && !std::ranges::equal(head->gains, gains)) {
    return fail(Status::kExists, what,
                "its pages have other gains, by which new pages are coded too; leave them, or "
                "create the pool anew");
  }
  head->gains.assign(gains.begin(), gains.end());
  return Status::kOk;
}

Status Pool::Impl::gains(std::uint16_t layer, std::uint16_t kv_head,
                         std::vector<std::int8_t>* gains) {
  const HeadGains* const head = find_gains(layer, kv_head);
  if (head == nullptr || head->gains.empty()) {
    return fail(Status::kNotFound, "telling the gains of layer " + std::to_string(layer) +
                                       ", KV head " + std::to_string(kv_head));
  }
  *gains = head->gains;
  return Status::kOk;
}

}  // namespace nearkv
