#include "studies/ranks/world.h"

#include <fmt/format.h>

#include <istream>
#include <optional>
#include <ostream>

#include "base/error.h"
#include "dist/launch_environment.h"
#include "measure/record_json.h"
#include "studies/ranks/group.h"

namespace ridgeline {
namespace {

constexpr double kNextRequestS = 1e6;  // the watch detects the end of rank 0
constexpr const char* kStopWord = "stop";
constexpr const char* kWaiting = "waiting for the next row";

}  // namespace

Record RankWorld::run(const Json& request, const std::function<bool()>& interrupted) {
  const RankTask& task = find_task(request);
  const std::string backend = host_backend(request["backend"].text(), &world_.launched());
  if (!communicator_ || communicator_->facts().backend != backend) {
    communicator_.reset();
    communicator_ = world_.communicator(backend);
  }
  world_.activity().set(task.label(request));
  Record answer = task.run(*communicator_, request, interrupted);
  world_.activity().set(kWaiting);
  return answer;
}

Record RankWorld::ask(const Json& request, const std::function<bool()>& interrupted) {
  world_.store().set(fmt::format("request {}", requests_++), request.dump());
  return run(request, interrupted);
}

void RankWorld::stop() {
  world_.store().set(fmt::format("request {}", requests_++), kStopWord);
  communicator_.reset();
}

void RankWorld::serve() {
  world_.activity().set(kWaiting);
  while (true) {
    const std::string request =
        world_.store().get(fmt::format("request {}", requests_++), kNextRequestS);
    if (request == kStopWord) break;
    run(Json::parse(request), {});
  }
  communicator_.reset();
}

int serve_rank(const std::string& build, std::istream& requests, std::ostream& answers) {
  const std::optional<LaunchedRank> launched = launched_rank();
  if (!launched)
    throw Error(ErrorKind::usage, "no launcher has started this process as a rank",
                "`ridgeline comm` and `ridgeline ddp` start their ranks themselves");
  World world(*launched, {.build = build, .configuration = kRankCommand});
  RankWorld ranks(world);
  if (world.rank() != 0) {
    ranks.serve();
    return 0;
  }
  world.activity().set(kWaiting);
  for (std::string line; std::getline(requests, line);)
    answers << to_line(ranks.ask(Json::parse(line))) << std::flush;
  ranks.stop();
  return 0;
}

}  // namespace ridgeline
