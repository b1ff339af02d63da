// Random commands over random lists, for a device that promises the model's bits.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "sequences.hpp"
#include "support/elements.hpp"
#include "support/offers.hpp"
#include "support/page_shape.hpp"

namespace nearkv::test {

/// A command as bytes, with a name to print.
struct StreamCommand {
  /// Where a page goes.
  struct Place {
    std::uint64_t address = 0;
    std::uint32_t bytes = 0;
  };

  std::string name;
  nkv_attend_command bytes{};
  /// COPY, TRANSCODE: may have lost what they held, but for pages that are done.
  std::vector<Place> places;

  template <typename Command>
  void set(const Command& command) {
    static_assert(sizeof(Command) == sizeof(bytes));
    std::memcpy(&bytes, &command, sizeof(bytes));
  }
};

class Stream {
 public:
  Stream(DevicePair& pair, std::uint64_t number) : pair_(pair), random_(case_random(number)) {}

  /// Pages for the commands that follow; false if these rows could not be appended.
  bool append() {
    constexpr Content kContents[] = {Content::kNormal, Content::kSpecials, Content::kZeros,
                                     Content::kEqual, Content::kWild};
    shape_ = small_shape(random_() % 4 != 0);
    const std::uint32_t pages = random_() % 12 == 0 ? pick(random_, 16, 40) : pick(random_, 1, 6);
    pair_.clear();
    transcoded_ = {};
    list_ = append_to_both(pair_, shape_, pages, kContents[pick(random_, 0, 4)], random_);
    if (list_.completion.status != NKV_STATUS_OK) return false;
    if (random_() % 3 == 0) mix_in_other_forms();
    return true;
  }

  StreamCommand next() {
    // What only the model compresses is soon taken up again, or few would be.
    if (is_of_planes(transcoded_.codec) && random_() % 2 == 0) return transcode();
    switch (pick(random_, 0, 13)) {
      case 0:
        return random_() % 2 == 0 ? scrub() : malformed_append();
      case 10:
        return copy();
      case 12:
      case 13:
        return transcode();
      case 11:
        return random_() % 2 == 0 ? read() : gather();
      case 1:
      case 2:
      case 3:
      case 4:
        return attend();
      case 5:
        return indexer();
      default:
        return topk();
    }
  }

  [[nodiscard]] std::string name() const { return shape_.name(); }
  /// Whether every page that was appended first has codes.
  [[nodiscard]] bool has_codes() const { return shape_.codes; }

 private:
  static constexpr std::uint16_t kMostChannels = 128;
  static constexpr std::uint64_t kRoomBytes = 40 << 10;  // For any page of so many channels.
  static constexpr std::uint32_t kMostTopK = 300;
  static constexpr std::uint32_t kMostRows = 400;

  static bool is_of_planes(std::uint8_t codec) {
    return codec == NKV_CODEC_PLANES_LZ4 || codec == NKV_CODEC_PLANES_ZSTD;
  }

  [[nodiscard]] bool offers(std::uint64_t feature) {
    return offers_feature(pair_.subject().device(), feature);
  }

  ListShape small_shape(bool attendable) {
    ListShape shape = random_shape(random_, attendable);
    shape.head_dim = std::min(shape.head_dim, kMostChannels);
    shape.value_dim = std::min(shape.value_dim, kMostChannels);
    shape.codes = offers(NKV_FEATURE_CODE_PAGES) && random_() % 4 == 0;
    return shape;
  }

  /// Lets pages of other forms and types alternate with those that are there.
  void mix_in_other_forms() {
    ListShape other = random_shape(random_, true);
    other.codes = offers(NKV_FEATURE_CODE_PAGES) && random_() % 3 == 0;
    other.head_dim = shape_.head_dim;
    other.value_dim = shape_.value_dim;
    if (shape_.v_form == NKV_ROW_FORM_NONE || other.v_form == NKV_ROW_FORM_NONE) {
      other.v_form = shape_.v_form;
    }
    if (other.dtype != NKV_DTYPE_BF16 && other.v_form == NKV_ROW_FORM_DELTA4) {
      other.v_form = NKV_ROW_FORM_RAW;
    }
    const ListOnBoth others =
        append_to_both(pair_, other, list_.pages(), Content::kNormal, random_);
    if (others.completion.status != NKV_STATUS_OK) return;
    std::vector<nkv_page_entry> entries;
    for (std::uint32_t page = 0; page < list_.pages(); ++page) {
      for (const std::uint64_t from : {list_.page_list, others.page_list}) {
        entries.push_back(pair_.model().at<nkv_page_entry>(from)[page]);
      }
    }
    list_.page_list = pair_.store(std::span<const nkv_page_entry>(entries));
    list_.tokens *= 2;
  }

  /// One thing wrong, or odd, with an APPEND whose rows fit wherever they are read from.
  StreamCommand malformed_append() {
    ListShape shape = small_shape(false);
    shape.k_form = NKV_ROW_FORM_RAW;
    if (shape.v_form == NKV_ROW_FORM_DELTA4) shape.v_form = NKV_ROW_FORM_RAW;
    const std::uint32_t pages = pick(random_, 1, 20);
    ListOnBoth list;
    nkv_append_command command =
        prepare_append(pair_, shape, pages, Content::kNormal, random_, &list);
    StreamCommand stream{.name = "APPEND malformed", .places = {}};
    stream.set(command);
    if (random_() % 2 == 0) {
      // Neither opcode nor tag.
      const std::uint32_t bit = pick(random_, 0, 8 * NKV_COMMAND_BYTES - 25);
      auto* const bytes = reinterpret_cast<unsigned char*>(&stream.bytes);
      const std::uint32_t at = bit / 8 == 0 ? 1 : bit / 8 + 3;
      bytes[at] = static_cast<unsigned char>(bytes[at] ^ 1U << bit % 8);
      return stream;
    }
    nkv_page_entry entry{};
    const std::uint32_t other = pick(random_, 0, pages - 1);
    const std::uint32_t choices[] = {
        pair_.model().at<nkv_page_entry>(list.page_list)[other].page + pick(random_, 0, 2) - 1,
        static_cast<std::uint32_t>(command.keys / NKV_PAGE_GRAIN_BYTES) + pick(random_, 0, 2) - 1,
        static_cast<std::uint32_t>(random())};
    entry.page = choices[pick(random_, 0, 2)];
    const std::uint64_t at = command.page_list + sizeof(entry) * pick(random_, 0, pages - 1);
    pair_.write(at, std::as_bytes(std::span<const nkv_page_entry>(&entry, 1)));
    return stream;
  }

  StreamCommand scrub() {
    nkv_pages_command command{};
    command.opcode = NKV_OPCODE_SCRUB;
    command.source = list_.page_list;
    command.count = pick(random_, 1, list_.pages());
    StreamCommand stream{.name = "SCRUB", .places = {}};
    stream.set(command);
    return stream;
  }

  /// The first of the list's pages that lie in memory: a command may have been sent onto the list.
  std::vector<nkv_page_entry> some_pages(std::uint32_t most) {
    const auto* const listed = pair_.model().at<nkv_page_entry>(list_.page_list);
    std::vector<nkv_page_entry> pages(listed,
                                      listed + pick(random_, 1, std::min(list_.pages(), most)));
    std::erase_if(pages, [this](const nkv_page_entry& entry) { return !is_in_memory(entry); });
    return pages;
  }

  bool is_in_memory(const nkv_page_entry& entry) {
    return (entry.page + 1ULL) * NKV_PAGE_GRAIN_BYTES <= pair_.model().window().size();
  }

  /// What a page takes, by its header; what commands have left there may name any size.
  std::uint32_t stored_bytes(const nkv_page_entry& entry) {
    const std::uint64_t address = std::uint64_t{entry.page} * NKV_PAGE_GRAIN_BYTES;
    const std::uint64_t room = pair_.model().window().size() - address;
    return static_cast<std::uint32_t>(std::min({named_bytes(header_of(entry)), kRoomBytes, room}));
  }

  static std::uint64_t named_bytes(const nkv_page_header& header) {
    const nkv_page_shape shape = shape_of(header);
    nkv_page_layout layout{};
    nkv_lay_out_page(&shape, &layout);
    if (header.codec == NKV_CODEC_NONE) return layout.total_bytes;
    return (NKV_PAGE_HEADER_BYTES + header.payload_bytes + NKV_PAGE_GRAIN_BYTES - 1) /
           NKV_PAGE_GRAIN_BYTES * NKV_PAGE_GRAIN_BYTES;
  }

  const nkv_page_header& header_of(const nkv_page_entry& entry) {
    return *pair_.model().at<nkv_page_header>(std::uint64_t{entry.page} * NKV_PAGE_GRAIN_BYTES);
  }

  std::uint32_t fresh_page(std::uint32_t bytes) {
    return static_cast<std::uint32_t>(pair_.allocate(bytes) / NKV_PAGE_GRAIN_BYTES);
  }

  /// A page like another one, but for one bit.
  std::uint32_t damaged_page(const nkv_page_entry& entry, std::uint32_t bytes) {
    const auto* const from =
        pair_.model().at<std::byte>(std::uint64_t{entry.page} * NKV_PAGE_GRAIN_BYTES);
    std::vector<std::byte> page(from, from + bytes);
    page[pick(random_, 0, bytes - 1)] ^= static_cast<std::byte>(1U << random_() % 8);
    const std::uint32_t place = fresh_page(bytes);
    pair_.write(std::uint64_t{place} * NKV_PAGE_GRAIN_BYTES, page);
    return place;
  }

  /// Some of the list's pages to other places; now and then one of them, or its place, is wrong.
  StreamCommand copy() {
    constexpr std::uint32_t kMostPages = 8;
    std::vector<nkv_page_entry> sources = some_pages(kMostPages);
    if (sources.empty()) return scrub();
    nkv_pages_command command{};
    command.opcode = NKV_OPCODE_COPY;
    command.count = static_cast<std::uint32_t>(sources.size());
    std::vector<nkv_page_entry> destinations(command.count);
    command.source = pair_.allocate(command.count * sizeof(nkv_page_entry));
    command.destination = pair_.allocate(command.count * sizeof(nkv_page_entry));
    StreamCommand stream{.name = "COPY", .places = {}};
    // A grain before and behind them, in case one is moved by a grain.
    pair_.allocate(NKV_PAGE_GRAIN_BYTES);
    for (std::uint32_t page = 0; page < command.count; ++page) {
      const std::uint32_t bytes = stored_bytes(sources[page]);
      destinations[page].page = fresh_page(bytes);
      destinations[page].generation = static_cast<std::uint16_t>(random_());
      stream.places.push_back(
          {std::uint64_t{destinations[page].page} * NKV_PAGE_GRAIN_BYTES, bytes});
    }
    pair_.allocate(NKV_PAGE_GRAIN_BYTES);
    const std::uint32_t page = pick(random_, 0, command.count - 1);
    const std::uint32_t other = pick(random_, 0, command.count - 1);
    switch (pick(random_, 0, 7)) {
      case 0:
      case 1:
        sources[page].page = damaged_page(sources[page], stream.places[page].bytes);
        stream.name = "COPY of damage";
        break;
      case 2:
        destinations[page].page =
            (random_() % 2 == 0 ? sources : destinations)[other].page + pick(random_, 0, 2) - 1;
        stream.name = "COPY onto pages";
        break;
      case 3:
        (random_() % 2 == 0 ? sources : destinations)[page].page =
            static_cast<std::uint32_t>(random_());
        stream.name = "COPY out of the window";
        break;
      default:
        break;
    }
    stream.places[page].address = std::uint64_t{destinations[page].page} * NKV_PAGE_GRAIN_BYTES;
    pair_.write(command.source, std::as_bytes(std::span(sources)));
    pair_.write(command.destination, std::as_bytes(std::span(destinations)));
    stream.set(command);
    return stream;
  }

  /// The list's pages, or those that the last such command made, in another codec at other places;
  /// now and then one of them, its place or its room is wrong.
  StreamCommand transcode() {
    constexpr std::uint32_t kMostPages = 4;
    // Those of compressors are built by the model alone, for the commands that follow.
    constexpr std::uint8_t kCodecs[] = {NKV_CODEC_NONE,       NKV_CODEC_NONE,       NKV_CODEC_INT8,
                                        NKV_CODEC_INT4,       NKV_CODEC_FP8,        NKV_CODEC_NONE,
                                        NKV_CODEC_PLANES_LZ4, NKV_CODEC_PLANES_ZSTD};
    nkv_pages_command command{};
    command.opcode = NKV_OPCODE_TRANSCODE;
    command.codec = random_() % 8 == 0 ? static_cast<std::uint8_t>(pick(random_, 0, NKV_CODEC_FP8))
                                       : kCodecs[pick(random_, 0, 7)];
    std::vector<nkv_page_entry> sources;
    if (random_() % 4 != 0) {
      const auto* const made = pair_.model().at<nkv_page_entry>(transcoded_.destination);
      for (std::uint32_t page = 0; page < transcoded_.count; ++page) {
        if (!is_in_memory(made[page])) continue;
        if (header_of(made[page]).magic == NKV_PAGE_MAGIC) sources.push_back(made[page]);
      }
    }
    if (sources.empty()) sources = some_pages(kMostPages);
    // Most commands are such as the device does.
    if (!offers(NKV_FEATURE_CODES) && random_() % 8 != 0) {
      std::erase_if(sources, [this](const nkv_page_entry& entry) {
        return (header_of(entry).flags & NKV_PAGE_FLAG_CODES) != 0;
      });
    }
    if (sources.empty()) return scrub();
    command.count = static_cast<std::uint32_t>(sources.size());
    command.source = pair_.allocate(command.count * sizeof(nkv_page_entry));
    command.destination = pair_.allocate(command.count * sizeof(nkv_page_entry));
    command.result =
        pair_.allocate(command.count * sizeof(std::uint32_t) + 64) + random_() % 16 * 4;
    command.slot_bytes = kRoomBytes;
    StreamCommand stream{.name = "TRANSCODE to " + std::to_string(command.codec), .places = {}};
    std::vector<nkv_page_entry> destinations(command.count);
    for (nkv_page_entry& entry : destinations) {
      entry.page = fresh_page(kRoomBytes);
      entry.generation = static_cast<std::uint16_t>(random_());
    }
    const std::uint8_t from = header_of(sources[0]).codec;
    const bool from_planes = is_of_planes(from);
    if (from_planes) stream.name = "TRANSCODE from " + std::to_string(from);
    const std::uint32_t page = pick(random_, 0, command.count - 1);
    switch (pick(random_, 0, 9)) {
      case 0:
      case 1:
        sources[page].page = damaged_page(sources[page], stored_bytes(sources[page]));
        stream.name = from_planes ? "TRANSCODE of damaged planes" : "TRANSCODE of damage";
        break;
      case 2:
        destinations[page].page =
            sources[pick(random_, 0, command.count - 1)].page + pick(random_, 0, 400) - 200;
        stream.name = "TRANSCODE onto pages";
        break;
      case 3:
        command.slot_bytes = pick(random_, 0, kRoomBytes / 2);
        stream.name = "TRANSCODE to little room";
        break;
      default:
        break;
    }
    for (const nkv_page_entry& entry : destinations) {
      stream.places.push_back(
          {std::uint64_t{entry.page} * NKV_PAGE_GRAIN_BYTES, command.slot_bytes});
    }
    pair_.write(command.source, std::as_bytes(std::span(sources)));
    pair_.write(command.destination, std::as_bytes(std::span(destinations)));
    transcoded_ = command;
    stream.set(command);
    return stream;
  }

  template <typename Command>
  void set_rows(Command* command) {
    command->tensor = static_cast<std::uint8_t>(pick(random_, 0, 2));
    command->page_list = list_.page_list;
    // Now and then not inside the window.
    command->result = random_() % 8 == 0
                          ? pair_.model().window().size() - 64ULL * pick(random_, 0, 20)
                          : pair_.allocate(std::uint64_t{command->count} * 4 * kMostChannels + 128);
  }

  /// Now and then of planes without CODES, which is refused.
  StreamCommand read() {
    nkv_read_command command{};
    command.opcode = NKV_OPCODE_READ;
    command.first = pick(random_, 0, list_.tokens - 1);
    command.count = pick(random_, 1, std::min(list_.tokens - command.first, kMostRows));
    set_rows(&command);
    if (random_() % 8 == 0) command.planes = static_cast<std::uint8_t>(pick(random_, 1, 5));
    StreamCommand stream{.name = command.planes == 0 ? "READ" : "READ malformed", .places = {}};
    stream.set(command);
    return stream;
  }

  /// Ids anywhere, in steps, or over and over; now and then beyond the list.
  StreamCommand gather() {
    nkv_gather_command command{};
    command.opcode = NKV_OPCODE_GATHER;
    command.tokens = list_.tokens;
    command.count = pick(random_, 1, kMostRows);
    std::vector<std::uint32_t> ids(command.count);
    const bool anywhere = random_() % 2 == 0;
    const std::uint32_t step = pick(random_, 0, 3);
    std::uint32_t id = pick(random_, 0, list_.tokens - 1);
    for (std::uint32_t& next : ids) {
      next = id;
      id = anywhere ? pick(random_, 0, list_.tokens - 1) : (id + step) % list_.tokens;
    }
    if (random_() % 8 == 0) ids[pick(random_, 0, command.count - 1)] += list_.tokens;
    command.ids = pair_.allocate(4 * ids.size() + 64) + 4ULL * pick(random_, 0, 15);
    pair_.write(command.ids, std::as_bytes(std::span(ids)));
    set_rows(&command);
    StreamCommand stream{.name = "GATHER", .places = {}};
    stream.set(command);
    return stream;
  }

  template <typename Command>
  void set_scan(Command* command, std::uint8_t query_dtype) {
    command->head_dim = shape_.head_dim;
    command->tokens = random_() % 3 == 0 ? list_.tokens : pick(random_, 0, list_.tokens);
    command->window = random_() % 3 == 0 ? pick(random_, 1, list_.tokens) : 0;
    command->sinks = static_cast<std::uint8_t>(pick(random_, 0, 80));
    command->page_list = list_.page_list;
    command->group = static_cast<std::uint8_t>(pick(random_, 1, 8));
    command->query_dtype = query_dtype;
    const Rows queries = random_queries(list_, command->query_dtype, command->group, random_);
    command->query = store_anywhere(to_bytes(queries.dtype, queries.patterns));
    command->scale =
        0.125F * static_cast<float>(pick(random_, 1, 16)) * (random_() % 8 == 0 ? -1 : 1);
  }

  /// Now and then not at the start of a burst.
  std::uint64_t store_anywhere(std::span<const std::byte> bytes) {
    const std::uint64_t skip = random_() % 4 == 0 ? 4ULL * pick(random_, 1, 15) : 0;
    const std::uint64_t address = pair_.allocate(bytes.size() + 64) + skip;
    pair_.write(address, bytes);
    return address;
  }

  std::uint8_t query_dtype() {
    constexpr std::uint8_t kTypes[] = {NKV_DTYPE_BF16, NKV_DTYPE_FP16, NKV_DTYPE_FP32};
    return kTypes[pick(random_, 0, 2)];
  }

  StreamCommand attend() {
    nkv_attend_command command{};
    command.opcode = NKV_OPCODE_ATTEND;
    set_scan(&command, query_dtype());
    command.flags = static_cast<std::uint8_t>(random_() & NKV_ATTEND_FLAG_ALL);
    command.value_dim = shape_.value_dim;
    command.soft_cap = random_() % 4 == 0 ? 0.5F * static_cast<float>(pick(random_, 1, 40)) : 0.0F;
    constexpr std::uint16_t kCounts[] = {0, 8, 64, 256};
    command.top_k = kCounts[pick(random_, 0, 3)];
    command.mode = static_cast<std::uint8_t>(pick(random_, 0, 2));
    command.z = static_cast<std::uint8_t>(random_() % 2 == 0 ? 0 : pick(random_, 1, 100));
    command.error = std::exp2(-0.5F * static_cast<float>(pick(random_, 0, 14)));
    command.byte_cap = static_cast<std::uint8_t>(random_() % 4 == 0 ? random_() : 0);
    command.result = pair_.allocate(std::uint64_t{command.group} * kMostChannels * 4 + 512);
    StreamCommand stream{.name = "ATTEND mode " + std::to_string(command.mode), .places = {}};
    stream.set(command);
    return stream;
  }

  StreamCommand topk() {
    nkv_topk_command command{};
    set_scan(&command, query_dtype());
    command.z = static_cast<std::uint8_t>(random_() % 2 == 0 ? 0 : pick(random_, 1, 255));
    command.mode = random_() % 3 == 0 ? NKV_SELECT_FULL : NKV_SELECT_STATISTICAL;
    return finish_topk(command);
  }

  /// Of DELTA4 pages a refusal.
  StreamCommand indexer() {
    nkv_topk_command command{};
    set_scan(&command, random_() % 2 == 0 ? std::uint8_t{NKV_DTYPE_FP8_E4M3} : query_dtype());
    std::normal_distribution<float> normal;
    const bool wild = random_() % 4 == 0;
    std::vector<float> weights(command.group);
    for (float& weight : weights) {
      weight = wild ? std::bit_cast<float>(static_cast<std::uint32_t>(random_())) : normal(random_);
    }
    command.weights = store_anywhere(std::as_bytes(std::span<const float>(weights)));
    command.mode = NKV_SELECT_INDEXER;
    return finish_topk(command);
  }

  StreamCommand finish_topk(nkv_topk_command command) {
    command.opcode = NKV_OPCODE_TOPK;
    constexpr std::uint16_t kCounts[] = {1, 7, 64, kMostTopK};
    command.top_k = kCounts[pick(random_, 0, 3)];
    command.result = pair_.allocate(std::uint64_t{command.group} * kMostTopK * 8 + 4096);
    StreamCommand stream{.name = "TOPK mode " + std::to_string(command.mode), .places = {}};
    stream.set(command);
    return stream;
  }

  DevicePair& pair_;
  Random random_;
  ListShape shape_;
  ListOnBoth list_;
  nkv_pages_command transcoded_{};  ///< The last one.
};

}  // namespace nearkv::test
