#include "zstd_reference.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <stdexcept>

namespace nearkv::rtl_test {
namespace {

// Compressed blocks that the engine holds.
constexpr std::size_t kMaxCompressedBlock = 65472;

struct Corrupted : std::runtime_error {
  Corrupted() : std::runtime_error("corrupted") {}
};

void demand(bool is_good) {
  if (!is_good) throw Corrupted();
}

// Part of the frame, read from its beginning.
class Forward {
 public:
  Forward(const std::uint8_t* begin, std::size_t size) : at_(begin), left_(size) {}

  [[nodiscard]] std::size_t left() const { return left_; }
  [[nodiscard]] const std::uint8_t* at() const { return at_; }

  std::uint64_t number(std::size_t bytes) {
    demand(bytes <= left_);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) value |= std::uint64_t{at_[i]} << 8 * i;
    skip(bytes);
    return value;
  }

  Forward part(std::size_t bytes) {
    demand(bytes <= left_);
    const Forward result(at_, bytes);
    skip(bytes);
    return result;
  }

  void skip(std::size_t bytes) {
    demand(bytes <= left_);
    at_ += bytes;
    left_ -= bytes;
  }

 private:
  const std::uint8_t* at_;
  std::size_t left_;
};

// A stream of bits that is read from its end; zeros follow its last bit.
class Backward {
 public:
  explicit Backward(Forward bytes) : begin_(bytes.at()) {
    demand(bytes.left() > 0 && begin_[bytes.left() - 1] != 0);
    left_ = static_cast<std::int64_t>(8 * (bytes.left() - 1)) +
            static_cast<std::int64_t>(std::bit_width(begin_[bytes.left() - 1])) - 1;
  }

  [[nodiscard]] std::int64_t left() const { return left_; }

  std::uint32_t take(unsigned bits) {
    std::uint32_t value = 0;
    for (unsigned i = 0; i < bits; ++i) {
      --left_;
      const bool bit = left_ >= 0 && (begin_[left_ / 8] >> left_ % 8 & 1) != 0;
      value = value << 1 | static_cast<std::uint32_t>(bit);
    }
    return value;
  }

 private:
  const std::uint8_t* begin_;
  std::int64_t left_;
};

struct State {
  unsigned symbol;
  unsigned bits;
  unsigned base;
};

struct FseTable {
  unsigned log = 0;
  std::vector<State> states;
};

FseTable build_table(const std::vector<int>& counts, unsigned log) {
  const std::size_t size = std::size_t{1} << log;
  std::vector<unsigned> symbols(size);
  std::vector<unsigned> next(counts.size());
  std::size_t high = size;
  for (std::size_t s = 0; s < counts.size(); ++s) {
    next[s] = static_cast<unsigned>(std::abs(counts[s]));
    if (counts[s] == -1) symbols[--high] = static_cast<unsigned>(s);
  }
  std::size_t place = 0;
  for (std::size_t s = 0; s < counts.size(); ++s) {
    for (int i = 0; i < counts[s]; ++i) {
      symbols[place] = static_cast<unsigned>(s);
      do place = (place + (size >> 1) + (size >> 3) + 3) % size;
      while (place >= high);
    }
  }
  FseTable table{.log = log, .states = {}};
  for (std::size_t i = 0; i < size; ++i) {
    const unsigned number = next[symbols[i]]++;
    const unsigned bits = log + 1 - static_cast<unsigned>(std::bit_width(number));
    table.states.push_back({symbols[i], bits, (number << bits) - static_cast<unsigned>(size)});
  }
  return table;
}

FseTable read_table(Forward& from, unsigned max_log, unsigned last_symbol) {
  std::size_t bit = 0;
  const auto take = [&](unsigned bits) {
    unsigned value = 0;
    for (unsigned i = 0; i < bits; ++i, ++bit) {
      const bool is_there = bit / 8 < from.left();
      value |= (is_there ? from.at()[bit / 8] >> bit % 8 & 1U : 0U) << i;
    }
    return value;
  };
  const unsigned log = take(4) + 5;
  demand(log <= max_log);
  std::vector<int> counts;
  int left = 1 << log;
  while (left > 0) {
    demand(counts.size() <= last_symbol);
    const unsigned bits = static_cast<unsigned>(std::bit_width(static_cast<unsigned>(left) + 1));
    const unsigned threshold = 1U << (bits - 1);
    const unsigned short_values = 2 * threshold - 1 - (static_cast<unsigned>(left) + 1);
    unsigned value = take(bits - 1);
    if (value >= short_values) {
      value |= take(1) << (bits - 1);
      if (value >= threshold) value -= short_values;
    }
    const int count = static_cast<int>(value) - 1;
    counts.push_back(count);
    left -= std::abs(count);
    if (count == 0) {
      unsigned more = 3;
      while (more == 3) {
        more = take(2);
        counts.resize(counts.size() + more, 0);
        demand(counts.size() <= last_symbol);
      }
    }
  }
  demand(left == 0);
  from.skip((bit + 7) / 8);
  return build_table(counts, log);
}

struct HuffmanTree {
  unsigned bits = 0;
  struct Leaf {
    std::uint8_t symbol;
    unsigned bits;
  };
  std::vector<Leaf> leaves;  // By the next `bits` bits.
};

HuffmanTree read_tree(Forward& from, ZstdParts& parts) {
  std::vector<unsigned> weights;
  const std::size_t head = from.number(1);
  if (head >= 128) {
    ++parts["weights: direct"];
    Forward part = from.part((head - 126) / 2);
    while (weights.size() < head - 127) {
      const auto two = static_cast<unsigned>(part.number(1));
      weights.push_back(two >> 4);
      if (weights.size() < head - 127) weights.push_back(two & 15);
    }
  } else {
    ++parts["weights: FSE"];
    Forward part = from.part(head);
    const FseTable table = read_table(part, 6, 11);
    Backward bits(part);
    std::array<unsigned, 2> states{};
    for (unsigned& state : states) state = bits.take(table.log);
    demand(bits.left() >= 0);
    for (unsigned turn = 0;; turn = 1 - turn) {
      demand(weights.size() < 255);
      const State& state = table.states[states[turn]];
      weights.push_back(state.symbol);
      if (static_cast<std::int64_t>(state.bits) > bits.left()) {
        weights.push_back(table.states[states[1 - turn]].symbol);
        break;
      }
      states[turn] = state.base + bits.take(state.bits);
    }
    demand(weights.size() <= 255);
  }

  std::uint32_t total = 0;
  for (const unsigned weight : weights) {
    demand(weight <= 11);
    total += (1U << weight) >> 1;
  }
  HuffmanTree tree;
  tree.bits = static_cast<unsigned>(std::bit_width(total));
  demand(total > 0 && tree.bits <= 11);
  const std::uint32_t rest = (1U << tree.bits) - total;
  demand(std::has_single_bit(rest));
  weights.push_back(static_cast<unsigned>(std::bit_width(rest)));
  demand(std::count(weights.begin(), weights.end(), 1U) >= 2);
  for (unsigned weight = 1; weight <= tree.bits; ++weight) {
    for (std::size_t s = 0; s < weights.size(); ++s) {
      if (weights[s] != weight) continue;
      tree.leaves.resize(tree.leaves.size() + (1U << (weight - 1)),
                         {static_cast<std::uint8_t>(s), tree.bits + 1 - weight});
    }
  }
  ++parts["tree of " + std::to_string(tree.bits) + " bits"];
  return tree;
}

constexpr std::array<std::array<unsigned, 2>, 36> kLiteralCodes{
    {{0, 0},     {1, 0},      {2, 0},      {3, 0},     {4, 0},   {5, 0},     {6, 0},     {7, 0},
     {8, 0},     {9, 0},      {10, 0},     {11, 0},    {12, 0},  {13, 0},    {14, 0},    {15, 0},
     {16, 1},    {18, 1},     {20, 1},     {22, 1},    {24, 2},  {28, 2},    {32, 3},    {40, 3},
     {48, 4},    {64, 6},     {128, 7},    {256, 8},   {512, 9}, {1024, 10}, {2048, 11}, {4096, 12},
     {8192, 13}, {16384, 14}, {32768, 15}, {65536, 16}}};

std::array<unsigned, 2> match_code(unsigned code) {
  constexpr std::array<std::array<unsigned, 2>, 21> kLong{
      {{35, 1},    {37, 1},    {39, 1},    {41, 1},    {43, 2},     {47, 2},     {51, 3},
       {59, 3},    {67, 4},    {83, 4},    {99, 5},    {131, 7},    {259, 8},    {515, 9},
       {1027, 10}, {2051, 11}, {4099, 12}, {8195, 13}, {16387, 14}, {32771, 15}, {65539, 16}}};
  return code < 32 ? std::array<unsigned, 2>{code + 3, 0} : kLong[code - 32];
}

const std::array<std::vector<int>, 3>& default_counts() {
  static const std::array<std::vector<int>, 3> counts{
      {{4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1,  1,  2,  2,
        2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1},
       {1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1},
       {1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1,  1,  1,  1,  1,  1, 1,
        1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1}}};
  return counts;
}

class Decoder {
 public:
  Decoder(const Bytes& frame, std::size_t size, ZstdParts& parts)
      : from_(frame.data(), frame.size()), size_(size), parts_(parts) {}

  Bytes decode() {
    read_header();
    bool is_last = false;
    while (!is_last) {
      const auto head = static_cast<std::uint32_t>(from_.number(3));
      is_last = (head & 1) != 0;
      const std::size_t size = head >> 3;
      switch (head >> 1 & 3) {
        case 0: {
          ++parts_["block: raw"];
          demand(size <= 65536);
          Forward raw = from_.part(size);
          append(raw.at(), size);
          break;
        }
        case 1: {
          ++parts_["block: RLE"];
          demand(size <= 65536);
          const Bytes same(size, static_cast<std::uint8_t>(from_.number(1)));
          append(same.data(), size);
          break;
        }
        case 2:
          ++parts_["block: compressed"];
          demand(size <= kMaxCompressedBlock);
          read_block(from_.part(size));
          break;
        default:
          throw Corrupted();
      }
    }
    demand(from_.left() == 0 && plain_.size() == size_);
    return plain_;
  }

 private:
  void append(const std::uint8_t* bytes, std::size_t size) {
    demand(size <= size_ - plain_.size());
    plain_.insert(plain_.end(), bytes, bytes + size);
  }

  void read_header() {
    demand(from_.number(4) == 0xFD2FB528);
    const auto descriptor = static_cast<unsigned>(from_.number(1));
    demand((descriptor & 15) == 0);
    const bool is_single = (descriptor & 32) != 0;
    if (!is_single) demand(from_.number(1) >> 3 <= 21);
    switch (descriptor >> 6) {
      case 0:
        if (is_single) demand(from_.number(1) == size_);
        break;
      case 1:
        demand(from_.number(2) + 256 == size_);
        break;
      case 2:
        demand(from_.number(4) == size_);
        break;
      default:
        demand(from_.number(8) == size_);
    }
  }

  void read_stream(Forward part, std::size_t count) {
    Backward bits(part);
    for (std::size_t i = 0; i < count; ++i) {
      std::uint32_t code = 0;
      Backward ahead = bits;
      code = ahead.take(tree_->bits);
      const HuffmanTree::Leaf& leaf = tree_->leaves[code];
      bits.take(leaf.bits);
      demand(bits.left() >= 0);
      literals_.push_back(leaf.symbol);
    }
    demand(bits.left() == 0);
  }

  void read_literals(Forward& from) {
    literals_.clear();
    demand(from.left() >= 1);
    const unsigned form = *from.at() & 3U;
    const unsigned size_form = *from.at() >> 2 & 3U;
    if (form < 2) {
      constexpr std::array<std::size_t, 4> kBytes{1, 2, 1, 3};
      const std::uint64_t head = from.number(kBytes[size_form]);
      const std::size_t size = size_form % 2 == 0 ? head >> 3 : head >> 4;
      demand(size <= 65536);
      ++parts_[form == 0 ? "literals: raw" : "literals: RLE"];
      if (form == 0) {
        const Forward raw = from.part(size);
        literals_.assign(raw.at(), raw.at() + size);
      } else {
        literals_.assign(size, static_cast<std::uint8_t>(from.number(1)));
      }
      return;
    }
    constexpr std::array<unsigned, 4> kBits{10, 10, 14, 18};
    const unsigned bits = kBits[size_form];
    const std::uint64_t head = from.number((4 + 2 * bits + 7) / 8);
    const std::size_t size = head >> 4 & ((1U << bits) - 1);
    Forward part = from.part(head >> (4 + bits) & ((1U << bits) - 1));
    demand(size <= 65536);
    if (form == 2) {
      ++parts_["literals: Huffman"];
      tree_ = read_tree(part, parts_);
    } else {
      ++parts_["literals: treeless"];
    }
    demand(tree_.has_value());
    if (size_form == 0) {
      ++parts_["streams: 1"];
      demand(size >= 1);
      read_stream(part, size);
      return;
    }
    ++parts_["streams: 4"];
    demand(size >= 6);
    std::array<std::size_t, 3> sizes;
    for (std::size_t& bytes : sizes) bytes = part.number(2);
    const std::size_t each = (size + 3) / 4;
    for (const std::size_t bytes : sizes) read_stream(part.part(bytes), each);
    read_stream(part, size - 3 * each);
  }

  void read_tables(Forward& from) {
    constexpr std::array<const char*, 3> kNames{
        "literal lengths: ", "offsets: ", "match lengths: "};
    constexpr std::array<unsigned, 3> kMaxLogs{9, 8, 9};
    constexpr std::array<unsigned, 3> kLastSymbols{35, 31, 52};
    const auto modes = static_cast<unsigned>(from.number(1));
    demand((modes & 3) == 0);
    for (unsigned t = 0; t < 3; ++t) {
      FseTable& table = tables_[t];
      switch (modes >> (6 - 2 * t) & 3) {
        case 0:
          ++parts_[kNames[t] + std::string("predefined")];
          table = build_table(default_counts()[t], t == 1 ? 5 : 6);
          break;
        case 1: {
          ++parts_[kNames[t] + std::string("RLE")];
          const auto symbol = static_cast<unsigned>(from.number(1));
          demand(symbol <= kLastSymbols[t]);
          table = {.log = 0, .states = {{symbol, 0, 0}}};
          break;
        }
        case 2:
          ++parts_[kNames[t] + std::string("FSE")];
          table = read_table(from, kMaxLogs[t], kLastSymbols[t]);
          break;
        default:
          ++parts_[kNames[t] + std::string("repeated")];
          demand(!table.states.empty());
      }
    }
  }

  std::size_t offset_of(std::size_t value, bool has_literals) {
    if (value > 3) {
      repeated_ = {value - 3, repeated_[0], repeated_[1]};
      return repeated_[0];
    }
    const std::size_t which = value - (has_literals ? 1 : 0);
    ++parts_["repeated offset " + std::to_string(which)];
    const std::size_t offset = which == 3 ? repeated_[0] - 1 : repeated_[which];
    demand(offset > 0);
    if (which > 1) repeated_[2] = repeated_[1];
    if (which > 0) repeated_[1] = repeated_[0];
    repeated_[0] = offset;
    return offset;
  }

  void read_block(Forward from) {
    read_literals(from);
    std::size_t sequences = from.number(1);
    if (sequences == 255) {
      sequences = from.number(2) + 0x7F00;
    } else if (sequences >= 128) {
      sequences = (sequences - 128) * 256 + from.number(1);
      demand(sequences > 0);
    }
    std::size_t next_literal = 0;
    if (sequences == 0) {
      ++parts_["sequences: none"];
      demand(from.left() == 0);
    } else {
      read_tables(from);
      Backward bits(from);
      std::array<unsigned, 3> states;
      for (const unsigned t : {0U, 1U, 2U}) states[t] = bits.take(tables_[t].log);
      for (std::size_t i = 0; i < sequences; ++i) {
        const State& literal_state = tables_[0].states[states[0]];
        const State& offset_state = tables_[1].states[states[1]];
        const State& match_state = tables_[2].states[states[2]];
        demand(offset_state.symbol <= 16);
        const std::size_t value = (1U << offset_state.symbol) + bits.take(offset_state.symbol);
        const auto [match_base, match_bits] = match_code(match_state.symbol);
        const std::size_t length = match_base + bits.take(match_bits);
        const auto [literal_base, literal_bits] = kLiteralCodes[literal_state.symbol];
        const std::size_t literals = literal_base + bits.take(literal_bits);
        if (i + 1 < sequences) {
          for (const unsigned t : {0U, 2U, 1U}) {
            const State& state = tables_[t].states[states[t]];
            states[t] = state.base + bits.take(state.bits);
          }
        }
        demand(bits.left() >= 0 && literals <= literals_.size() - next_literal);
        append(literals_.data() + next_literal, literals);
        next_literal += literals;
        const std::size_t offset = offset_of(value, literals > 0);
        demand(offset <= plain_.size() && length <= size_ - plain_.size());
        for (std::size_t k = 0; k < length; ++k) plain_.push_back(plain_[plain_.size() - offset]);
      }
      demand(bits.left() == 0);
    }
    append(literals_.data() + next_literal, literals_.size() - next_literal);
  }

  Forward from_;
  std::size_t size_;
  ZstdParts& parts_;
  Bytes plain_;
  Bytes literals_;
  std::optional<HuffmanTree> tree_;
  std::array<FseTable, 3> tables_;
  std::array<std::size_t, 3> repeated_{1, 4, 8};
};

}  // namespace

std::optional<Bytes> decode_strictly(const Bytes& frame, std::size_t size, ZstdParts* parts) {
  ZstdParts seen;
  try {
    Bytes plain = Decoder(frame, size, seen).decode();
    if (parts != nullptr) {
      for (const auto& [name, count] : seen) (*parts)[name] += count;
    }
    return plain;
  } catch (const Corrupted&) {
    return std::nullopt;
  }
}

}  // namespace nearkv::rtl_test
