#include "contract_rules.hpp"

#include <algorithm>
#include <cstring>

namespace nearkv::abi_test {
namespace {

const std::vector<Rule>& all_rules() {
  static const std::vector<Rule> rules = {
#include "rules.inc"
  };
  return rules;
}

}  // namespace

std::uint64_t Rule::largest() const { return ~std::uint64_t{0} >> (64 - 8 * element_bytes); }

bool Rule::allows(std::uint64_t value) const {
  const bool is_listed = allowed.empty() || std::ranges::find(allowed, value) != allowed.end();
  return value >= min && value <= max && value % multiple == 0 && (value & ~mask) == 0 && is_listed;
}

bool Rule::holds_in(std::span<const std::byte> command_bytes) const {
  for (std::size_t element = 0; element < count; ++element) {
    if (!allows(read(command_bytes, element))) {
      return false;
    }
  }
  return true;
}

std::uint64_t Rule::good_value(Random& random) const {
  if (!allowed.empty()) {
    return allowed[random() % allowed.size()];
  }
  const std::uint64_t first = (min + multiple - 1) / multiple;
  const std::uint64_t last = max / multiple;
  return std::uniform_int_distribution<std::uint64_t>(first, last)(random) * multiple & mask;
}

std::vector<std::uint64_t> Rule::bad_values(Random& random) const {
  std::vector<std::uint64_t> candidates = {
      min - 1, max + 1,  min - multiple, max + multiple, max / multiple * multiple + 1,
      min + 1, largest()};
  for (std::uint64_t step = 1; step < multiple; ++step) {
    candidates.push_back((good_value(random) + step) & largest());
  }
  for (std::size_t bit = 0; bit < 8 * element_bytes; ++bit) {
    candidates.push_back(std::uint64_t{1} << bit);
  }
  for (std::uint64_t value = 0; value < 256; ++value) {
    candidates.push_back(value);
  }
  std::erase_if(candidates, [this](auto value) { return value > largest() || allows(value); });
  return candidates;
}

std::uint64_t Rule::read(std::span<const std::byte> command_bytes, std::size_t element) const {
  std::uint64_t value = 0;
  std::memcpy(&value, command_bytes.data() + offset_bytes + element * element_bytes, element_bytes);
  return value;
}

void Rule::write(Bytes command_bytes, std::size_t element, std::uint64_t value) const {
  std::memcpy(command_bytes.data() + offset_bytes + element * element_bytes, &value, element_bytes);
}

std::vector<Rule> rules_of(std::string_view command) {
  std::vector<Rule> rules;
  std::ranges::copy_if(all_rules(), std::back_inserter(rules), [command](const Rule& rule) {
    return command.empty() || rule.command == command;
  });
  return rules;
}

void fill_with_good_values(std::string_view command, Bytes command_bytes, Random& random) {
  for (const Rule& rule : rules_of(command)) {
    for (std::size_t element = 0; element < rule.count; ++element) {
      rule.write(command_bytes, element, rule.good_value(random));
    }
  }
}

}  // namespace nearkv::abi_test
