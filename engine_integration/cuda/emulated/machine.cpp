// This machine's cores in a GPU's place: every pointer reaches, and kernels run when launched.
#include "machine.hpp"

#include <cstdio>

namespace nearkv::cuda {

Outcome Machine::open(int ordinal, Machine* machine) {
  if (ordinal != 0) return {Status::kNoDevice, "one emulated GPU is all there is, number 0"};
  std::snprintf(machine->info_.name, sizeof(machine->info_.name), "emulated on the host");
  machine->info_.multiprocessors = 2;
  machine->info_.shared_bytes = 99 << 10;  // The least of all that the kernels are built for.
  return {};
}

Outcome Machine::enter(int* before) const {
  *before = 0;
  return {};
}

void Machine::leave(int /*before*/) {}

bool Machine::reaches(const void* pointer) const { return pointer != nullptr; }

}  // namespace nearkv::cuda
