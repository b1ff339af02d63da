/*
 * Exceptions, of the loader and of the firmware: none is meant to happen. What it was stays in
 * memory, and the core starts anew. Ibex goes to the beginning of the ROM for each.
 */
#include <stddef.h>

#include "nkv_card.h"

#define FIELD(name) "i"(offsetof(struct nkv_firmware_panic, name))

void trap(void);

/* No register is left as it was, and none of the stack is used: it may be what is wrong. */
__attribute__((naked, used, section(".vectors"))) void trap(void) {
  __asm__ volatile(
      ".option arch, +zicsr\n"
      "li t0, %[panic]\n"
      "sw ra, %[return_address](t0)\n"
      "sw sp, %[stack_pointer](t0)\n"
      "csrr t1, mcause\n"
      "sw t1, %[cause](t0)\n"
      "csrr t1, mepc\n"
      "sw t1, %[address](t0)\n"
      "csrr t1, mtval\n"
      "sw t1, %[value](t0)\n"
      "lw t1, %[panics](t0)\n"
      "addi t1, t1, 1\n"
      "sw t1, %[panics](t0)\n"
      "li t0, %[watchdog]\n"
      "sw zero, 0(t0)\n"
      "1: j 1b\n"
      :
      : [panic] "i"(NKV_PROCESSOR_RAM_AT + NKV_PROCESSOR_PANIC_AT),
        [watchdog] "i"(NKV_PROCESSOR_WATCHDOG_AT), [panics] FIELD(panics), [cause] FIELD(cause),
        [address] FIELD(address), [value] FIELD(value), [return_address] FIELD(return_address),
        [stack_pointer] FIELD(stack_pointer));
}
