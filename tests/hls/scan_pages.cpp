#include "scan_pages.hpp"

#include <bit>
#include <cmath>
#include <stdexcept>

#include "page.hpp"
#include "page_builder.hpp"
#include "rows.hpp"

namespace nearkv::hls_test {

namespace {

constexpr std::uint16_t kTenant = 7;
constexpr std::size_t kPageRoom = 24 * std::size_t{1024};

std::uint16_t to_bf16(double value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16);
}

double normal(test::Random& random) { return std::normal_distribution<double>()(random); }

std::vector<std::uint16_t> key_patterns(const ListShape& shape, std::uint32_t page,
                                        test::Random& random) {
  std::vector<std::uint16_t> patterns(std::size_t{NKV_PAGE_TOKENS} * shape.head_dim);
  std::vector<double> sizes(shape.head_dim);
  std::vector<double> means(shape.head_dim);
  for (std::uint32_t c = 0; c < shape.head_dim; ++c) {
    sizes[c] = std::exp2(static_cast<double>(test::pick(random, 0, 6)) - 3);
    means[c] = shape.keys == Keys::kBiased && page > 0 ? 12.0 * normal(random) : normal(random);
  }
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    const std::size_t c = i % shape.head_dim;
    switch (shape.keys) {
      case Keys::kZero:
        break;
      case Keys::kAnyBits:
        // Mostly of a moderate exponent, or one huge element would hide all others.
        patterns[i] = static_cast<std::uint16_t>(random());
        if (test::pick(random, 0, 4095) != 0) {
          patterns[i] = static_cast<std::uint16_t>((patterns[i] & 0x8fff) | 0x3000);
        }
        if (test::pick(random, 0, 511) == 0) patterns[i] |= 0x7f80;
        break;
      default:
        patterns[i] = to_bf16(sizes[c] * (normal(random) + means[c]));
    }
  }
  return patterns;
}

nkv_page_header identity_of(const ListShape& shape) {
  nkv_page_header header{};
  header.magic = NKV_PAGE_MAGIC;
  header.version = NKV_PAGE_VERSION;
  header.state = NKV_PAGE_STATE_CLOSED;
  header.k_form = NKV_ROW_FORM_RAW;
  header.v_form = NKV_ROW_FORM_NONE;
  header.dtype = NKV_DTYPE_BF16;
  header.codec = NKV_CODEC_NONE;
  header.head_dim = static_cast<std::uint16_t>(shape.head_dim);
  header.generation = 1;
  header.tokens = NKV_PAGE_TOKENS;
  header.tenant = kTenant;
  return header;
}

}  // namespace

void ScanList::add_page(std::uint32_t index, test::Random& random) {
  const auto patterns = key_patterns(shape_, index, random);
  auto page = model::build_page(
      identity_of(shape_),
      {.keys = std::as_bytes(std::span(patterns)), .values = {}, .key_scales = {}});
  if (!page) throw std::logic_error("a RAW page has no exceptions");
  nkv_page_entry entry{};
  entry.page = static_cast<std::uint32_t>(index * kPageRoom / NKV_PAGE_GRAIN_BYTES);
  entry.generation = 1;
  model::publish(model::Window(memory_), *page, &entry);
  entries_.push_back(entry);
}

ScanList::ScanList(const ListShape& shape, test::Random& random)
    : shape_(shape), memory_(shape.pages * kPageRoom) {
  for (std::uint32_t page = 0; page < shape.pages; ++page) add_page(page, random);
  key_exponent_ = model::list_exponents(entries_).key;

  std::vector<float> elements(std::size_t{kScanRows} * shape.head_dim);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const std::size_t row = i / shape.head_dim;
    // The last rows are steep, constant and zero.
    elements[i] = static_cast<float>(
        row == 7   ? 0.0
        : row == 6 ? 1.0
        : row == 5 ? std::exp2(-static_cast<double>(i % shape.head_dim) / 4) * normal(random)
                   : normal(random));
  }
  if (!model::Query::decode(std::as_bytes(std::span(elements)), NKV_DTYPE_FP32, kScanRows,
                            shape.head_dim, &query_)
           .ok()) {
    throw std::logic_error("the query is finite");
  }

  const model::Visibility all{.tokens = shape.pages * NKV_PAGE_TOKENS, .window = 0, .sinks = 0};
  const model::PageDemand demand{.head_dim = static_cast<std::uint16_t>(shape.head_dim),
                                 .value_dim = std::nullopt,
                                 .streamed = {NKV_PAGE_ARRAY_K_ROWS}};
  const model::Domain domain{.window = model::Window(memory_), .tenant = kTenant};
  if (!model::ListedPages::open(domain, entries_, all, demand, &pages_).ok()) {
    throw std::logic_error("the pages are whole");
  }
}

std::int64_t ScanList::score(std::size_t row, std::size_t page, std::uint32_t token) const {
  return model::exact_score(query_.row(row),
                            model::key_row(pages_[page].page, token, key_exponent_));
}

}  // namespace nearkv::hls_test
