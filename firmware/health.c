#include "firmware/health.h"

void health_start(struct health* health) { *health = (struct health){.corrected_threshold = 1000}; }

bool health_count_corrected(struct health* health) {
  if (health->corrected_errors < UINT32_MAX) ++health->corrected_errors;
  return (health->alerts & ALERT_CORRECTED) != 0 &&
         health->corrected_errors % health->corrected_threshold == 0;
}
