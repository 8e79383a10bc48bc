#include "cli/build_facts.h"

#include <fmt/format.h>

#include "git_commit.h"
#include "studies/device_facts.h"

namespace ridgeline {

BuildFacts build_facts() {
  return {.version = RIDGELINE_VERSION,
          .compiler = fmt::format("g++ {}", __VERSION__),
          .build_type = RIDGELINE_BUILD_TYPE,
          .flags = RIDGELINE_BUILD_FLAGS,
          .git_commit = RIDGELINE_GIT_COMMIT};
}

Record blank_record(const Device& device) {
  Record record;
  record.machine = collect_machine_facts();
  add_device(record.machine, device);
  record.build = build_facts();
  return record;
}

}  // namespace ridgeline
