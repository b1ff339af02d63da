// The smallest module that the kernel's build accepts; header_use.c is what is tested.
#include <linux/module.h>

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Compiles the NearKV contract header in the kernel");
