// Records one training step on the emulated GPU, without running it, and prints the input of the cost model as JSON:
// the ops of the program with the memory that they touch, and the nodes of the graph with the op of each.

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include <giro/giro.h>
#include <giro/runtime/span.h>

namespace {

namespace nn = giro::nn;
using Json = nlohmann::ordered_json;

// The ops that giro has emitted, in the order of the program, and their nodes.
struct Emitted {
  std::vector<std::string> ops;
  std::vector<Json> nodes;
};
Emitted emitted;

class Ops final : public giro::detail::SpanSink {
 public:
  SpanStart begin(const char* category, const char* name) noexcept override {
    const bool is_op = std::string_view(category) == "op";
    if (is_op && depth_++ == 0) emitted.ops.emplace_back(name);
    return {.time = 0, .run = 0, .name = is_op ? 1u : 0u, .has_range = false};
  }
  void end(const SpanStart& begun, const char*, std::int64_t) noexcept override {
    depth_ -= static_cast<int>(begun.name);
  }

 private:
  int depth_ = 0;
};

void add_node(const char* text) {
  Json node = Json::parse(text);
  node["op"] = emitted.ops.size();  // converted to an index into the program's ops below
  emitted.nodes.push_back(std::move(node));
}

struct Arguments {
  std::string model;
  std::int64_t batch;
  giro::Precision precision;
  bool silent;
};

// Logits that are a parameter, so that the step is only a cross-entropy.
struct Logits {
  giro::Shape shape;

  nn::Var operator()(nn::Scope& s, const nn::Var&) const { return s.param("logits", shape, nn::zeros()); }
};

// The models of samples/mnist.cpp.
nn::Layer make_model(const Arguments& args) {
  if (args.model == "cross_entropy") return Logits{{args.batch, 50'257}};
  if (args.model == "linear") return nn::sequential(nn::scale(1 / 255.f), nn::flatten(), nn::dense(10));
  const nn::ConvOptions relu{.activation = giro::Activation::relu};
  return nn::sequential(nn::scale(1 / 255.f), nn::conv(32, {3, 3}, relu), nn::avg_pool({2, 2}),
                        nn::conv(64, {3, 3}, relu), nn::avg_pool({2, 2}), nn::flatten(),
                        nn::dense(256, {.activation = giro::Activation::relu}), nn::dense(10));
}

giro::Program record(const Arguments& args) {
  const nn::Layer model = make_model(args);
  const auto rows = static_cast<std::size_t>(args.batch);
  const giro::Dataset data =
      giro::Dataset({{"image", giro::HostArray(std::vector<std::uint8_t>(rows * 784), {args.batch, 28, 28, 1})},
                     {"label", std::vector<std::uint8_t>(rows)}})
          .shuffle(0)
          .repeat()
          .batch(args.batch)
          .to(giro::Device::cuda());
  auto state =
      giro::TrainState::create(model, giro::optim::adamw(1e-3),
                               {.inputs = data.spec(), .context = giro::Device::cuda(), .precision = args.precision});
  const auto step = giro::jit([&](giro::TrainState& s, const giro::Batch& batch) {
    const auto [loss, logits] = s.value_and_grad([&](const nn::Params& params) {
      nn::Var outputs = model(params, batch["image"]);
      return std::pair{mean(softmax_cross_entropy(outputs, batch["label"])), outputs};
    });
    const bool trains = args.model != "cross_entropy";
    if (trains) s.apply_gradients();
    if (args.silent) return giro::Logs();
    if (!trains) return giro::logs().add_metric("loss", loss);
    return giro::logs().add_metric("loss", loss).add_metric("accuracy", accuracy(logits, batch["label"]));
  });
  return step.program(state, *data.begin());
}

Json describe(const std::vector<giro::Tensor>& tensors) {
  Json all = Json::array();
  for (const giro::Tensor& tensor : tensors) {
    all.push_back({{"at", reinterpret_cast<std::uintptr_t>(tensor.raw())},
                   {"bytes", tensor.bytes()},
                   {"dtype", giro::name_of(tensor.dtype())},
                   {"shape", std::vector(tensor.shape().begin(), tensor.shape().end())}});
  }
  return all;
}

Json describe(const giro::Program& program) {
  const std::vector<giro::Program::Node>& nodes = program.nodes();
  Json ops = Json::array();
  const std::size_t before = emitted.ops.size() - nodes.size();  // ops that ran on their own
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const giro::Program::Node& node = nodes[i];
    if (emitted.ops.size() < nodes.size() || emitted.ops[before + i] != node.op) {
      throw giro::Error(giro::ErrorCode::invalid_argument,
                        fmt::format("op {} of the program, {}, is not what was emitted there", i, node.op));
    }
    ops.push_back({{"op", node.op},
                   {"bytes", node.bytes},
                   {"flops", node.flops},
                   {"reads", describe(node.reads)},
                   {"writes", describe(node.writes)}});
  }
  for (Json& node : emitted.nodes) node["op"] = node["op"].get<std::int64_t>() - static_cast<std::int64_t>(before) - 1;
  return {{"ops", std::move(ops)}, {"nodes", emitted.nodes}};
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() < 3) {
    std::fputs("usage: record_step linear|cnn|cross_entropy BATCH DTYPE [silent]\n", stderr);
    return 2;
  }
  using Watch = void (*)(void (*)(const char*));
  const auto watch = reinterpret_cast<Watch>(dlsym(RTLD_DEFAULT, "cuda_on_cpu_watch_captures"));
  if (watch == nullptr) {
    std::fputs("record_step: expected the emulated GPU in LD_PRELOAD\n", stderr);
    return 2;
  }
  try {
    const Arguments args{words[0], std::stoll(words[1]), giro::parse_precision(words[2]), words.size() > 3};
    Ops ops;
    giro::detail::span_sink = &ops;
    watch(&add_node);
    const Json step = describe(record(args));
    giro::detail::span_sink = nullptr;
    std::puts(step.dump().c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "record_step: %s\n", error.what());
    return 2;
  }
}
