#include "studies/ddp/predict_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "base/error.h"
#include "base/units.h"
#include "cost/device_specs.h"

namespace ridgeline {
namespace {

PaperDevice paper_device(const PredictFlags& flags) {
  const GpuSpec& gpu = parse_gpu(flags.gpus.front());
  PaperDevice device{.name = std::string(gpu.name),
                     .peak_flops_per_s = dense_tflops(gpu, flags.dtype) * 1e12,
                     .utilisation = flags.utilisation,
                     .memory_bytes = gpu.memory_gigabytes * 1e9,
                     .memory_bytes_per_s = gpu.gigabytes_per_s * 1e9,
                     .memory_source = fmt::format("the data sheet of {}", gpu.name),
                     .bandwidth_source = fmt::format("the data sheet of {}", gpu.name)};
  if (flags.peak_tflops > 0) {
    device.name = "devices";
    device.peak_flops_per_s = flags.peak_tflops * 1e12;
  }
  if (!flags.device_memory.empty()) {
    device.memory_bytes = static_cast<double>(parse_bytes(flags.device_memory).count);
    device.memory_source = "--device-memory";
  }
  if (device.peak_flops_per_s <= 0)
    throw Error(ErrorKind::usage, fmt::format("{} has no units for {}", gpu.name, flags.dtype),
                "choose another --gpu or --dtype, or give --peak-tflops");
  return device;
}

void expect_two(const std::vector<int64_t>& values, const char* flag) {
  if (values.size() != 2)
    throw Error(ErrorKind::usage,
                fmt::format("{} is {}, expected two numbers: of fsdp and of tensor parallel", flag,
                            fmt::join(values, ",")),
                fmt::format("such as {} 16,4", flag));
}

}  // namespace

void add_predict_flags(Flags& flags, PredictFlags* predict) {
  flags.add(kPredict, &predict->asked,
            "the calculator: memory, devices, bandwidths, batches and step times on paper; nothing "
            "runs");
  const auto add = [&](const char* names, Flag::Target target, const char* help,
                       FlagRules rules = {}) -> Flag& {
    rules.shows_default = true;
    rules.needs = {kPredict};
    return flags.add(names, target, help, std::move(rules));
  };
  add("--bandwidth", &predict->bandwidth,
      "of a rank's link to the others of its node, in one direction");
  add("--latency", &predict->latency, "of a message within a node");
  add("--network-bandwidth", &predict->network_bandwidth, "of a rank's link out of its node");
  add("--network-latency", &predict->network_latency, "of a message between nodes");
  add("--ranks-per-node", &predict->ranks_per_node, "ranks that share a node",
      {.range = FlagRange{1, 1 << 16}});
  add("--dtype", &predict->dtype,
      "of activations, of weights that compute and of what is sent; master weights, gradients and "
      "moments are fp32",
      {.choices = {"fp32", "bf16"}, .only_choices = true});
  Flag& gpu = add_gpus(flags, &predict->gpus);
  gpu.help = "the device by its data sheet: A100, H100-PCIe, 4090, ...";
  gpu.rules.shows_default = true;
  gpu.rules.needs = {kPredict};
  flags.add("--peak-tflops", &predict->peak_tflops,
            "of a device, instead of its data sheet's; with --device-memory for one that is not "
            "listed",
            {.needs = {kPredict}});
  flags.add("--device-memory", &predict->device_memory, "of a device, instead of its data sheet's",
            {.needs = {kPredict}});
  add("--utilisation", &predict->utilisation, "the part of its peak that a step reaches");
  flags.add("--mesh", &predict->mesh,
            "fsdp ranks and tensor-parallel ranks: the batch from which the forward pass computes "
            "longer than it gathers",
            {.needs = {kPredict}});
  flags.add("--mesh-links", &predict->mesh_links, "links of a rank along each of them",
            {.shows_default = true, .needs = {"--mesh"}});
}

PredictOptions predict_options(const PredictFlags& flags) {
  if (!(flags.utilisation > 0 && flags.utilisation <= 1))
    throw Error(ErrorKind::usage,
                fmt::format("--utilisation is {}, expected a part of 1", flags.utilisation),
                "such as 0.4");
  if (!(flags.peak_tflops >= 0 && std::isfinite(flags.peak_tflops)))
    throw Error(ErrorKind::usage,
                fmt::format("--peak-tflops is {}, expected a number above 0", flags.peak_tflops));
  if (flags.gpus.size() != 1)
    throw Error(ErrorKind::usage,
                fmt::format("--gpu is {}, expected one", fmt::join(flags.gpus, ",")));
  PredictOptions options{
      .in_16_bits = flags.dtype != "fp32",
      .network = {.inside = {parse_seconds(flags.latency), parse_bandwidth(flags.bandwidth)},
                  .between = {parse_seconds(flags.network_latency),
                              parse_bandwidth(flags.network_bandwidth)},
                  .ranks_per_node = flags.ranks_per_node},
      .device = paper_device(flags)};
  if (!flags.mesh.empty()) {
    expect_two(flags.mesh, "--mesh");
    expect_two(flags.mesh_links, "--mesh-links");
    options.mesh = Mesh{.fsdp = static_cast<int>(flags.mesh[0]),
                        .tensor = static_cast<int>(flags.mesh[1]),
                        .fsdp_links = static_cast<double>(flags.mesh_links[0]),
                        .tensor_links = static_cast<double>(flags.mesh_links[1])};
  }
  return options;
}

}  // namespace ridgeline
