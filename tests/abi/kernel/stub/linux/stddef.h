/* Stands in for the kernel's header where no kernel headers are installed. */
#define offsetof(type, member) __builtin_offsetof(type, member)
