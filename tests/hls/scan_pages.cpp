#include "scan_pages.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "crc32c.hpp"
#include "page.hpp"
#include "page_builder.hpp"
#include "rows.hpp"

namespace nearkv::hls_test {

namespace {

constexpr std::uint16_t kTenant = 7;
constexpr std::size_t kPageRoom = 96 * std::size_t{1024};

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

// Any digest; exponents about where weights neither vanish nor stop at the limit of g, or beyond.
void forge(model::BuiltPage* page, test::Random& random) {
  nkv_page_header& header = page->header;
  const nkv_page_shape shape = model::shape_of(header);
  nkv_page_layout layout;
  nkv_lay_out_page(&shape, &layout);
  const auto digest =
      std::span(page->bytes)
          .subspan(layout.offset[NKV_PAGE_ARRAY_K_DIGEST], layout.bytes[NKV_PAGE_ARRAY_K_DIGEST]);
  for (std::byte& byte : digest) byte = static_cast<std::byte>(random());
  header.k_exponent = static_cast<std::uint8_t>(test::pick(random, 120, 130));
  switch (test::pick(random, 0, 3)) {
    case 0:
      header.k_step_exponent = static_cast<std::int16_t>(random());
      break;
    case 1:
      header.k_step_exponent = static_cast<std::int16_t>(32767);
      break;
    default:
      header.k_step_exponent =
          static_cast<std::int16_t>(static_cast<int>(test::pick(random, 0, 60)) - 40);
  }
  header.crc_k_digest = model::crc32c(digest);
}

}  // namespace

void ScanList::add_page(std::uint32_t index, test::Random& random) {
  const auto patterns = key_patterns(shape_, index, random);
  auto page = model::build_page(
      identity_of(shape_),
      {.keys = std::as_bytes(std::span(patterns)), .values = {}, .key_scales = {}});
  if (!page) throw std::logic_error("a RAW page has no exceptions");
  if (shape_.keys == Keys::kForged) {
    forge(&*page, random);
    nkv_page_header& header = page->header;
    std::memcpy(page->bytes.data(), &header, sizeof(header));
    // Checksums of the header cover what was forged.
    header.crc_hot = model::crc32c(
        std::as_bytes(std::span(&header, 1)).first(offsetof(nkv_page_header, crc_hot)));
    std::memcpy(page->bytes.data(), &header, sizeof(header));
  }
  nkv_page_entry entry{};
  entry.page = static_cast<std::uint32_t>(index * kPageRoom / NKV_PAGE_GRAIN_BYTES);
  entry.generation = 1;
  model::publish(model::Window(memory_), *page, &entry);
  entries_.push_back(entry);
}

ScanList::ScanList(const ListShape& shape, test::Random& random)
    : shape_(shape), memory_(shape.pages * kPageRoom) {
  if (shape_.visibility.tokens == 0) shape_.visibility.tokens = shape.pages * NKV_PAGE_TOKENS;
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

  model::PageDemand demand{.head_dim = static_cast<std::uint16_t>(shape.head_dim),
                           .value_dim = std::nullopt,
                           .whole_header = false,
                           .streamed = {NKV_PAGE_ARRAY_K_DIGEST}};
  const model::Domain domain{.window = model::Window(memory_), .tenant = kTenant};
  if (!model::ListedPages::open(domain, entries_, shape_.visibility, demand, &pages_).ok()) {
    throw std::logic_error("the pages are whole");
  }
}

std::int64_t ScanList::score(std::size_t row, std::size_t page, std::uint32_t token) const {
  return model::exact_score(query_.row(row),
                            model::key_row(pages_[page].page, token, key_exponent_));
}

}  // namespace nearkv::hls_test
