#include "attend_pages.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <stdexcept>

#include "page_builder.hpp"

namespace nearkv::hls_test {

namespace {

constexpr std::uint16_t kTenant = 7;
constexpr std::size_t kPageRoom = 128 * std::size_t{1024};

std::uint16_t to_bf16(double value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16);
}

double normal(test::Random& random) { return std::normal_distribution<double>()(random); }

std::vector<std::uint16_t> some_patterns(const AttendShape& shape, std::uint32_t dim,
                                         test::Random& random) {
  std::vector<std::uint16_t> patterns(std::size_t{NKV_PAGE_TOKENS} * dim);
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    patterns[i] = to_bf16(std::exp2(static_cast<double>(i % dim % 7) - 3) * normal(random));
    const bool is_odd = shape.any_bits && test::pick(random, 0, 511) == 0;
    if (is_odd) patterns[i] = static_cast<std::uint16_t>(random());
  }
  return patterns;
}

// DELTA4 has room for few exceptions: what would be one becomes zero, but for a handful.
void make_fit(std::vector<std::uint16_t>& patterns, std::uint32_t dim) {
  int exceptions = 0;
  for (std::size_t c = 0; c < dim; ++c) {
    int largest = 0;
    for (std::size_t t = 0; t < NKV_PAGE_TOKENS; ++t) {
      const int exponent = patterns[t * dim + c] >> 7 & 0xff;
      if (exponent != 0xff) largest = std::max(largest, exponent);
    }
    for (std::size_t t = 0; t < NKV_PAGE_TOKENS; ++t) {
      std::uint16_t& pattern = patterns[t * dim + c];
      const int exponent = pattern >> 7 & 0xff;
      const bool fits = exponent <= largest && exponent > std::max(largest - 15, 0);
      if (fits || (pattern & 0x7fff) == 0 || exceptions++ < 8) continue;
      pattern = 0;
    }
  }
}

}  // namespace

AttendPages::AttendPages(const AttendShape& shape, test::Random& random)
    : shape_(shape), memory_(shape.pages * kPageRoom) {
  for (std::uint32_t page = 0; page < shape.pages; ++page) add_page(page, random);
  input_.exponents = model::list_exponents(input_.entries);
  input_.visibility = shape.visibility;
  if (input_.visibility.tokens == 0) input_.visibility.tokens = shape.pages * NKV_PAGE_TOKENS;

  std::vector<float> elements(std::size_t{shape.group} * shape.head_dim);
  for (float& element : elements) element = static_cast<float>(normal(random));
  if (!model::Query::decode(std::as_bytes(std::span(elements)), NKV_DTYPE_FP32, shape.group,
                            shape.head_dim, &input_.query)
           .ok()) {
    throw std::logic_error("the query is finite");
  }
  const model::PageDemand demand{.head_dim = static_cast<std::uint16_t>(shape.head_dim),
                                 .value_dim = static_cast<std::uint16_t>(shape.value_dim),
                                 .streamed = {NKV_PAGE_ARRAY_K_EXPONENTS, NKV_PAGE_ARRAY_K_ROWS,
                                              NKV_PAGE_ARRAY_V_EXPONENTS, NKV_PAGE_ARRAY_V_ROWS}};
  const model::Domain domain{.window = model::Window(memory_), .tenant = kTenant};
  if (!model::ListedPages::open(domain, input_.entries, input_.visibility, demand, &pages_).ok()) {
    throw std::logic_error("the pages are whole");
  }
}

void AttendPages::add_page(std::uint32_t index, test::Random& random) {
  nkv_page_header header{};
  header.magic = NKV_PAGE_MAGIC;
  header.version = NKV_PAGE_VERSION;
  header.state = NKV_PAGE_STATE_CLOSED;
  header.k_form = shape_.form;
  header.v_form = shape_.form;
  header.dtype = NKV_DTYPE_BF16;
  header.codec = NKV_CODEC_NONE;
  header.head_dim = static_cast<std::uint16_t>(shape_.head_dim);
  header.value_dim = static_cast<std::uint16_t>(shape_.value_dim);
  header.generation = 1;
  header.tokens = NKV_PAGE_TOKENS;
  header.tenant = kTenant;
  auto keys = some_patterns(shape_, shape_.head_dim, random);
  auto values = some_patterns(shape_, shape_.value_dim, random);
  if (shape_.form == NKV_ROW_FORM_DELTA4) {
    make_fit(keys, shape_.head_dim);
    make_fit(values, shape_.value_dim);
  }
  const auto page = model::build_page(header, {.keys = std::as_bytes(std::span(keys)),
                                               .values = std::as_bytes(std::span(values)),
                                               .key_scales = {}});
  if (!page) throw std::logic_error("the rows have few exceptions");
  nkv_page_entry entry{};
  entry.page = static_cast<std::uint32_t>(index * kPageRoom / NKV_PAGE_GRAIN_BYTES);
  entry.generation = 1;
  model::publish(model::Window(memory_), *page, &entry);
  input_.entries.push_back(entry);
}

model::AttendAnswer AttendPages::attend() const {
  nkv_attend_command command{};
  command.group = static_cast<decltype(command.group)>(shape_.group);
  command.head_dim = static_cast<std::uint16_t>(shape_.head_dim);
  command.value_dim = static_cast<std::uint16_t>(shape_.value_dim);
  command.flags = shape_.base2 ? NKV_ATTEND_FLAG_LSE_BASE2 : 0;
  auto memory = memory_;
  const model::Domain domain{.window = model::Window(memory), .tenant = kTenant};
  return model::attend_dense(
      {.domain = domain,
       .command = command,
       .input = input_,
       .scale = model::LogitScale(shape_.scale, shape_.soft_cap, input_.exponents.key)});
}

}  // namespace nearkv::hls_test
