#include "firmware/events.h"

void events_start(struct events* events, const struct platform* platform,
                  const struct clock* clock) {
  *events = (struct events){.platform = platform, .clock = clock};
}

void events_add(struct events* events, enum event_log_number number, const struct event* event) {
  struct event_log* log = &events->logs[number];
  const uint64_t now_ns = clock_now_ns(events->clock);
  if (log->count == NKV_EVENT_LOG_RECORDS) {
    if (log->lost == 0) log->first_lost_ns = now_ns;
    if (log->lost < UINT16_MAX) ++log->lost;
    log->last_lost_ns = now_ns;
    return;
  }
  if (++log->last_handle == 0) log->last_handle = 1;
  struct event* record = &log->records[(log->first + log->count) % NKV_EVENT_LOG_RECORDS];
  *record = *event;
  record->handle = log->last_handle;
  record->time_ns = now_ns;
  ++log->count;
  if (log->interrupt_mode == EVENT_BY_MESSAGE) {
    events->platform->interrupt(events->platform->context, log->interrupt_message);
  }
}

unsigned events_room(const struct events* events, enum event_log_number number) {
  return NKV_EVENT_LOG_RECORDS - events->logs[number].count;
}

const struct event* event_log_at(const struct event_log* log, unsigned index) {
  return &log->records[(log->first + index) % NKV_EVENT_LOG_RECORDS];
}

void event_log_drop(struct event_log* log, unsigned count) {
  log->first = (log->first + count) % NKV_EVENT_LOG_RECORDS;
  log->count -= count;
  if (log->count == 0) log->lost = 0;
}

uint32_t events_logs_in_use(const struct events* events) {
  uint32_t logs = 0;
  for (unsigned log = 0; log < EVENT_LOGS; ++log) {
    if (events->logs[log].count > 0) logs |= 1U << log;
  }
  return logs;
}
