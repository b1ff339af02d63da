#include "page/encode.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <vector>

#include "codes/row_codes.hpp"
#include "page/checksum.hpp"
#include "page/elements.hpp"
#include "page/encode_kernels.hpp"
#include "page/page_checks.hpp"
#include "page/page_view.hpp"
#include "page/row_source.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kTokens = NKV_PAGE_TOKENS;
constexpr std::size_t kPublishBytes = 8;

/// One tensor's rows in the forms that the steps need.
struct RowTensor {
  std::size_t dim = 0;
  std::vector<float> rows;       ///< [tokens][dim], unusable elements zero.
  std::vector<float> magnitude;  ///< Per channel, the largest.
  std::uint64_t nonfinite = 0;
  std::uint8_t exponent = 0;  ///< Largest biased exponent of a finite element.
};

void load_tensor(const SourceRows& source, std::size_t tokens, std::uint8_t dtype, std::size_t dim,
                 RowTensor* tensor) {
  tensor->dim = dim;
  tensor->nonfinite = 0;
  tensor->rows.resize(tokens * dim);
  const auto* const first = reinterpret_cast<const std::uint8_t*>(source.first);
  if (dtype == NKV_DTYPE_BF16) {
    tensor->nonfinite = load_bf16(first, source.stride_bytes, tokens, dim, tensor->rows.data());
  } else {
    RowSource rows;
    rows.dtype = dtype;
    rows.dim = dim;
    rows.row_bytes = source.stride_bytes;
    rows.rows = first;
    for (std::size_t t = 0; t < tokens; ++t) {
      if (!rows.decode(t, tensor->rows.data() + t * dim)) {
        tensor->nonfinite |= std::uint64_t{1} << t;
      }
    }
  }
  tensor->magnitude.resize(dim);
  channel_magnitudes(tensor->rows.data(), tokens, dim, tensor->magnitude.data());
  tensor->exponent = static_cast<std::uint8_t>(
      biased_exponent(*std::max_element(tensor->magnitude.begin(), tensor->magnitude.end())));
}

RowSummary summary_of(const RowTensor& keys, const RowTensor& values) {
  return {keys.nonfinite, keys.exponent, values.exponent, values.nonfinite != 0};
}

/// Places arrays in the slot and keeps their checksums.
class ArrayWriter {
 public:
  ArrayWriter(const nkv_page_layout& layout, std::span<std::byte> slot)
      : layout_(layout), slot_(slot) {}

  template <typename T>
  [[nodiscard]] T* at(nkv_page_array array) const {
    return reinterpret_cast<T*>(slot_.data() + layout_.offset[array]);
  }
  [[nodiscard]] std::uint32_t checksum(nkv_page_array array) const {
    return crc32c(slot_.subspan(layout_.offset[array], layout_.bytes[array]));
  }

 private:
  const nkv_page_layout& layout_;
  std::span<std::byte> slot_;
};

/// Appends the exceptions of one bf16 row to the first `*count`; kPageOverflow if there is no room.
/// Rows may change under the device: that they have been counted says nothing of a second look.
Status list_exceptions(const std::uint8_t* row, std::size_t token, std::size_t dim,
                       const std::uint8_t* exponents, nkv_row_exception* exceptions,
                       std::uint8_t* count) {
  for (std::size_t channel = 0; channel < dim; ++channel) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, row + 2 * channel, sizeof(bits));
    const int nibble = ((bits >> 7) & 0xFF) - exponents[channel];
    if ((nibble >= 1 && nibble <= 15) || (bits & 0x7FFFU) == 0) continue;
    if (*count == NKV_EXCEPTIONS) return Status::kPageOverflow;
    exceptions[*count] = {static_cast<std::uint16_t>(token * dim + channel), bits};
    ++*count;
  }
  return Status::kOk;
}

/// Rows of one tensor with their exponents and exceptions. kPageOverflow if there are too many of
/// these.
Status write_rows(const RowTensor& tensor, std::uint8_t form, const SourceRows& source,
                  std::size_t row_bytes, std::uint8_t* rows, std::uint8_t* exponents,
                  nkv_row_exception* exceptions, std::uint8_t* exception_count) {
  if (form == NKV_ROW_FORM_RAW) {
    for (std::size_t t = 0; t < kTokens; ++t) {
      std::memcpy(rows + t * row_bytes, source.first + t * source.stride_bytes, row_bytes);
    }
    return Status::kOk;
  }
  for (std::size_t c = 0; c < tensor.dim; ++c) {
    exponents[c] =
        static_cast<std::uint8_t>(std::max(biased_exponent(tensor.magnitude[c]) - 15, 0));
  }
  const auto* const first = reinterpret_cast<const std::uint8_t*>(source.first);
  std::array<std::uint16_t, kTokens> wanted;
  pack_delta4(first, source.stride_bytes, tensor.dim, exponents, rows, wanted.data());
  const std::size_t total = std::accumulate(wanted.begin(), wanted.end(), std::size_t{0});
  if (total > NKV_EXCEPTIONS) return Status::kPageOverflow;
  for (std::size_t t = 0; t < kTokens; ++t) {
    if (wanted[t] == 0) continue;
    const Status status = list_exceptions(first + t * source.stride_bytes, t, tensor.dim, exponents,
                                          exceptions, exception_count);
    if (status != Status::kOk) return status;
  }
  return Status::kOk;
}

/// The arrays of codes, and what the header says of them (section 11). `values` may have more
/// channels than `value_dim`, the leading ones.
void write_codes(const RowTensor& keys, const RowTensor& values, std::size_t value_dim,
                 const PageContents& contents, const ArrayWriter& writer, nkv_page_header* header) {
  auto* const summary = writer.at<std::uint8_t>(NKV_PAGE_ARRAY_CODE_SUMMARY);
  auto* const means = writer.at<std::int8_t>(NKV_PAGE_ARRAY_CODE_SUMMARY) + kTokens;
  auto* const signs = writer.at<std::uint8_t>(NKV_PAGE_ARRAY_K_SIGNS);
  auto* const key_planes = writer.at<std::uint8_t>(NKV_PAGE_ARRAY_K_CODES);
  auto* const value_planes = writer.at<std::uint8_t>(NKV_PAGE_ARRAY_V_CODES);
  const std::size_t key_bytes = kTokens / 8 * keys.dim;
  const std::size_t value_bytes = kTokens / 8 * value_dim;
  const CodeScales k = encode_codes(
      {keys.rows.data(), keys.dim, keys.dim, keys.magnitude, contents.gains}, contents.sign_set,
      kKeyCodes,
      {summary, means, {signs, key_planes, key_planes + key_bytes, key_planes + 2 * key_bytes}});
  const CodeScales v = encode_codes(
      {values.rows.data(), values.dim, value_dim, values.magnitude, {}}, contents.sign_set,
      kValueCodes,
      {summary + kTokens / 2,
       means + keys.dim,
       {value_planes, value_planes + value_bytes, value_planes + 2 * value_bytes, nullptr}});
  std::ranges::copy(contents.gains, writer.at<std::int8_t>(NKV_PAGE_ARRAY_K_GAINS));
  header->sign_set = contents.sign_set;
  header->k_mean_power = k.mean_power;
  header->k_top = k.top;
  header->v_mean_power = v.mean_power;
  header->v_top = v.top;
}

void fill_checksums(const ArrayWriter& writer, nkv_page_header* header) {
  for (int i = 0; i < NKV_PAGE_ARRAY_COUNT; ++i) {
    const auto array = static_cast<nkv_page_array>(i);
    stored_checksum(*header, array) = writer.checksum(array);
  }
  header->crc_hot = hot_checksum(*header);
  header->crc_cold = cold_checksum(*header);
}

nkv_page_header describe(const nkv_page_shape& shape, const PageIdentity& identity,
                         std::uint32_t payload_bytes) {
  nkv_page_header header{};
  header.magic = NKV_PAGE_MAGIC;
  header.version = NKV_PAGE_VERSION;
  header.state = NKV_PAGE_STATE_CLOSED;
  header.flags = shape.flags;
  header.k_form = shape.k_form;
  header.v_form = shape.v_form;
  header.dtype = shape.dtype;
  header.codec = NKV_CODEC_NONE;
  header.head_dim = shape.head_dim;
  header.value_dim = shape.value_dim;
  header.generation = identity.generation;
  header.tokens = NKV_PAGE_TOKENS;
  header.payload_bytes = payload_bytes;
  header.sequence_id = identity.sequence;
  header.first_token = identity.first_token;
  header.layer = identity.layer;
  header.kv_head = identity.kv_head;
  header.tenant = identity.tenant;
  return header;
}

void finish_without_rows(const RowSummary& rows, nkv_page_header* header, std::span<std::byte> slot,
                         nkv_page_entry* entry) {
  header->k_exponent = entry->k_exponent = rows.k_exponent;
  header->v_exponent = entry->v_exponent = rows.v_exponent;
  header->nonfinite = rows.nonfinite;
  header->crc_hot = hot_checksum(*header);
  header->crc_cold = cold_checksum(*header);
  std::memcpy(slot.data(), header, sizeof(*header));
}

}  // namespace

Status encode_page(const nkv_page_shape& shape, const PageContents& contents,
                   const PageIdentity& identity, std::span<std::byte> slot, nkv_page_entry* entry) {
  const SourceRows& keys = contents.keys;
  const SourceRows& values = contents.values;
  nkv_page_layout layout{};
  nkv_lay_out_page(&shape, &layout);
  std::fill_n(slot.begin(), layout.total_bytes, std::byte{0});
  const ArrayWriter writer(layout, slot);
  nkv_page_header header = describe(shape, identity, payload_bytes(layout));

  thread_local RowTensor key_tensor;
  thread_local RowTensor value_tensor;
  load_tensor(keys, kTokens, shape.dtype, shape.head_dim, &key_tensor);
  header.k_exponent = key_tensor.exponent;
  header.nonfinite = key_tensor.nonfinite;
  Status status =
      write_rows(key_tensor, shape.k_form, keys, layout.bytes[NKV_PAGE_ARRAY_K_ROWS] / kTokens,
                 writer.at<std::uint8_t>(NKV_PAGE_ARRAY_K_ROWS),
                 writer.at<std::uint8_t>(NKV_PAGE_ARRAY_K_EXPONENTS),
                 writer.at<nkv_row_exception>(NKV_PAGE_ARRAY_K_EXCEPTIONS), &header.k_exceptions);
  if (status != Status::kOk) return status;
  if ((shape.flags & NKV_PAGE_FLAG_KEY_SCALES) != 0) {
    const std::size_t row_bytes = nkv_row_bytes(NKV_ROW_FORM_RAW, shape.dtype, shape.head_dim);
    for (std::size_t t = 0; t < kTokens; ++t) {
      std::memcpy(writer.at<std::byte>(NKV_PAGE_ARRAY_KEY_SCALES) + t * sizeof(float),
                  keys.first + t * keys.stride_bytes + row_bytes, sizeof(float));
    }
  }

  if (shape.v_form != NKV_ROW_FORM_NONE) {
    load_tensor(values, kTokens, shape.dtype, shape.value_dim, &value_tensor);
    header.v_exponent = value_tensor.exponent;
    status = write_rows(
        value_tensor, shape.v_form, values, layout.bytes[NKV_PAGE_ARRAY_V_ROWS] / kTokens,
        writer.at<std::uint8_t>(NKV_PAGE_ARRAY_V_ROWS),
        writer.at<std::uint8_t>(NKV_PAGE_ARRAY_V_EXPONENTS),
        writer.at<nkv_row_exception>(NKV_PAGE_ARRAY_V_EXCEPTIONS), &header.v_exceptions);
    if (status != Status::kOk) return status;
  } else if (shape.value_dim != 0) {
    header.v_exponent = static_cast<std::uint8_t>(biased_exponent(*std::max_element(
        key_tensor.magnitude.begin(), key_tensor.magnitude.begin() + shape.value_dim)));
  }
  if ((shape.flags & NKV_PAGE_FLAG_CODES) != 0) {
    const bool own_values = shape.v_form != NKV_ROW_FORM_NONE;
    write_codes(key_tensor, own_values ? value_tensor : key_tensor, shape.value_dim, contents,
                writer, &header);
  }
  fill_checksums(writer, &header);
  write_header(header, slot);
  entry->k_exponent = header.k_exponent;
  entry->v_exponent = header.v_exponent;
  return Status::kOk;
}

RowSummary summary_of(const nkv_page_shape& shape, const SourceRows& keys, const SourceRows& values,
                      std::size_t first, std::size_t tokens) {
  thread_local RowTensor key_tensor;
  thread_local RowTensor value_tensor;
  load_tensor(keys, tokens, shape.dtype, shape.head_dim, &key_tensor);
  load_tensor(values, tokens, shape.dtype, shape.value_dim, &value_tensor);
  RowSummary summary = summary_of(key_tensor, value_tensor);
  summary.nonfinite <<= first;
  return summary;
}

RowSummary encode_without_rows(const nkv_page_shape& shape, const PageContents& contents,
                               const PageIdentity& identity, std::span<std::byte> slot,
                               nkv_page_entry* entry) {
  const nkv_page_layout layout = lay_out_without_rows(shape);
  const ArrayWriter writer(layout, slot);
  nkv_page_header header = describe(shape, identity, payload_bytes(layout));
  thread_local RowTensor keys;
  thread_local RowTensor values;
  load_tensor(contents.keys, kTokens, shape.dtype, shape.head_dim, &keys);
  load_tensor(contents.values, kTokens, shape.dtype, shape.value_dim, &values);
  write_codes(keys, values, shape.value_dim, contents, writer, &header);
  header.crc_k_gains = writer.checksum(NKV_PAGE_ARRAY_K_GAINS);
  const RowSummary summary = summary_of(keys, values);
  finish_without_rows(summary, &header, slot, entry);
  return summary;
}

void describe_without_rows(const nkv_page_shape& shape, const RowSummary& rows,
                           const PageIdentity& identity, std::span<std::byte> slot,
                           nkv_page_entry* entry) {
  nkv_page_header header = describe(shape, identity, 0);
  finish_without_rows(rows, &header, slot, entry);
}

void write_header(const nkv_page_header& header, std::span<std::byte> slot) {
  std::memcpy(slot.data() + kPublishBytes,
              reinterpret_cast<const std::byte*>(&header) + kPublishBytes,
              sizeof(header) - kPublishBytes);
}

void publish_page(std::span<std::byte> slot, std::uint8_t flags, const Window& window) {
  if (window.checks() != nullptr) window.checks()->drop(slot.data());
  nkv_page_header header{};
  header.magic = NKV_PAGE_MAGIC;
  header.version = NKV_PAGE_VERSION;
  header.state = NKV_PAGE_STATE_CLOSED;
  header.flags = flags;
  std::uint64_t word = 0;
  std::memcpy(&word, &header, sizeof(word));
  window.persistence().publish(slot.data(), word);
}

void retract_page(std::span<std::byte> slot, Persistence* persistence) {
  persistence->publish(slot.data(), 0);
}

void vacate_slot(std::span<std::byte> slot, Persistence* persistence) {
  std::uint64_t word = 0;
  std::memcpy(&word, slot.data(), sizeof(word));
  if (word == 0) return;
  retract_page(slot, persistence);
  persistence->fence();
}

}  // namespace nearkv
