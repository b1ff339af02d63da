#include "firmware/hotness_monitor.h"

/*
 * Each is a turn or several. A turn writes one register at most, and the read before was of CONF0:
 * somebody on the host who takes the monitor begins with that.
 */
enum hotness_step {
  REST,      /* Until there is another setting. */
  LOOK,      /* Whether anybody has the monitor. */
  WATCH,     /* All of the memory. */
  EMPTY,     /* The hot list. */
  ENABLE,    /* With the threshold. */
  ENABLING,  /* Until that is done. */
  COUNT,     /* Until the epoch ends. */
  TAKE,      /* The list's first entries. */
  GIVE,      /* Their places back, and the threshold that follows. */
  DISABLE,   /* Once no operation is in progress. */
  DISABLING, /* Until that is done; then comes a new configuration, or the monitor is given back. */
};

enum { FIRST_THRESHOLD = 64, TAKEN_IN_A_TURN = 4 };

static const uint64_t second_ns = 1000000000;
static const uint64_t least_pause_ns = 10000000;

static uint64_t epoch_ns(const struct hotness_turn* turn) {
  return turn->monitor->setting.epoch_ms * UINT64_C(1000000);
}

static void tell(const struct hotness_turn* turn, enum nkv_hotness_state state) {
  turn->list->state = (uint8_t)(turn->monitor->setting.enabled ? state : NKV_HOTNESS_STATE_OFF);
}

static void go(const struct hotness_turn* turn, enum hotness_step step, uint64_t wait_ns) {
  turn->monitor->step = (uint8_t)step;
  turn->monitor->when_ns = turn->now_ns + wait_ns;
}

/* A host may be about to set the monitor up, with enable last: who finds it free looks again. */
static void look_again(const struct hotness_turn* turn, bool is_free) {
  const uint64_t pause_ns = epoch_ns(turn) > least_pause_ns ? epoch_ns(turn) : least_pause_ns;
  turn->monitor->was_free = is_free;
  go(turn, LOOK, pause_ns);
}

/* The claim stays: the card may answer again. */
static void miss(const struct hotness_turn* turn) {
  tell(turn, NKV_HOTNESS_STATE_ABSENT);
  turn->monitor->was_free = false;
  go(turn, LOOK, second_ns);
}

static void yield_to_host(const struct hotness_turn* turn) {
  *turn->claim = (struct hotness_claim){0};
  tell(turn, NKV_HOTNESS_STATE_HOST);
  look_again(turn, false);
}

static bool give_back(const struct hotness_turn* turn, enum hotness_step next) {
  if (!chmu_write(turn->platform, &turn->monitor->chmu, CHMU_CONF0, 0)) return false;
  *turn->claim = (struct hotness_claim){0};
  go(turn, next, 0);
  return true;
}

/* The threshold comes with enable: what is written before changes nothing for a host that counts.
 */
static bool configure(const struct hotness_turn* turn, uint64_t conf0) {
  struct hotness_monitor* monitor = turn->monitor;
  *turn->claim = (struct hotness_claim){.conf0 = conf0, .conf1 = chmu_conf1(&monitor->setting)};
  monitor->done = 0;
  monitor->is_leaving = false;
  go(turn, WATCH, 0);
  return chmu_write(turn->platform, &monitor->chmu, CHMU_CONF1, turn->claim->conf1);
}

static bool look(const struct hotness_turn* turn) {
  struct hotness_monitor* monitor = turn->monitor;
  if (turn->claim->conf1 != 0) {
    monitor->is_leaving = true;
    go(turn, DISABLE, second_ns);
    return true;
  }
  if (!monitor->setting.enabled) {
    go(turn, REST, 0);
    return true;
  }
  const enum nkv_hotness_state state =
      chmu_find(turn->platform, turn->block, &monitor->setting, &monitor->chmu);
  uint64_t conf0, status;
  if (state == NKV_HOTNESS_STATE_UNFIT) {
    tell(turn, state);
    go(turn, REST, 0);
    return true;
  }
  if (state == NKV_HOTNESS_STATE_ABSENT ||
      !chmu_read(turn->platform, &monitor->chmu, CHMU_STATUS, &status) ||
      !chmu_read(turn->platform, &monitor->chmu, CHMU_CONF0, &conf0)) {
    return false;
  }
  const bool is_free = (status & (CHMU_STATUS_ENABLED | CHMU_STATUS_OPERATION)) == 0 &&
                       (conf0 & CHMU_CONF0_ENABLE) == 0;
  if (is_free && monitor->was_free) {
    tell(turn, NKV_HOTNESS_STATE_STARTING);
    monitor->most_threshold = UINT32_MAX >> (32 - monitor->chmu.counter_bits);
    return configure(turn, conf0);
  }
  if (!is_free) tell(turn, NKV_HOTNESS_STATE_HOST);
  look_again(turn, is_free);
  return true;
}

static bool watch(const struct hotness_turn* turn) {
  struct hotness_monitor* monitor = turn->monitor;
  const struct chmu* chmu = &monitor->chmu;
  if (monitor->done < chmu->range_words) return chmu_watch(turn->platform, chmu, monitor->done++);
  go(turn, EMPTY, 0);
  return chmu_look(turn->platform, chmu, &monitor->list);
}

static bool empty(const struct hotness_turn* turn) {
  struct hotness_monitor* monitor = turn->monitor;
  if (!monitor->list.has_lost) go(turn, ENABLE, 0);
  return chmu_free(turn->platform, &monitor->chmu, &monitor->list);
}

static bool enable(const struct hotness_turn* turn) {
  go(turn, ENABLING, second_ns);
  turn->claim->conf0 = chmu_conf0(turn->monitor->threshold);
  return chmu_write(turn->platform, &turn->monitor->chmu, CHMU_CONF0,
                    turn->claim->conf0 | CHMU_CONF0_ENABLE);
}

/* A threshold that the counters do not reach is refused as any configuration is. */
static bool enabled(const struct hotness_turn* turn, bool is_enabled) {
  struct hotness_monitor* monitor = turn->monitor;
  if (is_enabled) {
    tell(turn, NKV_HOTNESS_STATE_COUNTING);
    go(turn, COUNT, epoch_ns(turn));
    return true;
  }
  if (monitor->threshold > 1) {
    monitor->threshold /= 2;
    monitor->most_threshold = monitor->threshold;
    go(turn, ENABLE, 0);
    return true;
  }
  tell(turn, NKV_HOTNESS_STATE_UNFIT);
  return give_back(turn, REST);
}

/* Entries of much more than an epoch would be no epoch's. */
static bool count(const struct hotness_turn* turn) {
  struct hotness_monitor* monitor = turn->monitor;
  const uint64_t late_ns = turn->now_ns - monitor->when_ns;
  if (!chmu_look(turn->platform, &monitor->chmu, &monitor->list)) return false;
  if (!monitor->list.is_enabled) {
    yield_to_host(turn);
    return true;
  }
  monitor->is_late = late_ns > epoch_ns(turn) / 2;
  if (monitor->is_late) {
    go(turn, GIVE, epoch_ns(turn));
    return true;
  }
  const uint64_t end_ns = turn->clock->set ? clock_now_ns(turn->clock) - late_ns : 0;
  monitor->done = 0;
  monitor->next = (struct nkv_hotness_list){.state = turn->list->state,
                                            .unit_log2 = monitor->setting.unit_log2,
                                            .epoch_ms = monitor->setting.epoch_ms,
                                            .threshold = monitor->threshold,
                                            .epochs = turn->list->epochs + 1,
                                            .listed = (uint16_t)monitor->list.used,
                                            .has_lost = monitor->list.has_lost,
                                            .end_ns = end_ns};
  go(turn, TAKE, epoch_ns(turn) - late_ns);
  return true;
}

/* Two clocks count epochs: a unit may come twice within one of the firmware's. */
static void keep(const struct hotness_turn* turn, uint64_t unit) {
  struct nkv_hotness_list* next = &turn->monitor->next;
  const uint64_t address = unit << next->unit_log2;
  if (address >> next->unit_log2 != unit || address >= turn->platform->memory_bytes) return;
  for (unsigned i = 0; i < next->units; ++i) {
    if (next->addresses[i] == address) return;
  }
  next->addresses[next->units++] = address;
}

static bool take(const struct hotness_turn* turn) {
  struct hotness_monitor* monitor = turn->monitor;
  const struct chmu_list* list = &monitor->list;
  const uint32_t most = list->used < NKV_HOTNESS_UNITS ? list->used : NKV_HOTNESS_UNITS;
  for (int i = 0; i < TAKEN_IN_A_TURN && monitor->done < most; ++i, ++monitor->done) {
    uint64_t unit;
    if (!chmu_take(turn->platform, &monitor->chmu, list, monitor->done, &unit)) return false;
    keep(turn, unit);
  }
  if (monitor->done == most) monitor->step = GIVE;
  return true;
}

static uint32_t next_threshold(const struct hotness_monitor* monitor) {
  const uint32_t wanted = monitor->setting.units;
  const uint32_t listed = monitor->next.listed;
  if (monitor->next.has_lost || listed > 2 * wanted) {
    return monitor->threshold <= monitor->most_threshold / 2 ? 2 * monitor->threshold
                                                             : monitor->threshold;
  }
  return 2 * listed < wanted && monitor->threshold > 1 ? monitor->threshold / 2
                                                       : monitor->threshold;
}

static bool give(const struct hotness_turn* turn) {
  struct hotness_monitor* monitor = turn->monitor;
  const bool is_last = !monitor->list.has_lost;
  if (!chmu_free(turn->platform, &monitor->chmu, &monitor->list)) return false;
  if (!is_last) return true;
  monitor->step = COUNT;
  if (monitor->is_late) return true;
  const uint32_t threshold = next_threshold(monitor);
  *turn->list = monitor->next;
  if (threshold != monitor->threshold) {
    monitor->threshold = threshold;
    go(turn, DISABLE, second_ns);
  }
  return true;
}

static bool disable(const struct hotness_turn* turn) {
  go(turn, DISABLING, second_ns);
  return chmu_write(turn->platform, &turn->monitor->chmu, CHMU_CONF0, turn->claim->conf0);
}

static bool disabled(const struct hotness_turn* turn) {
  return turn->monitor->is_leaving ? give_back(turn, LOOK) : configure(turn, turn->claim->conf0);
}

static bool do_step(const struct hotness_turn* turn, uint64_t status) {
  switch (turn->monitor->step) {
    case LOOK:
      return look(turn);
    case WATCH:
      return watch(turn);
    case EMPTY:
      return empty(turn);
    case ENABLE:
      return enable(turn);
    case ENABLING:
      return enabled(turn, (status & CHMU_STATUS_ENABLED) != 0);
    case COUNT:
      return count(turn);
    case TAKE:
      return take(turn);
    case GIVE:
      return give(turn);
    case DISABLE:
      return disable(turn);
    default:
      return disabled(turn);
  }
}

/* Whether the registers are as the firmware left them. */
static bool find_owner(const struct hotness_turn* turn, bool* is_ours) {
  const struct chmu* chmu = &turn->monitor->chmu;
  uint64_t conf0, conf1;
  if (!chmu_read(turn->platform, chmu, CHMU_CONF1, &conf1) ||
      !chmu_read(turn->platform, chmu, CHMU_CONF0, &conf0)) {
    return false;
  }
  *is_ours = conf1 == turn->claim->conf1 && (conf0 & ~CHMU_CONF0_ENABLE) == turn->claim->conf0;
  return true;
}

bool hotness_monitor_turn(const struct hotness_turn* turn) {
  const struct hotness_monitor* monitor = turn->monitor;
  const bool waits =
      monitor->step == ENABLING || monitor->step == DISABLE || monitor->step == DISABLING;
  uint64_t status = 0;
  bool is_ours = true;
  if (monitor->step == REST) return false;
  if ((monitor->step == LOOK || monitor->step == COUNT) && turn->now_ns < monitor->when_ns) {
    return false;
  }
  bool answers = !waits || chmu_read(turn->platform, &monitor->chmu, CHMU_STATUS, &status);
  if (answers && (status & CHMU_STATUS_OPERATION) != 0) {
    if (turn->now_ns < monitor->when_ns) return false;
    answers = false;
  }
  if (answers && turn->claim->conf1 != 0) answers = find_owner(turn, &is_ours);
  if (answers && !is_ours) {
    yield_to_host(turn);
  } else if (!answers || !do_step(turn, status)) {
    miss(turn);
  }
  return true;
}

void hotness_monitor_begin(const struct hotness_turn* turn) {
  *turn->list = (struct nkv_hotness_list){0};
  turn->monitor->threshold = FIRST_THRESHOLD;
  turn->monitor->was_free = false;
  tell(turn, NKV_HOTNESS_STATE_STARTING);
  go(turn, turn->monitor->setting.enabled != 0 || turn->claim->conf1 != 0 ? LOOK : REST, 0);
}
