// Profiles that other libraries answer with: what becomes of right ones, and that others are
// refused.
#include <gtest/gtest.h>

#include "studies/peers/answers.h"
#include "support/expect.h"

namespace ridgeline::peers_study_test {
namespace {

const Json kOpened = {{"profile", {{"source", "made up"}, {"steps", 2}}}};
const Json kPeerStep = {
    {"begin_ns", 0},
    {"end_ns", 100},
    {"names", Json::array({"nvjet", "Memset", "cudaLaunchKernel", "cudaGraphLaunch"})},
    {"calls", Json::array({{2, 0, 10}, {3, 35, 15}})},
    {"work", Json::array({{0, 0, 0, 10, 20, 0}, {0, 0, 1, 60, 10, 1}, {1, 2, 1, 55, 5, 1}})}};

Json step_with(const char* key, Json value) {
  Json step = kPeerStep;
  step[std::string_view(key)] = std::move(value);
  return {{"step", step}};
}

Profile read_two_steps(const Json& answer) {
  Profile profile = read_opened_profile(kOpened, 2).profile;
  for (int i = 0; i < 2; ++i) read_profile_step(answer, profile);
  return profile;
}

TEST(PeerProfileAnswers, BecomeAProfileOfOurs) {
  Profile profile = read_two_steps({{"step", kPeerStep}});
  profile.has_queue = true;
  ASSERT_EQ(profile.steps.size(), 2u);
  ASSERT_EQ(profile.invocations.size(), 6u);
  const Invocation &fill = profile.invocations[4], &last = profile.invocations[5];
  EXPECT_EQ(fill.work.name, "Memset") << "in the order of their beginning";
  EXPECT_EQ(fill.category, Category::memory);
  EXPECT_EQ(last.category, Category::gemm);
  EXPECT_EQ(profile.phase(last), "backward");
  EXPECT_EQ(profile.launches[last.call].name, "cudaGraphLaunch");
  EXPECT_EQ(profile.calls[last.call].step, 1u);
  EXPECT_EQ(profile.unmapped, 0u);
  const DeviceTime time = device_time(profile);
  EXPECT_EQ(time.span_ns, 2 * 60);
  EXPECT_EQ(time.busy_ns, 2 * 35);
  EXPECT_EQ(time.waited_for_host_ns, 2 * 20) << "the graph was started 20 ns after the product";
  EXPECT_EQ(time.own_gaps_ns, 2 * 5);
}

TEST(PeerProfileAnswers, WithoutCallsEveryPieceIsStartedByItself) {
  Json answer = step_with("calls", Json::array());
  answer["step"]["work"] = Json::array({{0, 0, -1, 10, 20, -1}});
  const Profile profile = read_two_steps(answer);
  EXPECT_EQ(profile.calls.size(), 2u);
  EXPECT_EQ(profile.unmapped, 2u) << "of no phase";
}

void expect_refused(const std::function<void()>& read, const std::string& reason) {
  EXPECT_ERROR(read(), ErrorKind::environment, reason);
}

TEST(PeerProfileAnswers, WhatMakesNoSenseIsRefused) {
  const std::pair<Json, const char*> opened[] = {
      {Json::object(), "without 'profile'"},
      {{{"profile", "fast"}}, "'profile' as \"fast\""},
      {{{"profile", Json::object()}}, "without 'steps'"},
      {{{"profile", {{"steps", 0}}}}, "the number of steps as 0"},
      {{{"profile", {{"steps", 3}}}}, "a whole number from 1 to 2"},
      {{{"profile", {{"steps", "two"}}}}, "the number of steps"},
      {{{"profile", {{"steps", 2}, {"source", 1}}}}, "'source'"},
      {{{"profile", {{"steps", 2}, {"untraced_step_ms", -1}}}}, "'untraced_step_ms'"}};
  for (const auto& [answer, reason] : opened)
    expect_refused([&] { read_opened_profile(answer, 2); }, reason);
  const auto work = [](Json piece) { return step_with("work", Json::array({std::move(piece)})); };
  const std::pair<Json, const char*> steps[] = {
      {Json::object(), "without 'step'"},
      {{{"step", 1}}, "'step' as 1"},
      {step_with("begin_ns", 101), "'end_ns' as 100"},
      {step_with("begin_ns", -1), "'begin_ns' as -1"},
      {step_with("names", Json::array({1})), "a name as 1"},
      {step_with("names", "nvjet"), "'names'"},
      {step_with("calls", Json::array({{2, "now", 1}})), "the begin of a call as \"now\""},
      {step_with("work", "much"), "'work' as \"much\""},
      {work({0, 0, 0}), "a piece of work as [0,0,0]"},
      {work({4, 0, 0, 0, 1, -1}), "the number of a name as 4"},
      {work({0, 3, 0, 0, 1, -1}), "the kind of work as 3"},
      {work({0, 0, 3, 0, 1, -1}), "the phase of work as 3"},
      {work({0, 0, 0, 0, -1, -1}), "the time of work as -1"},
      {work({0, 0, 0, 0, uint64_t{1} << 63, -1}), "the time of work as 9223372036854775808"},
      {work({0, 0, 0, 0.5, 1, -1}), "the begin of work as 0.5"},
      {work({0, 0, 0, 0, 1, 2}), "the call of work as 2"}};
  for (const auto& [answer, reason] : steps)
    expect_refused([&] { read_two_steps(answer); }, reason);
}

}  // namespace
}  // namespace ridgeline::peers_study_test
