/* What this firmware calls itself: up to 16 characters. */
#ifndef NEARKV_FIRMWARE_VERSION_H
#define NEARKV_FIRMWARE_VERSION_H

#define FIRMWARE_VERSION "nearkv 0.1.0"

#endif
