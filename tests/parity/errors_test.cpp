// Whatever is wrong with a command, a page entry or a page: the same status, the same detail, and
// the same memory afterwards.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <tuple>

#include "device_pair.hpp"
#include "page.hpp"
#include "support/offers.hpp"
#include "support/page_commands.hpp"
#include "support/seed.hpp"

namespace nearkv::test {
namespace {

using CommandBytes = std::array<std::byte, NKV_COMMAND_BYTES>;

constexpr std::uint32_t kPages = 3;
// Free places for pages of any shape.
constexpr std::uint32_t kNewPages = 2;
constexpr std::uint64_t kNewPageBytes = 200000;
constexpr std::size_t kTagAt = offsetof(nkv_append_command, tag);

/// Three pages on both devices and every command that can be asked of them. After each command all
/// is put back as it was.
class ErrorParityTest : public testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  void SetUp() override {
    const KvData data = make_kv(Shape::kTopics, 160, 64, 48, 5);
    const std::vector<std::uint16_t> queries = make_queries(data, 3, 3.0, 6);
    for (BenchDevice* const bench : {&pair_.subject(), &pair_.model()}) {
      bench->allocate(4096);  // So that address 0 is no page.
      list_ = append(bench, data, form(), form());
      commands_ = page_commands(bench, list_, queries, best_codec(pair_.subject().device()));
      // Free places for pages, and zero rows behind them.
      nkv_page_entry entries[kNewPages]{};
      for (nkv_page_entry& entry : entries) {
        entry.page =
            static_cast<std::uint32_t>(bench->allocate(kNewPageBytes) / NKV_PAGE_GRAIN_BYTES);
      }
      new_pages_ = bench->store(std::span<const nkv_page_entry>(entries));
      source_ = bench->allocate(2ULL * NKV_PAGE_TOKENS * 128);
    }
    ASSERT_EQ(list_.completion.status, NKV_STATUS_OK);
    const std::span<std::byte> window = pair_.model().window();
    pair_.expect_same_memory();
    ASSERT_EQ(window.size(), pair_.subject().window().size());
    before_.assign(window.begin(), window.end());
    std::ranges::copy(before_, pair_.subject().window().begin());
  }

  [[nodiscard]] static std::uint8_t form() {
    return static_cast<std::uint8_t>(std::get<1>(GetParam()));
  }

  void restore() {
    std::ranges::copy(before_, pair_.subject().window().begin());
    std::ranges::copy(before_, pair_.model().window().begin());
  }

  /// What is compared after a command that both ran. Results of ATTEND may differ in the last bits;
  /// those that are written over their own source, or come from damaged rows, may say anything.
  enum class Compare { kAll, kStatus };

  void expect_same(const CommandBytes& command, Compare compare = Compare::kAll) {
    if (asked_++ % test_every() != 0 || writes_into_sources(command)) return restore();
    const DevicePair::Completions done = pair_.run(command);
    const bool attended = std::to_integer<int>(command[0]) == NKV_OPCODE_ATTEND;
    if (done.model.status == NKV_STATUS_OK && (attended || compare == Compare::kStatus)) {
      EXPECT_EQ(done.subject.status, done.model.status) << describe(done.subject);
    } else {
      EXPECT_EQ(describe(done.subject), describe(done.model));
      if (done.model.status != NKV_STATUS_OK) forget_unfinished(command, done.model.count);
      EXPECT_TRUE(std::ranges::equal(pair_.subject().window(), pair_.model().window()))
          << "memory differs after " << describe(done.model);
    }
    ++statuses_[done.model.status];
    restore();
  }

  /// Whether TRANSCODE is to write sizes of pages into its sources, which a device may have read by
  /// then or not.
  bool writes_into_sources(const CommandBytes& bytes) {
    nkv_pages_command command{};
    std::memcpy(&command, bytes.data(), sizeof(command));
    if (command.opcode != NKV_OPCODE_TRANSCODE) return false;
    const std::uint64_t first = page_at(0);
    const std::uint64_t end = page_at(kPages - 1) + list_.page_bytes;
    return command.result < end && first < command.result + kPages * sizeof(std::uint32_t);
  }

  /// The places of pages that a failed command did not come to may hold anything that is no page.
  void forget_unfinished(const CommandBytes& bytes, std::uint32_t done) {
    nkv_pages_command command{};
    std::memcpy(&command, bytes.data(), sizeof(command));
    nkv_append_command append{};
    std::memcpy(&append, bytes.data(), sizeof(append));
    const bool appends = command.opcode == NKV_OPCODE_APPEND;
    const bool transcodes = command.opcode == NKV_OPCODE_TRANSCODE;
    if (!appends && !transcodes && command.opcode != NKV_OPCODE_COPY) return;
    const std::uint64_t room = transcodes ? command.slot_bytes
                               : appends  ? kNewPageBytes
                                          : list_.page_bytes;
    const std::uint64_t entries = appends ? append.page_list : command.destination;
    const std::size_t end = pair_.model().window().size();
    for (std::uint64_t at = entries + done * sizeof(nkv_page_entry),
                       left = (appends ? kNewPages : kPages) - std::min(done, kPages);
         left > 0 && at + sizeof(nkv_page_entry) <= end; --left, at += sizeof(nkv_page_entry)) {
      nkv_page_entry entry{};  // At any address, which a flipped bit has changed.
      std::memcpy(&entry, pair_.model().at<std::byte>(at), sizeof(entry));
      const std::uint64_t place = std::uint64_t{entry.page} * NKV_PAGE_GRAIN_BYTES;
      if (place + room > end) continue;
      for (BenchDevice* const bench : {&pair_.subject(), &pair_.model()}) {
        if (std::ranges::equal(bench->window().subspan(place, room),
                               std::span(before_).subspan(place, room))) {
          continue;
        }
        EXPECT_EQ(*bench->at<std::uint64_t>(place), 0U) << "an unfinished page can be found";
        std::ranges::copy(std::span(before_).subspan(place, room), bench->at<std::byte>(place));
      }
    }
  }

  /// That more commands than so many ended so, where all was tried.
  void expect_seen(int status, std::uint64_t times = 0) {
    if (test_every() == 1) {
      EXPECT_GT(statuses_[status], times) << "status " << status << " was too rarely seen";
    }
  }

  void expect_same_of_all() {
    for (const PageCommand& command : commands_) {
      SCOPED_TRACE(command.name);
      expect_same(command.bytes);
    }
  }

  /// Both devices' copy of a structure.
  template <typename T, typename Change>
  void change(std::uint64_t address, const Change& apply) {
    apply(pair_.subject().at<T>(address));
    apply(pair_.model().at<T>(address));
  }

  [[nodiscard]] std::uint64_t page_at(std::size_t index) {
    const auto* const entry = pair_.model().at<nkv_page_entry>(list_.page_list) + index;
    return std::uint64_t{entry->page} * NKV_PAGE_GRAIN_BYTES;
  }

  DevicePair pair_{comparing_always(std::get<0>(GetParam())), "2MiB"};
  StoredList list_;
  std::vector<PageCommand> commands_;
  std::uint64_t new_pages_ = 0;
  std::uint64_t source_ = 0;
  std::vector<std::byte> before_;
  std::uint64_t asked_ = 0;
  std::map<int, std::uint64_t> statuses_;  ///< How often each status was seen.
};

/// Whether another value at a byte of a command may make it write over what it reads.
bool moves_result(const CommandBytes& command, std::size_t at) {
  constexpr std::size_t kAt = offsetof(nkv_topk_command, result);
  static_assert(offsetof(nkv_attend_command, result) == kAt &&
                offsetof(nkv_append_command, page_list) == kAt);
  const int opcode = std::to_integer<int>(command[0]);
  if (opcode == NKV_OPCODE_READ || opcode == NKV_OPCODE_GATHER) return false;  // BAD_FIELD.
  const bool appends = opcode == NKV_OPCODE_APPEND;
  const std::size_t first = appends ? offsetof(nkv_append_command, keys) : kAt;
  return at >= first && at < kAt + sizeof(std::uint64_t);
}

void flip(std::byte* byte, unsigned bit) { *byte ^= static_cast<std::byte>(1U << bit); }

TEST_P(ErrorParityTest, AnyBitOfACommand) {
  nkv_append_command append{};
  append.opcode = NKV_OPCODE_APPEND;
  append.head_dim = append.value_dim = 64;
  append.tokens = kNewPages * NKV_PAGE_TOKENS;
  append.key_stride = append.value_stride = 128;
  append.k_form = append.v_form = form();
  append.page_list = new_pages_;
  append.keys = append.values = source_;
  PageCommand appends{"APPEND", {}, false};
  std::memcpy(appends.bytes.data(), &append, sizeof(append));
  commands_.push_back(appends);
  commands_.push_back({"NOP", {}, false});
  for (const PageCommand& command : commands_) {
    for (std::size_t at = 0; at < sizeof(CommandBytes); ++at) {
      if (at == kTagAt || at == kTagAt + 1) continue;
      for (unsigned bit = 0; bit < 8; ++bit) {
        SCOPED_TRACE(command.name + ", byte " + std::to_string(at) + ", bit " +
                     std::to_string(bit));
        CommandBytes changed = command.bytes;
        flip(&changed[at], bit);
        expect_same(changed, moves_result(command.bytes, at) ? Compare::kStatus : Compare::kAll);
      }
    }
    if (HasFailure()) break;
  }
  for (const int status : {NKV_STATUS_OK, NKV_STATUS_BAD_OPCODE, NKV_STATUS_BAD_FIELD,
                           NKV_STATUS_ADDRESS_FAULT, NKV_STATUS_BAD_PAGE}) {
    expect_seen(status);
  }
}

TEST_P(ErrorParityTest, FieldsAtTheirLimits) {
  constexpr std::array<std::uint16_t, 6> kLimits{0x0000, 0xFFFF, 0x7F80, 0x8000, 0x0010, 0x0240};
  for (const PageCommand& command : commands_) {
    for (std::size_t at = 4; at < sizeof(CommandBytes); at += 2) {
      for (const std::uint16_t value : kLimits) {
        SCOPED_TRACE(command.name + ", bytes at " + std::to_string(at) + " = " +
                     std::to_string(value));
        CommandBytes changed = command.bytes;
        std::memcpy(&changed[at], &value, sizeof(value));
        expect_same(changed, moves_result(command.bytes, at) ? Compare::kStatus : Compare::kAll);
      }
    }
    if (HasFailure()) break;
  }
}

TEST_P(ErrorParityTest, AnyBitOfAPageEntry) {
  for (unsigned at = 0; at < 8 * sizeof(nkv_page_entry); ++at) {
    SCOPED_TRACE("bit " + std::to_string(at));
    for (const PageCommand& command : commands_) {
      SCOPED_TRACE(command.name);
      change<std::byte>(list_.page_list + sizeof(nkv_page_entry) + at / 8,
                        [&](std::byte* byte) { flip(byte, at % 8); });
      expect_same(command.bytes);
    }
    if (HasFailure()) break;
  }
  expect_seen(NKV_STATUS_STALE_PAGE);
  expect_seen(NKV_STATUS_BAD_PAGE);
  expect_seen(NKV_STATUS_ADDRESS_FAULT);
}

TEST_P(ErrorParityTest, BitsOfEveryByteOfAHeader) {
  for (unsigned at = 0; at < 8 * sizeof(nkv_page_header); at += 3) {
    SCOPED_TRACE("bit " + std::to_string(at % 8) + " of byte " + std::to_string(at / 8));
    for (const PageCommand& command : commands_) {
      SCOPED_TRACE(command.name);
      change<std::byte>(page_at(1) + at / 8, [&](std::byte* byte) { flip(byte, at % 8); });
      expect_same(command.bytes);
    }
    if (HasFailure()) break;
  }
  expect_seen(NKV_STATUS_CORRUPT);
}

TEST_P(ErrorParityTest, BitsOfEveryByteOfAHeaderUnderItsChecksum) {
  // BAD_PAGE to a device that takes no codes; to others a page whose codes are not right.
  constexpr unsigned kCodesAt = 8 * offsetof(nkv_page_header, flags) + 1;
  static_assert(NKV_PAGE_FLAG_CODES == 1 << 1);
  const bool has_codes = offers_feature(pair_.subject().device(), NKV_FEATURE_CODE_PAGES);
  for (unsigned at = 0; at < 8 * sizeof(nkv_page_header); at += 3) {
    if (at == kCodesAt && !has_codes) continue;
    SCOPED_TRACE("bit " + std::to_string(at % 8) + " of byte " + std::to_string(at / 8));
    for (const PageCommand& command : commands_) {
      SCOPED_TRACE(command.name);
      change<nkv_page_header>(page_at(1), [&](nkv_page_header* header) {
        flip(reinterpret_cast<std::byte*>(header) + at / 8, at % 8);
        model::seal(*header);
      });
      // A header that lies about its arrays gives nonsense wherever it is believed.
      expect_same(command.bytes, Compare::kStatus);
    }
    if (HasFailure()) break;
  }
  expect_seen(NKV_STATUS_BAD_PAGE);
  expect_seen(NKV_STATUS_COLD_PAGE);
}

TEST_P(ErrorParityTest, BitsOfEveryArray) {
  Random random = case_random(0);
  nkv_page_header header{};
  std::memcpy(&header, pair_.model().at<std::byte>(page_at(1)), sizeof(header));
  const nkv_page_shape shape = model::shape_of(header);
  nkv_page_layout layout{};
  nkv_lay_out_page(&shape, &layout);
  for (int array = 0; array < NKV_PAGE_ARRAY_COUNT; ++array) {
    if (layout.bytes[array] == 0) continue;
    for (unsigned round = 0; round < 12; ++round) {
      const std::uint32_t at = layout.offset[array] + pick(random, 0, layout.bytes[array] - 1);
      SCOPED_TRACE(case_name(0) + ", array " + std::to_string(array) + ", byte " +
                   std::to_string(at));
      for (const PageCommand& command : commands_) {
        SCOPED_TRACE(command.name);
        change<std::byte>(page_at(1) + at, [&](std::byte* byte) { flip(byte, round % 8); });
        // Rows read here and there have the memory's own protection only.
        const bool rows = array == NKV_PAGE_ARRAY_K_ROWS || array == NKV_PAGE_ARRAY_V_ROWS;
        expect_same(command.bytes, rows ? Compare::kStatus : Compare::kAll);
      }
    }
    if (HasFailure()) break;
  }
  expect_seen(NKV_STATUS_CORRUPT);
}

TEST_P(ErrorParityTest, QueriesAndWeightsThatAreNotFinite) {
  constexpr std::array<std::uint16_t, 3> kPatterns{0x7FC0, 0x7F80, 0xFF80};
  for (const PageCommand& command : commands_) {
    const int opcode = std::to_integer<int>(command.bytes[0]);
    if (opcode != NKV_OPCODE_ATTEND && opcode != NKV_OPCODE_TOPK) continue;
    SCOPED_TRACE(command.name);
    nkv_topk_command fields{};
    std::memcpy(&fields, command.bytes.data(), sizeof(fields));
    for (const std::uint16_t pattern : kPatterns) {
      for (const std::uint32_t row : {0U, 2U}) {
        change<std::uint16_t>(fields.query + 128 * row + 10,
                              [&](std::uint16_t* element) { *element = pattern; });
        expect_same(command.bytes);
      }
    }
    if (fields.mode != NKV_SELECT_INDEXER || opcode != NKV_OPCODE_TOPK) continue;
    change<float>(fields.weights + 4, [](float* weight) { *weight = std::nanf(""); });
    expect_same(command.bytes);
  }
  expect_seen(NKV_STATUS_BAD_QUERY, 20);
}

TEST_P(ErrorParityTest, CopiesThatOverlap) {
  for (const PageCommand& command : commands_) {
    if (command.name != "COPY") continue;
    nkv_pages_command fields{};
    std::memcpy(&fields, command.bytes.data(), sizeof(fields));
    const std::uint32_t pages[] = {static_cast<std::uint32_t>(page_at(0) / NKV_PAGE_GRAIN_BYTES),
                                   static_cast<std::uint32_t>(page_at(2) / NKV_PAGE_GRAIN_BYTES), 1,
                                   0xFFFFFFFF};
    for (const std::uint32_t page : pages) {
      for (const std::uint64_t index : {0U, 1U, 2U}) {
        change<nkv_page_entry>(fields.destination + index * sizeof(nkv_page_entry),
                               [&](nkv_page_entry* entry) { entry->page = page; });
        expect_same(command.bytes);
      }
    }
  }
  expect_seen(NKV_STATUS_BAD_FIELD);
}

// Pages of compressors, which a device may read and not build: the model's, damaged, back to rows.
TEST_P(ErrorParityTest, DamagedPagesOfPlanes) {
  Random random = case_random(1);
  for (const std::uint8_t codec : {NKV_CODEC_PLANES_LZ4, NKV_CODEC_PLANES_ZSTD}) {
    StoredList cold = list_;
    nkv_pages_command back{};
    for (BenchDevice* const bench : {&pair_.subject(), &pair_.model()}) {
      const nkv_pages_command cool = transcode_command(bench, list_, codec, list_.page_bytes, 9);
      cold.page_list = cool.destination;
      back = transcode_command(bench, cold, NKV_CODEC_NONE, list_.page_bytes, 10);
      if (bench != &pair_.model()) continue;
      ASSERT_EQ(bench->run(cool).status, NKV_STATUS_OK);
      const std::span<std::byte> window = bench->window();
      before_.assign(window.begin(), window.end());
    }
    restore();
    PageCommand opens{"TRANSCODE", {}, false};
    std::memcpy(opens.bytes.data(), &back, sizeof(back));
    expect_same(opens.bytes);
    const auto* const entry = pair_.model().at<nkv_page_entry>(cold.page_list) + 1;
    const std::uint64_t page = std::uint64_t{entry->page} * NKV_PAGE_GRAIN_BYTES;
    const std::uint32_t payload_bytes = pair_.model().at<nkv_page_header>(page)->payload_bytes;
    for (unsigned round = 0; round < 160 && !HasFailure(); ++round) {
      const bool of_header = round % 2 == 0;
      const std::uint32_t at = of_header
                                   ? pick(random, 0, NKV_PAGE_HEADER_BYTES - 1)
                                   : NKV_PAGE_HEADER_BYTES + pick(random, 0, payload_bytes - 1);
      SCOPED_TRACE(case_name(1) + ", codec " + std::to_string(codec) + ", byte " +
                   std::to_string(at));
      change<std::byte>(page + at, [&](std::byte* byte) { flip(byte, round / 2 % 8); });
      // A header under its checksum, too.
      if (of_header && round % 4 == 0) {
        change<nkv_page_header>(page, [](nkv_page_header* header) { model::seal(*header); });
      }
      expect_same(opens.bytes);
    }
  }
  expect_seen(NKV_STATUS_OK);
  expect_seen(NKV_STATUS_CORRUPT, 50);
}

std::string name_of(const testing::TestParamInfo<std::tuple<std::string, int>>& info) {
  const std::string& uri = std::get<0>(info.param);
  return uri.substr(0, uri.find(':')) +
         (std::get<1>(info.param) == NKV_ROW_FORM_RAW ? "_raw" : "_delta4");
}

INSTANTIATE_TEST_SUITE_P(Devices, ErrorParityTest,
                         testing::Combine(testing::ValuesIn(subject_uris()),
                                          testing::Values(NKV_ROW_FORM_RAW, NKV_ROW_FORM_DELTA4)),
                         name_of);

}  // namespace
}  // namespace nearkv::test
