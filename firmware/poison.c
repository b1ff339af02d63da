#include "firmware/poison.h"

unsigned poison_below(const struct poison* poison, uint64_t address) {
  unsigned low = 0;
  unsigned high = poison->count;
  while (low < high) {
    const unsigned middle = (low + high) / 2;
    if (poison->lines[middle] < address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

static bool is_at(const struct poison* poison, unsigned at, uint64_t address) {
  return at < poison->count && poison_address(poison->lines[at]) == address;
}

bool poison_has(const struct poison* poison, uint64_t address) {
  return is_at(poison, poison_below(poison, address), address);
}

void poison_add(struct poison* poison, uint64_t address, enum poison_source source,
                uint64_t now_ns) {
  const unsigned at = poison_below(poison, address);
  if (is_at(poison, at, address)) return;
  if (poison->count == NKV_POISON_RECORDS) {
    if (!poison->lost) poison->lost_ns = now_ns;
    poison->lost = true;
    return;
  }
  for (unsigned i = poison->count; i > at; --i) poison->lines[i] = poison->lines[i - 1];
  poison->lines[at] = address | source;
  ++poison->count;
  if (source == POISON_INJECTED) ++poison->injected;
}

void poison_remove(struct poison* poison, uint64_t address) {
  const unsigned at = poison_below(poison, address);
  if (!is_at(poison, at, address)) return;
  if (poison_source(poison->lines[at]) == POISON_INJECTED) --poison->injected;
  --poison->count;
  for (unsigned i = at; i < poison->count; ++i) poison->lines[i] = poison->lines[i + 1];
}

void poison_clear(struct poison* poison) { *poison = (struct poison){0}; }
