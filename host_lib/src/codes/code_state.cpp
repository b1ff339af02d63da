#include "codes/code_state.hpp"

namespace nearkv {

void CodeState::reset(std::size_t pages, const Query& query, std::size_t value_dim) {
  rows_ = query.rows();
  pages_.resize(pages);
  reads_.assign(pages, {});
  row_pages_.resize(pages * rows_);
  has_key_factors_.resize(pages);
  above_.reserve(pages * rows_ * NKV_PAGE_TOKENS);
  drawn_.reserve(pages * rows_ * NKV_PAGE_TOKENS);
  key_granules_ = Granules::of(query.dim());
  value_granules_ = value_dim == 0 ? Granules{} : Granules::of(value_dim);
  key_planes_.assign(pages * key_granules_.count, 1);
  value_planes_.assign(pages * value_granules_.count, 0);
  exact_rows_.clear();
  exact_.clear();
}

std::span<std::int64_t> CodeState::add_exact(std::size_t page, std::size_t token) {
  PageReads& reads = reads_[page];
  reads.key_rows |= std::uint64_t{1} << token;
  const std::size_t place = exact_rows_.size();
  exact_rows_.push_back({static_cast<std::uint32_t>(token), reads.first_exact});
  reads.first_exact = static_cast<std::int32_t>(place);
  exact_.resize(exact_.size() + rows_);
  return std::span(exact_).subspan(place * rows_, rows_);
}

}  // namespace nearkv
