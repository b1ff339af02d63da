/* Five logs of events, oldest first; a full log counts what it had no room for: CXL 3.1, 8.2.10.2.
 */
#ifndef NEARKV_FIRMWARE_EVENTS_H
#define NEARKV_FIRMWARE_EVENTS_H

#include "firmware/clock.h"
#include "nkv_card.h"

/** As the specification numbers them. */
enum event_log_number {
  EVENT_LOG_INFORMATIONAL,
  EVENT_LOG_WARNING,
  EVENT_LOG_FAILURE,
  EVENT_LOG_FATAL,
  EVENT_LOG_CAPACITY,
  EVENT_LOGS
};

/** Flags of a media event: table 8-45. */
enum { EVENT_UNCORRECTABLE = 1 << 0, EVENT_THRESHOLD = 1 << 1 };
/** What ran into it. */
enum { EVENT_BY_SCAN = 3, EVENT_BY_INJECTION = 4, EVENT_BY_SCRUB = 5, EVENT_BY_MANAGEMENT = 6 };
/** How a log interrupts. */
enum { EVENT_SILENT = 0, EVENT_BY_MESSAGE = 1 };

/** What a memory module event tells of: table 8-49. */
enum { EVENT_HEALTH = 0, EVENT_TEMPERATURE = 3 };

/** What a dynamic capacity event tells of: table 8-50. */
enum event_capacity_type { EVENT_CAPACITY_ADDED, EVENT_CAPACITY_WANTED, EVENT_CAPACITY_TAKEN };

/** Of an error of the memory (a "general media event"), of the module, or of an extent. */
enum event_kind { EVENT_OF_MEDIA, EVENT_OF_MODULE, EVENT_OF_CAPACITY, EVENT_KINDS };

enum { EVENT_EXTENT_BYTES = 40 };

struct event {
  uint8_t kind;        /**< An `event_kind`. */
  uint8_t descriptor;  /**< Of a media event, and */
  uint8_t transaction; /**< so is this. */
  uint8_t type;        /**< Of the others. */
  int16_t celsius;     /**< What the module's temperature was. */
  bool has_more;       /**< The next event tells of another extent of the same request. */
  uint16_t handle;     /**< Not 0; unique in its log. */
  uint64_t time_ns;    /**< Since 1970. */
  uint64_t address;    /**< In device memory. */
  uint8_t extent[EVENT_EXTENT_BYTES]; /**< As the mailbox tells it. */
};

struct event_log {
  struct event records[NKV_EVENT_LOG_RECORDS];
  unsigned first, count;
  uint16_t last_handle;
  uint16_t lost; /**< Since the log was last emptied; stays at its largest number. */
  uint64_t first_lost_ns, last_lost_ns;
  uint8_t interrupt_mode, interrupt_message;
};

struct events {
  const struct platform* platform;
  const struct clock* clock;
  struct event_log logs[EVENT_LOGS];
};

void events_start(struct events* events, const struct platform* platform,
                  const struct clock* clock);

/** Writes an event down, with a handle and the time, and interrupts as its log wants. */
void events_add(struct events* events, enum event_log_number number, const struct event* event);

/** Events that a log still has room for. */
unsigned events_room(const struct events* events, enum event_log_number number);

/** Logs that hold events: a bit each, as the device's status register has them. */
uint32_t events_logs_in_use(const struct events* events);

/** The event at `index` behind the oldest, which is there. */
const struct event* event_log_at(const struct event_log* log, unsigned index);

/** Forgets the `count` oldest events, of which there are so many. */
void event_log_drop(struct event_log* log, unsigned count);

#endif
