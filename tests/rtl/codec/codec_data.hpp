// Data to compress, of many kinds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "support/seed.hpp"

namespace nearkv::rtl_test {

using Bytes = std::vector<std::uint8_t>;

inline constexpr std::size_t kBurst = 64;
inline constexpr std::size_t kLargest = 65536;

/// Data of some kind: the more `sameness`, the longer and nearer the matches.
inline Bytes some_data(test::Random& random, std::size_t size, unsigned sameness) {
  Bytes data;
  while (data.size() < size) {
    if (!data.empty() && test::pick(random, 0, 7) < sameness) {
      const std::size_t reach = test::pick(random, 0, 1) == 0 ? 40 : data.size();
      const std::size_t offset = 1 + random() % std::min<std::size_t>({reach, data.size(), 65535});
      for (std::size_t left = test::pick(random, 4, 80); left > 0; --left) {
        data.push_back(data[data.size() - offset]);
      }
    } else {
      for (std::size_t left = test::pick(random, 1, 40); left > 0; --left) {
        data.push_back(static_cast<std::uint8_t>(random()));
      }
    }
  }
  data.resize(size);
  return data;
}

/// Bytes of which few are frequent: the higher `skew`, the fewer.
inline Bytes skewed_data(test::Random& random, std::size_t size, unsigned skew) {
  Bytes data(size);
  for (std::uint8_t& byte : data) {
    byte = 255;
    for (unsigned i = 0; i <= skew; ++i) byte &= static_cast<std::uint8_t>(random());
  }
  return data;
}

/// Words of a small language.
inline Bytes text(test::Random& random, std::size_t size) {
  std::vector<std::string> words;
  for (unsigned i = 0; i < 800; ++i) {
    std::string word;
    for (unsigned left = test::pick(random, 1, 9); left > 0; --left) {
      word += "etaoinshrdlucmfwypvbgk"[std::min(random() % 22, random() % 22)];
    }
    words.push_back(word + " ");
  }
  Bytes data;
  while (data.size() < size) {
    const std::string& word = words[std::min({random() % 800, random() % 800, random() % 800})];
    data.insert(data.end(), word.begin(), word.end());
  }
  data.resize(size);
  return data;
}

/// Records of 16 bytes, two of which change.
inline Bytes records(test::Random& random, std::size_t size) {
  Bytes data(size);
  for (std::size_t i = 0; i < size; ++i) {
    data[i] = static_cast<std::uint8_t>(i % 16 < 2 ? random() : i % 16);
  }
  return data;
}

/// One of these, and of few symbols.
inline Bytes data_of_kind(test::Random& random, std::size_t size, unsigned kind) {
  switch (kind % 5) {
    case 0:
      return some_data(random, size, kind / 5 % 8);
    case 1:
      return skewed_data(random, size, kind / 5 % 4);
    case 2:
      return text(random, size);
    case 3:
      return records(random, size);
    default: {
      Bytes data = skewed_data(random, size, 0);
      for (std::uint8_t& byte : data) byte = static_cast<std::uint8_t>(byte % 7);
      return data;
    }
  }
}

}  // namespace nearkv::rtl_test
