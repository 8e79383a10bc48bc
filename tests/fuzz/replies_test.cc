// What child processes answer: peers and own kernels in JSON, led studies in words.
#include "fuzz/fuzz.h"
#include "measure/turns.h"
#include "studies/peers/answers.h"
#include "studies/profile/metrics.h"

namespace ridgeline {
namespace {

TEST(SlowFuzz, PeerReplies) {
  fuzz({.name = "PeerReplies",
        .seeds =
            {R"({"memory":{"before_backward_bytes":4096,"peak_bytes":8192,)"
             R"("process_peak_growth_bytes":12288},"facts":{"ran":"cudnn","versions":{"torch":)"
             R"("2.1"},"kernels":["a","b"]},"first_run_s":0.25})",
             R"({"samples":[[1.5,2.5],[1.25,2.75],[1,3]]})",
             R"({"profile":{"source":"a","steps":2,"untraced_step_ms":1.5},"step":{"begin_ns":0,)"
             R"("end_ns":90,"names":["nvjet","launch"],"calls":[[1,0,5]],"work":[[0,0,1,10,20,0],)"
             R"([0,1,-1,40,5,-1]]}})",
             R"({"failed":"oom","error":"tried to allocate 2.00 GiB","next_step":"less"})",
             R"({"failed":"invalid","error":"it recompiled","leave":true})", "{}"},
        .words = {"\"failed\":\"unsupported\",", "\"leave\":true,", "\"memory\":{", "\"samples\":[",
                  "\"facts\":{", "\"peak_bytes\":", "\"work\":[[", "\"calls\":[["},
        .run =
            [](const std::string& input) {
              const WorkerAnswer answer = parse_answer(input);
              try {
                Profile profile = read_opened_profile(answer.values, 2).profile;
                for (int step = 0; step < 2; ++step) read_profile_step(answer.values, profile);
                profile_metrics(profile).dump();
              } catch (const Error&) {  // most answers are of another request
              }
              for (const size_t series : {1, 2}) {
                try {
                  read_opened(answer.values);
                  read_samples(answer.values, series);
                } catch (const Error&) {  // the other of the two is asked all the same
                  read_samples(answer.values, series);
                }
              }
            },
        .inputs = 20000});
}

TEST(SlowFuzz, Turns) {
  fuzz(
      {.name = "Turns",
       .seeds = {"turns: row 3", "turns: measurement 1 forward backward",
                 "turns: samples 2 3 1.5 2.5 3.5 2 0.25 0.125", "sample 12", "warm_up 3", "stop 0"},
       .words = {"turns: ", "samples ", "row ", "99999999999 ", "-1 "},
       .run =
           [](const std::string& input) {
             parse_report(input);
             parse_turn(input);
           },
       .inputs = 20000});
}

}  // namespace
}  // namespace ridgeline
