#include "cli/sweep_group.h"

#include "base/error.h"
#include "cli/interrupt.h"

namespace ridgeline {
namespace {

SweepGroup* current_group = nullptr;

}  // namespace

SweepGroup::SweepGroup(ProgressOptions options)
    : before_(current_group), progress_(std::move(options)) {
  current_group = this;
}

SweepGroup::~SweepGroup() {
  current_group = before_;
}

SweepGroup* SweepGroup::current() {
  return current_group;
}

void SweepGroup::expect(const std::function<void()>& sweeps) {
  expecting_ = true;
  try {
    sweeps();
  } catch (const Error&) {
    // Reported when the sweep runs.
  }
  expecting_ = false;
}

void SweepGroup::note(const std::filesystem::path& records, const std::vector<double>& expected_s) {
  parts_[records] = {progress_.add_part(expected_s), expected_s.size()};
}

Progress& SweepGroup::enter(const std::filesystem::path& records,
                            const std::vector<double>& expected_s) {
  if (!parts_.contains(records)) note(records, expected_s);
  Part& part = parts_.at(records);
  if (part.rows != expected_s.size()) {
    progress_.replace_part(part.number, expected_s);
    part.rows = expected_s.size();
  }
  progress_.enter(part.number);
  return progress_;
}

bool sweep_interrupted() {
  if (current_group) current_group->progress().tick();
  return interrupted();
}

void show_stage(const std::string& what) {
  if (current_group) current_group->progress().stage(what);
}

void hide_progress() {
  if (current_group) current_group->progress().hide();
}

}  // namespace ridgeline
