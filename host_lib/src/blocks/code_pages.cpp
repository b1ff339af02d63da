#include "blocks/code_pages.hpp"

#include <algorithm>
#include <new>

#include "codes/code_form.hpp"
#include "page/page_view.hpp"
#include "round_up.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kTokens = NKV_PAGE_TOKENS;

nkv_page_shape page_shape(const BlockCache& cache) {
  nkv_page_shape shape{};
  shape.k_form = shape.v_form = NKV_ROW_FORM_RAW;
  shape.dtype = cache.dtype;
  shape.flags = NKV_PAGE_FLAG_CODES;
  shape.head_dim = shape.value_dim = static_cast<std::uint16_t>(cache.head_dim);
  return shape;
}

}  // namespace

CodePages::Memory::Memory(std::size_t bytes)
    : memory_(static_cast<std::byte*>(std::calloc(bytes + NKV_PAGE_GRAIN_BYTES, 1))) {
  if (memory_ == nullptr) throw std::bad_alloc();
  const auto address = reinterpret_cast<std::uintptr_t>(memory_.get());
  bytes_ = {memory_.get() + (round_up(address, NKV_PAGE_GRAIN_BYTES) - address), bytes};
}

CodePages::CodePages(const BlockCache& cache, std::span<const std::int8_t> gains)
    : cache_(cache),
      parts_(cache.block_tokens / NKV_PAGE_TOKENS),
      shape_(page_shape(cache)),
      gains_(gains.begin(), gains.end()),
      page_bytes_(lay_out_without_rows(shape_).total_bytes),
      memory_(cache.blocks * parts_ * cache.kv_heads * page_bytes_),
      lent_rows_(rows_shape()),
      pages_(cache.blocks * parts_ * cache.kv_heads),
      known_(cache.blocks * parts_) {
  gains_.resize(std::size_t{cache.kv_heads} * cache.head_dim);
}

LentRows::Shape CodePages::rows_shape() const {
  LentRows::Shape shape;
  shape.pages = memory_.bytes().data();
  shape.page_bytes = page_bytes_;
  shape.rows = {cache_.keys, cache_.values};
  shape.kv_heads = cache_.kv_heads;
  shape.parts = parts_;
  shape.row_bytes = cache_.row_bytes();
  shape.head_stride_bytes = cache_.head_stride_bytes;
  shape.block_stride_bytes = cache_.block_stride_bytes;
  return shape;
}

bool CodePages::is_of(const BlockCache& cache) const {
  return cache.keys == cache_.keys && cache.values == cache_.values &&
         cache.blocks == cache_.blocks && cache.block_stride_bytes == cache_.block_stride_bytes &&
         cache.head_stride_bytes == cache_.head_stride_bytes && cache.kv_heads == cache_.kv_heads &&
         cache.head_dim == cache_.head_dim && cache.block_tokens == cache_.block_tokens &&
         cache.dtype == cache_.dtype && cache.layout == cache_.layout;
}

void CodePages::forget(std::span<const std::int64_t> slots) {
  for (const std::int64_t slot : slots) {
    const auto page = static_cast<std::uint64_t>(slot) / kTokens;  // A negative one is beyond all.
    if (page < known_.size() && static_cast<std::uint64_t>(slot) % kTokens < known_[page]) {
      known_[page] = 0;
    }
  }
}

bool CodePages::set_gains(std::span<const std::int8_t> gains) {
  if (gains.size() != gains_.size()) return false;
  std::ranges::copy(gains, gains_.begin());
  std::ranges::fill(known_, std::uint8_t{0});
  return true;
}

void CodePages::bring_up_to_date(const std::int32_t* table, std::size_t first, std::size_t end,
                                 std::vector<UncodedTokens>* uncoded) {
  for (std::size_t page = first / kTokens; page * kTokens < end; ++page) {
    const std::uint32_t number = number_of(table, page);
    const std::size_t rows = std::min(kTokens, end - page * kTokens);
    if (known_[number] >= rows) continue;
    const UncodedTokens tokens{number, static_cast<std::uint32_t>(page)};
    if (rows == kTokens) {
      uncoded->push_back(tokens);
    } else {
      describe(tokens, rows);
    }
    known_[number] = static_cast<std::uint8_t>(rows);
  }
}

PageIdentity CodePages::begin_page(const UncodedTokens& tokens, std::size_t place) {
  pages_[place].entry.page = static_cast<std::uint32_t>(place * page_bytes_ / NKV_PAGE_GRAIN_BYTES);
  PageIdentity identity;
  identity.first_token = tokens.position * NKV_PAGE_TOKENS;
  return identity;
}

/// Adds rows that are new to what the newest tokens' pages say.
void CodePages::describe(const UncodedTokens& tokens, std::size_t rows) {
  nkv_page_shape plain = shape_;
  plain.flags = 0;
  const std::size_t known = known_[tokens.number];
  const std::size_t row_bytes = cache_.row_bytes();
  for (std::size_t head = 0; head < cache_.kv_heads; ++head) {
    const std::size_t place = place_of(tokens.number, head);
    const std::span<std::byte> page = page_at(place);
    const LentRows::Place from = lent_rows_.of(page.data());
    RowSummary summary =
        summary_of(plain, {from.keys + known * row_bytes, row_bytes},
                   {from.values + known * row_bytes, row_bytes}, known, rows - known);
    Page& told = pages_[place];
    if (known != 0) {
      summary.add(told.rows);
      if (summary == told.rows) continue;  // As for most rows: what the page says holds.
    }
    told.rows = summary;
    describe_without_rows(plain, summary, begin_page(tokens, place), page, &told.entry);
  }
}

void CodePages::encode(const UncodedTokens& tokens, std::size_t head) {
  const std::size_t place = place_of(tokens.number, head);
  const std::span<std::byte> page = page_at(place);
  const LentRows::Place rows = lent_rows_.of(page.data());
  PageContents contents;
  contents.keys = {rows.keys, cache_.row_bytes()};
  contents.values = {rows.values, cache_.row_bytes()};
  contents.gains = std::span(gains_).subspan(head * cache_.head_dim, cache_.head_dim);
  contents.sign_set = sign_set_of(tokens.position, 0);
  Page& told = pages_[place];
  told.rows = encode_without_rows(shape_, contents, begin_page(tokens, place), page, &told.entry);
}

void CodePages::give_up(std::span<const UncodedTokens> tokens) {
  for (const UncodedTokens& some : tokens) known_[some.number] = 0;
}

bool CodePages::list(const std::int32_t* table, std::size_t head, std::size_t first,
                     std::size_t end, std::vector<nkv_page_entry>* entries) const {
  entries->assign((end + kTokens - 1) / kTokens, {});
  bool are_finite = true;
  for (std::size_t page = first / kTokens; page < entries->size(); ++page) {
    const Page& told = pages_[place_of(number_of(table, page), head)];
    (*entries)[page] = told.entry;
    are_finite &= told.rows.is_finite();
  }
  return are_finite;
}

}  // namespace nearkv
