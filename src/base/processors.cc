#include "base/processors.h"

#include <sched.h>

namespace ridgeline {
namespace {

void restrict_to(const std::vector<int>& processors) {
  if (processors.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : processors) CPU_SET(static_cast<size_t>(processor), &set);
  sched_setaffinity(0, sizeof set, &set);
}

}  // namespace

std::vector<int> allowed_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> all;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return all;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor)
    if (CPU_ISSET(static_cast<size_t>(processor), &set)) all.push_back(processor);
  return all;
}

std::vector<int> some_processors(const std::vector<int>& all, int count, int turn) {
  const size_t wanted = static_cast<size_t>(count);
  if (wanted >= all.size()) return all;
  std::vector<int> some;
  for (size_t i = 0; i < wanted; ++i)
    some.push_back(all[(static_cast<size_t>(turn) * wanted + i) % all.size()]);
  return some;
}

OnProcessors::OnProcessors(const std::vector<int>& processors) : before_(allowed_processors()) {
  restrict_to(processors);
}

OnProcessors::~OnProcessors() {
  restrict_to(before_);
}

}  // namespace ridgeline
