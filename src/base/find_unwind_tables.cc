// _dl_find_object() of our own, so that programs built with a newer C library run with glibc 2.34
// (RHEL 9, and Ubuntu 22.04 with 2.35).
//
// GCC's unwinder, which is linked in statically, asks this function for the exception tables of the
// code at an address. glibc has it from 2.35 on. It is hidden, so only the file that it is linked
// into calls it; libraries do not contain it.
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdint>

#if __GLIBC_PREREQ(2, 35)

namespace {

struct Search {
  uintptr_t address;
  dl_find_object* found;
};

// Returns 1, which ends the search, if the address is in `object`.
int look_into(dl_phdr_info* object, size_t, void* data) {
  const auto& [address, found] = *static_cast<const Search*>(data);
  uintptr_t begin = UINTPTR_MAX, end = 0, tables = 0;
  bool is_inside = false;
  for (const ElfW(Phdr)* part = object->dlpi_phdr; part != object->dlpi_phdr + object->dlpi_phnum;
       ++part) {
    const uintptr_t start = object->dlpi_addr + part->p_vaddr;
    if (part->p_type == PT_LOAD) {
      begin = std::min(begin, start);
      end = std::max(end, start + part->p_memsz);
      is_inside |= address >= start && address - start < part->p_memsz;
    } else if (part->p_type == DLFO_EH_SEGMENT_TYPE) {
      tables = start;
    }
  }
  if (!is_inside || tables == 0) return 0;
  *found = {};
  found->dlfo_map_start = reinterpret_cast<void*>(begin);
  found->dlfo_map_end = reinterpret_cast<void*>(end);
  found->dlfo_eh_frame = reinterpret_cast<void*>(tables);
  return 1;
}

}  // namespace

extern "C" __attribute__((visibility("hidden"))) int _dl_find_object(
    void* address, dl_find_object* found) noexcept {
  Search search{reinterpret_cast<uintptr_t>(address), found};
  return dl_iterate_phdr(look_into, &search) == 1 ? 0 : -1;
}

#endif
