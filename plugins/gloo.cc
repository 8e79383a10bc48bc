// The plugin for Gloo over TCP.
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "dist/plugin_abi.h"

namespace {

constexpr uint8_t kOwnSlots = 0x40;  // slot prefix that Gloo's own collectives do not use
constexpr size_t kLongestValue = size_t{1} << 20;
constexpr const char* kForeignException = "an exception that is none of the standard's";

// Gloo's rendezvous through the program's own store.
class Store final : public gloo::rendezvous::Store {
 public:
  Store(const RidgelinePluginStore& calls, double timeout_s)
      : calls_(calls), timeout_s_(timeout_s) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    if (calls_.set(calls_.context, key.c_str(), data.data(), data.size()) != 0)
      throw std::runtime_error("the store of the run refuses a key");
  }
  std::vector<char> get(const std::string& key) override {
    std::vector<char> value(kLongestValue);
    const long length =
        calls_.get(calls_.context, key.c_str(), value.data(), value.size(), timeout_s_);
    if (length < 0)
      throw std::runtime_error("the store of the run gives no value for '" + key + "'");
    if (static_cast<size_t>(length) > value.size())
      throw std::runtime_error("the value of '" + key + "' in the store of the run is too long");
    value.resize(static_cast<size_t>(length));
    return value;
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) get(key);
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override {
    wait(keys);
  }

 private:
  RidgelinePluginStore calls_;
  double timeout_s_;
};

struct State {
  std::shared_ptr<gloo::rendezvous::Context> context;
  uint32_t tag = 0;
  std::vector<char> received;  // operands of all ranks in a small all-reduce
  std::string error;
};

State& of(void* state) {
  return *static_cast<State*>(state);
}

// Runs `call`. Returns 1 and stores the message if it throws, else 0.
template <class Call>
int guarded(void* state, const Call& call) {
  try {
    call(of(state));
    return 0;
  } catch (const std::exception& error) {
    of(state).error = error.what();
  } catch (...) {
    of(state).error = kForeignException;
  }
  return 1;
}

__attribute__((target_clones("avx512f", "avx2", "default"))) void add_floats(void* out,
                                                                             const void* a,
                                                                             const void* b,
                                                                             size_t count) {
  float* to = static_cast<float*>(out);
  const float* left = static_cast<const float*>(a);
  const float* right = static_cast<const float*>(b);
  for (size_t i = 0; i < count; ++i) to[i] = left[i] + right[i];
}

// Up to this size, sending the whole buffer to every rank is faster than a ring, whose 2(n - 1)
// messages are sequential.
constexpr int64_t kDirectBytes = 16 << 10;

// All-gather in one message per pair of ranks: `received` gets `bytes` of every rank, this one's
// included, in rank order.
void exchange_whole(State& state, const void* mine, size_t bytes, std::vector<char>& received) {
  using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;
  const int size = state.context->size, rank = state.context->rank;
  const auto slot = gloo::Slot::build(kOwnSlots, state.tag++);
  received.resize(bytes * static_cast<size_t>(size));
  std::memcpy(&received[static_cast<size_t>(rank) * bytes], mine, bytes);
  std::vector<Buffer> parts;
  for (int step = 1; step < size; ++step) {
    const int from = (rank - step + size) % size;
    parts.push_back(
        state.context->createUnboundBuffer(&received[static_cast<size_t>(from) * bytes], bytes));
    parts.back()->recv(from, slot);
  }
  const Buffer sent =
      state.context->createUnboundBuffer(&received[static_cast<size_t>(rank) * bytes], bytes);
  for (int step = 1; step < size; ++step) sent->send((rank + step) % size, slot);
  for (const Buffer& part : parts) part->waitRecv(state.context->getTimeout());
  for (int step = 1; step < size; ++step) sent->waitSend(state.context->getTimeout());
}

int all_reduce_f32(void* opaque, const float* in, float* out, int64_t count) {
  return guarded(opaque, [&](State& state) {
    const size_t bytes = static_cast<size_t>(count) * sizeof(float);
    if (count > 0 && static_cast<int64_t>(bytes) <= kDirectBytes && state.context->size > 1) {
      std::vector<char>& all = state.received;
      exchange_whole(state, in, bytes, all);
      std::memcpy(out, all.data(), bytes);
      for (size_t rank = 1; rank < static_cast<size_t>(state.context->size); ++rank)
        add_floats(out, out, &all[rank * bytes], static_cast<size_t>(count));
      return;
    }
    gloo::AllreduceOptions options(state.context);
    if (in != out) options.setInput(const_cast<float*>(in), static_cast<size_t>(count));
    options.setOutput(out, static_cast<size_t>(count));
    options.setReduceFunction(add_floats);
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    options.setTag(state.tag++);
    gloo::allreduce(options);
  });
}

int all_gather(void* opaque, const void* in, void* out, const int64_t* bytes) {
  return guarded(opaque, [&](State& state) {
    const auto size = static_cast<size_t>(state.context->size);
    const auto rank = static_cast<size_t>(state.context->rank);
    std::vector<size_t> counts(bytes, bytes + size);
    size_t before = 0;
    for (size_t i = 0; i < rank; ++i) before += counts[i];
    gloo::AllgathervOptions options(state.context);
    if (in != static_cast<char*>(out) + before)
      options.setInput(static_cast<char*>(const_cast<void*>(in)), counts[rank]);
    options.setOutput(static_cast<char*>(out), counts);
    options.setTag(state.tag++);
    gloo::allgatherv(options);
  });
}

int broadcast(void* opaque, void* data, int64_t bytes, int root) {
  return guarded(opaque, [&](State& state) {
    gloo::BroadcastOptions options(state.context);
    options.setOutput(static_cast<char*>(data), static_cast<size_t>(bytes));
    options.setRoot(root);
    options.setTag(state.tag++);
    gloo::broadcast(options);
  });
}

int exchange(void* opaque, const void* const* send, const int64_t* send_bytes, void* const* receive,
             const int64_t* receive_bytes) {
  return guarded(opaque, [&](State& state) {
    using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;
    const int size = state.context->size, rank = state.context->rank;
    const auto slot = gloo::Slot::build(kOwnSlots, state.tag++);
    std::vector<Buffer> sent, received;
    for (int step = 1; step < size; ++step) {
      const int from = (rank - step + size) % size, to = (rank + step) % size;
      received.push_back(state.context->createUnboundBuffer(
          receive[from], static_cast<size_t>(receive_bytes[from])));
      if (receive_bytes[from] > 0) received.back()->recv(from, slot);
      sent.push_back(state.context->createUnboundBuffer(const_cast<void*>(send[to]),
                                                        static_cast<size_t>(send_bytes[to])));
      if (send_bytes[to] > 0) sent.back()->send(to, slot);
    }
    for (int step = 1; step < size; ++step) {
      const auto at = static_cast<size_t>(step - 1);
      if (receive_bytes[(rank - step + size) % size] > 0)
        received[at]->waitRecv(state.context->getTimeout());
      if (send_bytes[(rank + step) % size] > 0) sent[at]->waitSend(state.context->getTimeout());
    }
  });
}

int barrier(void* opaque) {
  return guarded(opaque, [&](State& state) {
    gloo::BarrierOptions options(state.context);
    options.setTag(state.tag++);
    gloo::barrier(options);
  });
}

const char* last_error(void* opaque) {
  return of(opaque).error.c_str();
}

void close_state(void* opaque) {
  delete static_cast<State*>(opaque);
}

}  // namespace

extern "C" int ridgeline_plugin_open(const RidgelinePluginOptions* options,
                                     RidgelinePluginCalls* calls, char* error, size_t error_bytes) {
  if (options->abi != RIDGELINE_PLUGIN_ABI) {
    std::snprintf(error, error_bytes, "the plugin has interface %d, and the program %d",
                  RIDGELINE_PLUGIN_ABI, options->abi);
    return 1;
  }
  try {
    auto state = std::make_unique<State>();
    // Passes the address explicitly: Gloo would resolve the host name, possibly to an interface
    // that other ranks cannot reach.
    gloo::transport::tcp::attr attributes(options->local_address);
    std::shared_ptr<gloo::transport::Device> device =
        gloo::transport::tcp::CreateDevice(attributes);
    state->context = std::make_shared<gloo::rendezvous::Context>(options->rank, options->size);
    state->context->setTimeout(
        std::chrono::milliseconds(static_cast<int64_t>(1e3 * options->timeout_s)));
    Store store(options->store, options->timeout_s);
    state->context->connectFullMesh(store, device);
    *calls = {};
    calls->abi = RIDGELINE_PLUGIN_ABI;
    calls->rank = options->rank;
    calls->size = options->size;
    std::snprintf(calls->library, sizeof calls->library, "Gloo %d.%d.%d over TCP",
                  GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR, GLOO_VERSION_PATCH);
    calls->state = state.release();
    calls->all_reduce_f32 = all_reduce_f32;
    calls->reduce_scatter_f32 = nullptr;
    calls->all_gather = all_gather;
    calls->broadcast = broadcast;
    calls->exchange = exchange;
    calls->barrier = barrier;
    calls->last_error = last_error;
    calls->close = close_state;
    return 0;
  } catch (const std::exception& failed) {
    std::snprintf(error, error_bytes, "%s", failed.what());
  } catch (...) {
    std::snprintf(error, error_bytes, "%s", kForeignException);
  }
  return 1;
}
