#include "sequences.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "support/elements.hpp"

namespace nearkv::test {
namespace {

std::uint32_t pattern_bits(std::uint8_t dtype) { return 8 * nkv_element_bytes(dtype); }

std::uint32_t any_pattern(std::uint8_t dtype, Random& random) {
  return static_cast<std::uint32_t>(random()) >> (32 - pattern_bits(dtype));
}

/// NaN, infinities, the smallest subnormals, -0, the largest finite numbers: patterns next to the
/// ends of both signs' ranges.
std::uint32_t special_pattern(std::uint8_t dtype, Random& random) {
  const std::uint32_t sign = 1U << (pattern_bits(dtype) - 1);
  const std::uint32_t infinity = dtype == NKV_DTYPE_BF16       ? 0x7F80
                                 : dtype == NKV_DTYPE_FP16     ? 0x7C00
                                 : dtype == NKV_DTYPE_FP8_E5M2 ? 0x7C
                                                               : 0x7F;
  const std::uint32_t choices[] = {0, 0, 1, 2, infinity, infinity | 1, sign - 1};
  return choices[pick(random, 0, 6)] | (random() % 2 == 0 ? sign : 0);
}

double largest_of(std::uint8_t dtype) {
  switch (dtype) {
    case NKV_DTYPE_FP16:
    case NKV_DTYPE_FP8_E4M3:
    case NKV_DTYPE_FP8_E5M2:
      return 4.0;
    case NKV_DTYPE_INT8:
      return 40.0;
    default:
      return 1.0;
  }
}

nkv_page_shape page_shape(const ListShape& shape) {
  nkv_page_shape page{};
  page.k_form = shape.k_form;
  page.v_form = shape.v_form;
  page.dtype = shape.dtype;
  if (shape.key_scales) page.flags |= NKV_PAGE_FLAG_KEY_SCALES;
  if (shape.codes) page.flags |= NKV_PAGE_FLAG_CODES;
  page.head_dim = shape.head_dim;
  page.value_dim = shape.value_dim;
  return page;
}

/// Rows at a stride, each followed by `scales[row]` if there are any.
std::vector<std::byte> at_stride(const Rows& rows, std::size_t stride,
                                 const std::vector<float>& scales) {
  const std::vector<std::byte> packed = to_bytes(rows.dtype, rows.patterns);
  const std::size_t row_bytes = packed.size() / rows.count;
  std::vector<std::byte> bytes(rows.count * stride, std::byte{0x5A});
  for (std::size_t row = 0; row < rows.count; ++row) {
    std::byte* const to = bytes.data() + row * stride;
    std::memcpy(to, packed.data() + row * row_bytes, row_bytes);
    if (!scales.empty()) std::memcpy(to + row_bytes, &scales[row], sizeof(float));
  }
  return bytes;
}

/// What a refused APPEND leaves in free slots is nobody's business, as long as it is no page.
void expect_unpublished(DevicePair& pair, const ListOnBoth& list) {
  const std::vector<std::byte> wiped(list.page_bytes);
  for (std::size_t page = 0; page < list.pages(); ++page) {
    const std::uint64_t address = list.page_at(pair, page);
    EXPECT_EQ(pair.subject().at<nkv_page_header>(address)->magic, 0U) << "page " << page;
    EXPECT_EQ(pair.model().at<nkv_page_header>(address)->magic, 0U) << "page " << page;
    pair.write(address, wiped);
  }
}

/// Entries, and behind them the gains of so many channels: any, or as a calibration gives them.
std::vector<std::byte> with_gains(std::span<const nkv_page_entry> entries, std::size_t channels,
                                  Random& random) {
  const auto bytes = std::as_bytes(entries);
  std::vector<std::byte> list(bytes.begin(), bytes.end());
  if (channels == 0) return list;
  const int range = random() % 4 == 0 ? 128 : 32;
  for (std::size_t c = 0; c < channels; ++c) {
    const auto gain = static_cast<int>(random() % static_cast<unsigned>(2 * range)) - range;
    list.push_back(static_cast<std::byte>(gain));
  }
  return list;
}

std::vector<float> random_scales(std::size_t count, Content content, Random& random) {
  std::lognormal_distribution<float> distribution;
  std::vector<float> scales(count);
  for (float& scale : scales) {
    scale = distribution(random) * (random() % 4 == 0 ? -1.0F : 1.0F);
    if (content == Content::kSpecials && random() % 16 == 0) scale = std::nanf("");
  }
  return scales;
}

}  // namespace

Rows random_rows(std::uint8_t dtype, std::size_t count, std::size_t dim, Content content,
                 Random& random) {
  std::normal_distribution<double> normal;
  std::vector<double> deviation(dim);
  std::vector<double> mean(dim);
  for (std::size_t c = 0; c < dim; ++c) {
    deviation[c] = largest_of(dtype) * std::exp(0.5 * normal(random));
    mean[c] = random() % 8 == 0 ? 3 * deviation[c] * normal(random) : 0;
    if (content == Content::kZeros && random() % 2 == 0) deviation[c] = mean[c] = 0;
  }
  const int magnitude = content == Content::kClose ? static_cast<int>(random() % 200) - 100 : 0;
  Rows rows{dtype, count, dim, {}};
  std::vector<double> topic = mean;
  for (std::size_t row = 0; row < count; ++row) {
    if (content == Content::kTopics && random() % 24 == 0) {
      for (std::size_t c = 0; c < dim; ++c) topic[c] = mean[c] + deviation[c] * normal(random);
    }
    const double size = random() % 64 == 0 ? 4 : 1;
    const bool repeats = content == Content::kEqual && row >= 8;
    for (std::size_t c = 0; c < dim; ++c) {
      if (repeats) {
        rows.patterns.push_back(rows.patterns[(row % 8) * dim + c]);
      } else if (content == Content::kClose && c < 8) {
        const double small = std::ldexp(deviation[c] * normal(random), magnitude - 23);
        rows.patterns.push_back(encode(dtype, small));
      } else if (content == Content::kClose && row > 0) {
        rows.patterns.push_back(rows.patterns[c]);
      } else if (content == Content::kTopics) {
        const double number = size * (topic[c] + 0.4 * deviation[c] * normal(random));
        rows.patterns.push_back(encode(dtype, number));
      } else if (content == Content::kWild) {
        rows.patterns.push_back(any_pattern(dtype, random));
      } else if (content == Content::kSpecials && dtype != NKV_DTYPE_INT8 &&
                 random() % (4 * dim) == 0) {
        rows.patterns.push_back(special_pattern(dtype, random));
      } else {
        const double number = mean[c] + deviation[c] * normal(random);
        rows.patterns.push_back(encode(dtype, std::ldexp(number, magnitude)));
      }
    }
  }
  return rows;
}

std::vector<double> numbers_of(const Rows& rows) {
  std::vector<double> numbers;
  for (const std::uint32_t pattern : rows.patterns) {
    numbers.push_back(decode(rows.dtype, pattern));
  }
  return numbers;
}

std::string ListShape::name() const {
  return "dtype " + std::to_string(dtype) + ", forms " + std::to_string(k_form) + " " +
         std::to_string(v_form) + ", dims " + std::to_string(head_dim) + " " +
         std::to_string(value_dim) + (key_scales ? ", key scales" : "") + (codes ? ", codes" : "");
}

ListShape random_shape(Random& random, bool attendable) {
  constexpr std::uint16_t kDims[] = {16, 48, 64, 64, 80, 96, 128, 128, 256, 576};
  constexpr std::uint8_t kTypes[] = {NKV_DTYPE_BF16, NKV_DTYPE_BF16,    NKV_DTYPE_BF16,
                                     NKV_DTYPE_BF16, NKV_DTYPE_FP16,    NKV_DTYPE_FP8_E4M3,
                                     NKV_DTYPE_INT8, NKV_DTYPE_FP8_E5M2};
  ListShape shape;
  shape.dtype = kTypes[pick(random, 0, 7)];
  shape.head_dim = kDims[pick(random, 0, 9)];
  shape.value_dim = random() % 4 == 0 ? kDims[pick(random, 0, 9)] : shape.head_dim;
  if (shape.dtype == NKV_DTYPE_BF16) {
    shape.k_form = random() % 3 == 0 ? NKV_ROW_FORM_RAW : NKV_ROW_FORM_DELTA4;
    shape.v_form = random() % 3 == 0 ? NKV_ROW_FORM_RAW : NKV_ROW_FORM_DELTA4;
  }
  if (random() % 5 == 0) {
    shape.v_form = NKV_ROW_FORM_NONE;
    shape.value_dim = shape.head_dim == 576 ? 512 : shape.head_dim;
    if (!attendable && random() % 2 == 0) shape.value_dim = 0;
  }
  shape.key_scales = random() % 6 == 0;
  return shape;
}

std::uint64_t ListOnBoth::page_at(DevicePair& pair, std::size_t page) const {
  const auto* const entry = pair.model().at<nkv_page_entry>(page_list) + page;
  return std::uint64_t{entry->page} * NKV_PAGE_GRAIN_BYTES;
}

KvNumbers ListOnBoth::numbers(std::size_t visible) const {
  KvNumbers data{visible, shape.head_dim, shape.value_dim, test::numbers_of(keys), {}};
  data.keys.resize(visible * shape.head_dim);
  if (shape.v_form != NKV_ROW_FORM_NONE) {
    data.values = test::numbers_of(values);
    data.values.resize(visible * shape.value_dim);
    return data;
  }
  for (std::size_t t = 0; t < visible; ++t) {
    const auto row = data.keys.begin() + static_cast<std::ptrdiff_t>(t * shape.head_dim);
    data.values.insert(data.values.end(), row, row + shape.value_dim);
  }
  return data;
}

nkv_append_command prepare_append(DevicePair& pair, const ListShape& shape, std::uint32_t pages,
                                  Content content, Random& random, ListOnBoth* list) {
  list->shape = shape;
  list->tokens = pages * NKV_PAGE_TOKENS;
  list->keys = random_rows(shape.dtype, list->tokens, shape.head_dim, content, random);
  list->values = random_rows(shape.dtype, list->tokens, std::max<std::size_t>(shape.value_dim, 1),
                             content, random);
  const nkv_page_shape page = page_shape(shape);
  struct nkv_page_layout layout{};
  nkv_lay_out_page(&page, &layout);
  list->page_bytes = layout.total_bytes;
  std::vector<nkv_page_entry> entries(pages);
  for (nkv_page_entry& entry : entries) {
    entry.page =
        static_cast<std::uint32_t>(pair.allocate(layout.total_bytes) / NKV_PAGE_GRAIN_BYTES);
    entry.generation = static_cast<std::uint16_t>(random());
  }
  const std::size_t gains = shape.codes ? shape.head_dim : 0;
  list->page_list = pair.store(std::span<const std::byte>(with_gains(entries, gains, random)));

  nkv_append_command command{};
  command.opcode = NKV_OPCODE_APPEND;
  if (shape.key_scales) command.flags |= NKV_APPEND_FLAG_KEY_SCALES;
  if (shape.codes) {
    command.flags |= NKV_APPEND_FLAG_CODES;
    command.sign_run = static_cast<std::uint8_t>(random());
  }
  command.head_dim = shape.head_dim;
  command.value_dim = shape.value_dim;
  command.tokens = list->tokens;
  command.first_token = NKV_PAGE_TOKENS * pick(random, 0, 1000);
  command.page_list = list->page_list;
  command.sequence_id = random();
  command.layer = static_cast<std::uint16_t>(random());
  command.kv_head = static_cast<std::uint16_t>(random());
  command.dtype = shape.dtype;
  command.k_form = shape.k_form;
  command.v_form = shape.v_form;
  const std::uint32_t element_bytes = nkv_element_bytes(shape.dtype);
  const std::vector<float> scales =
      shape.key_scales ? random_scales(list->tokens, content, random) : std::vector<float>();
  command.key_stride = shape.head_dim * element_bytes + (shape.key_scales ? 4 : 0) +
                       (random() % 2 == 0 ? 0 : pick(random, 1, 70));
  // Rows may start at any byte.
  const std::uint64_t skew = random() % 2 == 0 ? 0 : pick(random, 1, 63);
  std::vector<std::byte> bytes = at_stride(list->keys, command.key_stride, scales);
  bytes.insert(bytes.begin(), skew, std::byte{0});
  command.keys = pair.store(std::span<const std::byte>(bytes)) + skew;
  if (shape.v_form != NKV_ROW_FORM_NONE) {
    command.value_stride =
        shape.value_dim * element_bytes + (random() % 2 == 0 ? 0 : pick(random, 1, 70));
    const std::vector<std::byte> values = at_stride(list->values, command.value_stride, {});
    command.values = pair.store(std::span<const std::byte>(values));
  }
  return command;
}

ListOnBoth append_to_both(DevicePair& pair, const ListShape& shape, std::uint32_t pages,
                          Content content, Random& random) {
  ListOnBoth list;
  const nkv_append_command command = prepare_append(pair, shape, pages, content, random, &list);
  const DevicePair::Completions done = pair.run(command);
  EXPECT_EQ(describe(done.subject), describe(done.model));
  list.completion = done.model;
  if (list.completion.status != NKV_STATUS_OK) expect_unpublished(pair, list);
  pair.expect_same_memory();
  return list;
}

Rows random_queries(const ListOnBoth& list, std::uint8_t dtype, std::size_t rows, Random& random) {
  std::normal_distribution<double> normal;
  const std::size_t dim = list.shape.head_dim;
  Rows queries{dtype, rows, dim, {}};
  for (std::size_t row = 0; row < rows; ++row) {
    std::vector<double> query(dim);
    for (double& element : query) element = normal(random);
    const std::size_t token = random() % list.keys.count;
    double size = 0;
    for (std::size_t c = 0; c < dim; ++c) {
      const double key = decode(list.keys.dtype, list.keys.patterns[token * dim + c]);
      if (!std::isfinite(key)) continue;
      if (row % 2 == 1) query[c] += 0.3 * key;
      size += key * key;
    }
    // Logits q k / sqrt(dim) of a few units.
    const double scale = 3 * std::sqrt(static_cast<double>(dim)) / std::sqrt(std::max(size, 1e-6));
    for (const double element : query) {
      queries.patterns.push_back(encode(dtype, element * scale));
    }
  }
  return queries;
}

std::uint64_t store_rows(DevicePair& pair, const Rows& rows) {
  return pair.store(std::span<const std::byte>(to_bytes(rows.dtype, rows.patterns)));
}

}  // namespace nearkv::test
