// Which launcher has started a rank, by made-up environments.
#include "dist/launch_environment.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "support/expect.h"

namespace ridgeline {
namespace {

using Environment = std::map<std::string, std::string>;

std::optional<LaunchedRank> launched_in(const Environment& environment) {
  return launched_rank([&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  });
}

const Environment kTorchrun = {{"RANK", "3"},
                               {"WORLD_SIZE", "8"},
                               {"LOCAL_RANK", "1"},
                               {"LOCAL_WORLD_SIZE", "2"},
                               {"MASTER_ADDR", "10.0.0.7"},
                               {"MASTER_PORT", "29500"},
                               {"TORCHELASTIC_RUN_ID", "abc"}};
const Environment kOpenMpi = {
    {"OMPI_COMM_WORLD_RANK", "2"},
    {"OMPI_COMM_WORLD_SIZE", "4"},
    {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
    {"OMPI_MCA_orte_hnp_uri", "2113273856.0;tcp://10.1.2.3,172.17.0.1:41093"},
    {"PMIX_NAMESPACE", "2113273857"}};
const Environment kHydra = {
    {"PMI_RANK", "1"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "4"}};
const Environment kSlurm = {{"SLURM_PROCID", "5"},
                            {"SLURM_NTASKS", "8"},
                            {"SLURM_LOCALID", "1"},
                            {"SLURM_NTASKS_PER_NODE", "4"},
                            {"SLURM_STEP_ID", "0"},
                            {"SLURM_JOB_ID", "5000"},
                            {"SLURM_STEP_NODELIST", "node[001-015],x"}};

TEST(LaunchedRanks, AreNoneWithoutALauncher) {
  EXPECT_FALSE(launched_in({}));
  // In the shell of salloc there is no step.
  Environment shell = kSlurm;
  shell.erase("SLURM_STEP_ID");
  EXPECT_FALSE(launched_in(shell));
}

TEST(LaunchedRanks, OfTorchrunUseAPortBesideItsOwn) {
  const auto found = launched_in(kTorchrun);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->launcher, "torchrun");
  EXPECT_EQ(found->rank, 3);
  EXPECT_EQ(found->size, 8);
  EXPECT_EQ(found->local_rank, 1);
  EXPECT_EQ(found->local_size, 2);
  EXPECT_EQ(found->address, "10.0.0.7");
  EXPECT_EQ(found->port, 29501);
  EXPECT_EQ(found->run_id, "abc");
}

TEST(LaunchedRanks, OfOpenMpiFindTheHostOfMpirun) {
  const auto found = launched_in(kOpenMpi);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->launcher, "mpirun");
  EXPECT_EQ(found->rank, 2);
  EXPECT_EQ(found->address, "10.1.2.3");
  EXPECT_GE(found->port, 61440);
  EXPECT_LT(found->port, 65536);
  Environment local = kOpenMpi;
  local["OMPI_COMM_WORLD_LOCAL_SIZE"] = "4";
  EXPECT_EQ(launched_in(local)->address, "127.0.0.1");
  EXPECT_EQ(launched_in(local)->port, found->port);
}

TEST(LaunchedRanks, OfHydraOnSeveralHostsNeedAnAddress) {
  EXPECT_EQ(launched_in(kHydra)->launcher, "mpiexec");
  EXPECT_EQ(launched_in(kHydra)->address, "127.0.0.1");
  Environment two_hosts = kHydra;
  two_hosts["MPI_LOCALNRANKS"] = "2";
  EXPECT_THROW(launched_in(two_hosts), Error);
  two_hosts["MASTER_ADDR"] = "10.0.0.1";
  EXPECT_THROW(launched_in(two_hosts), Error) << "its hosts have no port in common";
  two_hosts["RIDGELINE_PORT"] = "29600";
  EXPECT_EQ(launched_in(two_hosts)->address, "10.0.0.1");
}

TEST(LaunchedRanks, OfSrunFindTheFirstHostOfTheStep) {
  const auto found = launched_in(kSlurm);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->launcher, "srun");
  EXPECT_EQ(found->rank, 5);
  EXPECT_EQ(found->size, 8);
  EXPECT_EQ(found->address, "node001");
  EXPECT_EQ(found->port, 61440 + 5000 % 4096);
  EXPECT_EQ(found->run_id, "5000.0");
  Environment smaller_step = kSlurm;
  smaller_step["SLURM_STEP_NUM_TASKS"] = "6";
  EXPECT_EQ(launched_in(smaller_step)->size, 6);
}

TEST(LaunchedRanks, OfSeveralLaunchersAreThoseOfTheFirst) {
  Environment both = kSlurm;  // mpirun within a job of Slurm
  both.insert(kOpenMpi.begin(), kOpenMpi.end());
  EXPECT_EQ(launched_in(both)->launcher, "mpirun");
  both.insert(kTorchrun.begin(), kTorchrun.end());
  EXPECT_EQ(launched_in(both)->launcher, "torchrun");
  both.insert({{"RIDGELINE_RANK", "0"}, {"RIDGELINE_WORLD_SIZE", "2"}});
  EXPECT_EQ(launched_in(both)->launcher, "ridgeline");
}

TEST(LaunchedRanks, ThatContradictThemselvesAreRefused) {
  Environment wrong = kTorchrun;
  wrong["RANK"] = "8";
  EXPECT_ERROR(launched_in(wrong), ErrorKind::usage,
               "RANK is '8', and a number from 0 to 7 was expected");
  wrong["RANK"] = "three";
  EXPECT_THROW(launched_in(wrong), Error);
  wrong = kTorchrun;
  wrong["RIDGELINE_PORT"] = "70000";
  EXPECT_THROW(launched_in(wrong), Error);
}

TEST(FirstHosts, AreReadAsSlurmWritesThem) {
  EXPECT_EQ(first_host("alpha"), "alpha");
  EXPECT_EQ(first_host("alpha,beta"), "alpha");
  EXPECT_EQ(first_host("node[001-015],x"), "node001");
  EXPECT_EQ(first_host("n[3,7-9]"), "n3");
  EXPECT_EQ(first_host(""), "");
}

}  // namespace
}  // namespace ridgeline
