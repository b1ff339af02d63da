#include "firmware/poison.h"

#include <string.h>

unsigned poison_below(const struct poison* poison, uint64_t address) {
  unsigned low = 0;
  unsigned high = poison->count;
  while (low < high) {
    const unsigned middle = (low + high) / 2;
    if (poison->lines[middle].address < address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

bool poison_has(const struct poison* poison, uint64_t address) {
  const unsigned at = poison_below(poison, address);
  return at < poison->count && poison->lines[at].address == address;
}

void poison_add(struct poison* poison, uint64_t address, enum poison_source source,
                uint64_t now_ns) {
  if (poison_has(poison, address)) return;
  if (poison->count == NKV_POISON_RECORDS) {
    if (!poison->lost) poison->lost_ns = now_ns;
    poison->lost = true;
    return;
  }
  const unsigned at = poison_below(poison, address);
  struct poisoned_line* line = &poison->lines[at];
  memmove(line + 1, line, (poison->count - at) * sizeof(*line));
  *line = (struct poisoned_line){.address = address, .source = (uint8_t)source};
  ++poison->count;
  if (source == POISON_INJECTED) ++poison->injected;
}

void poison_remove(struct poison* poison, uint64_t address) {
  if (!poison_has(poison, address)) return;
  struct poisoned_line* line = &poison->lines[poison_below(poison, address)];
  if (line->source == POISON_INJECTED) --poison->injected;
  --poison->count;
  memmove(line, line + 1, (size_t)(poison->lines + poison->count - line) * sizeof(*line));
}
