// A library for LD_PRELOAD that subscribes to CUPTI before the program does, as a profiler that is
// attached to it: the CUPTI at FIRST_SUBSCRIBER_CUPTI.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "runtime/cuda/cupti_api.h"

using namespace ridgeline::cupti;

namespace {

void on_callback(void*, CallbackDomain, uint32_t, const void*) {}

__attribute__((constructor)) void subscribe() {
  const char* path = std::getenv("FIRST_SUBSCRIBER_CUPTI");
  void* library = path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL);
  const auto function = reinterpret_cast<Result (*)(Subscriber*, CallbackFunction, void*)>(
      library == nullptr ? nullptr : dlsym(library, "cuptiSubscribe"));
  Subscriber subscriber = nullptr;
  if (function == nullptr || function(&subscriber, on_callback, nullptr) != kSuccess)
    std::fprintf(stderr, "first_subscriber: could not subscribe\n");
}

}  // namespace
