#include "cli/build_facts.h"

#include "git_commit.h"
#include "studies/device_facts.h"

namespace ridgeline {

BuildFacts build_facts() {
  BuildFacts facts = version_and_compiler();
  facts.build_type = RIDGELINE_BUILD_TYPE;
  facts.flags = RIDGELINE_BUILD_FLAGS;
  facts.git_commit = RIDGELINE_GIT_COMMIT;
  return facts;
}

Record blank_record(const Device& device) {
  Record record;
  record.machine = collect_machine_facts();
  add_device(record.machine, device);
  record.build = build_facts();
  return record;
}

}  // namespace ridgeline
