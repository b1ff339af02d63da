// Cards as an administrator sees them: the driver's attributes, and the CXL module with its region.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "card/locality.hpp"
#include "nearkv/status.hpp"

namespace nearkv {

/// Addresses of a CXL region.
struct CardRegion {
  std::string name;
  std::uint64_t at = 0;
  std::uint64_t bytes = 0;
  unsigned ways = 1;  ///< Modules that it is spread over.
};

/// The CXL module whose memory an engine works on.
struct CardModule {
  std::string name;  ///< "mem0"
  std::uint64_t serial = 0;
  std::uint64_t ram_bytes = 0;
  std::uint64_t pmem_bytes = 0;
  int numa_node = -1;
  std::string firmware;
  std::optional<CardRegion> region;  ///< Its first.
  CardLocality locality;
};

/// A card that the driver has.
struct Card {
  std::string name;  ///< "nearkv0"
  std::string transport;
  std::uint64_t serial = 0;
  std::uint64_t memory_at = 0;  ///< Of the machine's addresses; 0 bytes while none are attached.
  std::uint64_t memory_bytes = 0;
  std::uint64_t free_bytes = 0;
  unsigned free_queues = 0;
  std::uint64_t errors = 0;
  std::vector<std::string> windows;   ///< A line each.
  std::optional<CardModule> module_;  ///< None has the card's serial number.
};

/// What a module says of its health (CXL 3.1 8.2.9.9.3.1).
struct ModuleHealth {
  bool maintenance_needed = false;
  bool performance_degraded = false;
  bool replacement_needed = false;
  bool media_ready = false;
  bool life_critical = false;
  bool temperature_critical = false;
  std::optional<int> life_used_percent;  ///< Not all know.
  int temperature_celsius = 0;
  std::uint32_t corrected_errors = 0;
};

/// All cards, by name. Needs no privilege, but only root sees windows.
[[nodiscard]] std::vector<Card> find_cards();

/// Gives a card its module's region: the driver claims its addresses and proves that the engine
/// sees them. kNotFound: it has no region; kBusy: somebody uses it; kUnsupported: it is spread over
/// several modules; kIoError, each with a reason.
Status attach_card(const Card& card, std::string* reason);

/// Takes the memory from the card. kBusy while there are windows.
Status detach_card(const Card& card, std::string* reason);

/// Ends what the engine does: files keep their windows and lose their queues.
Status reset_card(const Card& card, std::string* reason);

/// Has the card forget a window that is kept, of this user. kNotFound; kBusy: a process has it.
Status forget_window(const Card& card, const std::string& name, std::string* reason);

/// Makes a region of all of the card's module with the standard tool, `cxl`. Waits ten seconds for
/// a module that recovers from an error; kTimeout: it did not come back.
Status create_card_region(const Card& card, std::string* reason);

/// By the CXL module, or if that does not tell, by the card's own firmware. kUnsupported: neither
/// does.
Status read_module_health(const Card& card, ModuleHealth* health, std::string* reason);

}  // namespace nearkv
