#include "profile/profile.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/expect.h"

namespace ridgeline {
namespace {

ProfiledKernel kernel(const char* scope, const char* phase, Category category, double flops = 0) {
  ProfiledKernel made;
  made.node_name = scope;
  made.scope = scope;
  made.phase = phase;
  made.category = category;
  made.cost.flops = flops;
  made.predicted_us = 1;
  return made;
}

// Adds one kernel's work to the only step, started by the host at `started`.
void add(Profile& profile, uint32_t of, int64_t begin, int64_t end, int64_t started = 0) {
  profile.calls.push_back({.kernel = of, .step = 0, .begin_ns = started, .end_ns = started});
  Invocation each;
  each.work.name = profile.kernels[of].label.empty() ? "k" : profile.kernels[of].label;
  each.work.begin_ns = begin;
  each.work.end_ns = end;
  each.kernel = of;
  each.step = 0;
  each.call = static_cast<uint32_t>(profile.calls.size() - 1);
  each.category = profile.kernels[of].category;
  each.leads = true;
  profile.invocations.push_back(each);
}

Profile one_step() {
  Profile profile;
  profile.has_queue = true;
  profile.steps = {{.number = 4, .begin_ns = 0, .end_ns = 2000}};
  profile.kernels = {
      kernel("layers.0.attention.scores", "forward", Category::gemm, 1000),
      kernel("layers.0.attention.softmax", "forward", Category::softmax, 10),
      kernel("layers.1.attention.values", "forward", Category::gemm, 1000),
      kernel("layers.1.ffn", "backward", Category::gemm, 3000),
      kernel("optimizer", "optimizer", Category::elementwise, 5),
  };
  return profile;
}

TEST(ProfileFolds, AddUpByPhaseCategoryAndScope) {
  Profile profile = one_step();
  for (uint32_t i = 0; i < 5; ++i) add(profile, i, 100 * i, 100 * i + 100);
  const std::vector<Fold> phases = fold(profile, FoldBy::phase);
  ASSERT_EQ(phases.size(), 3u);
  EXPECT_EQ(phases[0].key, "forward");
  EXPECT_EQ(phases[0].invocations, 3u);
  EXPECT_EQ(phases[0].total_ns, 300);
  EXPECT_DOUBLE_EQ(phases[0].share, 0.6);
  EXPECT_DOUBLE_EQ(phases[0].mean_us(), 0.1);
  EXPECT_DOUBLE_EQ(phases[0].cost.flops, 2010);
  EXPECT_EQ(phases[0].category, "");  // they differ
  ASSERT_TRUE(phases[0].prediction_error());
  EXPECT_NEAR(*phases[0].prediction_error(), 0.3 / 3 - 1, 1e-12);
  const std::vector<Fold> categories = fold(profile, FoldBy::category);
  EXPECT_EQ(categories[0].key, "gemm");
  EXPECT_EQ(categories[0].total_ns, 300);
  double shares = 0;
  for (const Fold& row : categories) shares += row.share;
  EXPECT_DOUBLE_EQ(shares, 1);
  std::vector<std::string> scopes;
  for (const Fold& row : fold(profile, FoldBy::scope)) scopes.push_back(row.key);
  EXPECT_NE(std::find(scopes.begin(), scopes.end(), "layers.*.attention.scores"), scopes.end());
  EXPECT_EQ(fold(profile, FoldBy::kernel).size(), 1u);
  const auto backward = [&](const Invocation& each) { return profile.phase(each) == "backward"; };
  ASSERT_EQ(fold(profile, FoldBy::category, backward).size(), 1u);
}

TEST(ProfileFolds, ACallOfSeveralKernelsCostsOnce) {
  Profile profile = one_step();
  add(profile, 3, 0, 100);
  add(profile, 3, 100, 150);
  profile.invocations[1].leads = false;
  const std::vector<Fold> rows = fold(profile, FoldBy::category);
  EXPECT_EQ(rows[0].invocations, 2u);
  EXPECT_DOUBLE_EQ(rows[0].cost.flops, 3000);
  EXPECT_DOUBLE_EQ(*rows[0].predicted_us, 1);
}

TEST(ProfileFolds, WhatBelongsToNobodyHasNoPrediction) {
  Profile profile = one_step();
  add(profile, 3, 0, 100);
  profile.invocations[0].kernel = kNobody;
  const std::vector<Fold> rows = fold(profile, FoldBy::phase);
  EXPECT_EQ(rows[0].key, "");
  EXPECT_FALSE(rows[0].predicted_us);
}

TEST(DeviceTime, CountsWhatOverlapsOnce) {
  Profile profile = one_step();
  add(profile, 0, 0, 100);
  add(profile, 1, 90, 200);   // begins while the one before it ends
  add(profile, 2, 250, 300);  // queued long before: the device's own gap
  add(profile, 3, 400, 500, 380);
  const DeviceTime time = device_time(profile);
  EXPECT_EQ(time.span_ns, 500);
  EXPECT_EQ(time.busy_ns, 350);
  EXPECT_EQ(time.overlap_ns, 10);
  EXPECT_EQ(time.waited_for_host_ns, 80);
  EXPECT_EQ(time.own_gaps_ns, 70);
}

TEST(LaunchVerdict, SaysWhetherTheDeviceWaitsForTheHost) {
  Profile profile = one_step();
  add(profile, 0, 0, 100);
  add(profile, 1, 300, 400, 290);
  const auto bound = launch_verdict(profile);
  ASSERT_TRUE(bound);
  EXPECT_TRUE(bound->launch_bound);
  EXPECT_DOUBLE_EQ(bound->waited_share, 0.475);
  EXPECT_HAS(bound->sentence, "launch-bound");
  profile.calls[1].end_ns = 50;  // queued in time
  EXPECT_FALSE(launch_verdict(profile)->launch_bound);
  profile.has_queue = false;
  EXPECT_FALSE(launch_verdict(profile));
}

TEST(AssignmentQuestions, MatmulShareOfForwardAgainstAStep) {
  Profile profile = one_step();
  add(profile, 0, 0, 100);
  add(profile, 1, 100, 200);
  add(profile, 3, 200, 400);
  add(profile, 4, 400, 500);
  const auto share = matmul_share(profile);
  ASSERT_TRUE(share);
  EXPECT_DOUBLE_EQ(share->forward, 0.5);
  EXPECT_DOUBLE_EQ(share->step, 0.6);
  EXPECT_FALSE(matmul_share(one_step()));
}

TEST(AssignmentQuestions, SoftmaxAgainstTheProductsAroundIt) {
  Profile profile = one_step();
  add(profile, 0, 0, 1000);
  EXPECT_FALSE(softmax_against_matmul(profile));  // no softmax by itself: nothing to compare
  add(profile, 1, 1000, 3000);
  add(profile, 2, 3000, 4000);
  add(profile, 3, 4000, 9000);  // not inside of attention
  const auto found = softmax_against_matmul(profile);
  ASSERT_TRUE(found);
  EXPECT_DOUBLE_EQ(found->softmax_us, 2);
  EXPECT_DOUBLE_EQ(found->matmul_us, 2);
  EXPECT_DOUBLE_EQ(found->softmax_flops, 10);
  EXPECT_DOUBLE_EQ(found->matmul_flops, 2000);
}

}  // namespace
}  // namespace ridgeline
