// custom_loop: the program on jaxloop's page. A step is a class, inner loops have actions, an outer loop drives them.
//
//   custom_loop [directory with MNIST's IDX files [total steps [directory for checkpoints]]]

#include <giro/giro.h>
#include <giro/jaxloop.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace jl = giro::jaxloop;
namespace nn = giro::nn;

namespace {

// 1. The model.
nn::Layer cnn() {
  return nn::sequential(                                             //
      nn::scale(1 / 255.f),                                          //
      nn::conv(32, {3, 3}, {.activation = giro::Activation::relu}),  //
      nn::avg_pool({2, 2}),                                          //
      nn::conv(64, {3, 3}, {.activation = giro::Activation::relu}),  //
      nn::avg_pool({2, 2}),                                          //
      nn::flatten(),                                                 //
      nn::dense(256, {.activation = giro::Activation::relu}),        //
      nn::dense(10));
}

// 3. What to do with a batch. (2., the data sets, is below.)
class MnistStep : public jl::Step {
 public:
  using Step::Step;

  giro::Logs run(giro::TrainState& state, const giro::Batch& batch) override {
    const auto forward = [&](const nn::Params& params) {
      auto logits = model()(params, batch["image"]);
      return std::pair{mean(softmax_cross_entropy(logits, batch["label"])), logits};
    };
    auto [loss, logits] = train() ? state.value_and_grad(forward) : forward(state.params());
    if (train()) state.apply_gradients();
    return giro::logs().add_metric("loss", loss).add_metric("accuracy", accuracy(logits, batch["label"]));
  }
};

void run(const std::string& data, std::int64_t total_steps, const std::string& work_dir) {
  // 2. The data sets.
  const giro::Device device = giro::discover_devices().best();
  auto train_data = giro::data::mnist("train", {.dir = data}).shuffle(0).repeat().batch(32).to(device);
  auto eval_data = giro::data::mnist("test", {.dir = data}).batch(32, /*drop_remainder=*/true).to(device);

  const giro::Shape image = train_data.spec().front().shape;  // (32, 28, 28, 1)

  MnistStep train_step(
      cnn(), {.train = true, .optimizer = giro::optim::sgd(0.005, {.momentum = 0.9}), .device = device});
  MnistStep eval_step(cnn(), {.device = device});

  // 4. Inner loops, with actions at their ends.
  const auto print = [](const std::string& line) { std::printf("%s\n", line.c_str()); };
  const jl::Action show([](giro::TrainState&, jl::LoopOutputs& outputs) {
    std::printf("         | loss: %.4f, accuracy: %.4f\n", outputs.mean("loss"), outputs.mean("accuracy"));
  });
  const std::int64_t first_step = giro::CheckpointStore(work_dir).latest_steps() + 1;
  giro::SummaryWriter writer(work_dir + "/summaries", {.purge_step = first_step, .resume = true});
  const jl::Action summaries = jl::summary_action(writer);
  jl::TrainLoop train_loop(
      train_step, {.end_actions = {show, summaries, jl::checkpoint_action(work_dir)}, .log = print});
  jl::EvalLoop eval_loop(eval_step, {.end_actions = {show}, .log = print});

  // 5. The outer loop, which resumes from the newest checkpoint.
  jl::OuterLoop outer_loop({.train_loop = &train_loop,
      .eval_loops = {&eval_loop},
      .checkpoint_spec = jl::CheckpointSpec{work_dir},
      .log = print});
  auto [state, outputs] = outer_loop(train_step.initialize_model({{"image", image}}),
      {.train_dataset = train_data,
          .train_total_steps = total_steps,
          .train_loop_steps = std::max<std::int64_t>(total_steps / 10, 1),
          .eval_specs = {{.dataset = eval_data, .num_steps = 100}}});
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? argv[1] : giro::data::MnistOptions().dir, argc > 2 ? std::strtoll(argv[2], nullptr, 10) : 100,
        argc > 3 ? argv[3] : "logdir/custom_loop");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "custom_loop: %s\n", error.what());
    return 2;
  }
  return 0;
}
