/* Marks what the shared library exports; everything else stays inside. */
#ifndef NEARKV_API_H_
#define NEARKV_API_H_

#define NEARKV_API __attribute__((visibility("default")))

#endif /* NEARKV_API_H_ */
