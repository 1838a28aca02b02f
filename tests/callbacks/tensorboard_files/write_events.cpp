// The program that tensorboard_test.py and json_lines_test.py run:
//   write_events kinds DIR             writes records of every kind by hand
//   write_events train DIR [STEP]      trains for 20 steps with a checkpoint every 5; resumes where it was killed, and
//                                      kills itself after step STEP
//   write_events lines DIR             writes JSON lines of a run that diverged, in each way that giro has

#include <csignal>
#include <cstdio>
#include <exception>
#include <limits>
#include <string>
#include <vector>

#include <giro/giro.h>

namespace nn = giro::nn;

namespace {

void kinds(const std::string& dir) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  giro::SummaryWriter writer(dir);
  writer.write_hparams({{"learning_rate", 1e-3}, {"layers", 3}, {"nesterov", true}, {"optimizer", "adamw"}});
  writer.write_scalars(0, {{"train/loss", 0.25}, {"accuracy \xc3\xa9", 1}});
  writer.write_scalars(1, {{"train/loss", kInfinity}});
  writer.write_scalars(std::int64_t{1} << 40, {{"train/loss", -1e300}});
  writer.write_histograms(2,
                          {{"weights", std::vector<float>{0, 1, 1, 2.5f, 3}},
                           {"empty", std::vector<float>{}},
                           {"overflow", std::vector<double>{1, kInfinity, std::numeric_limits<double>::quiet_NaN()}}});
  std::vector<std::uint8_t> rgb;
  for (int i = 0; i < 2 * 2 * 3 * 3; ++i) rgb.push_back(static_cast<std::uint8_t>(7 * i));
  writer.write_images(
      3, {{"rgb", {rgb, {2, 2, 3, 3}}},
          {"grey", {std::vector<float>{0, 0.5f, 1, -1, 2, std::numeric_limits<float>::quiet_NaN()}, {2, 3, 1}}},
          {"rgba", {std::vector<std::uint8_t>{1, 2, 3, 4}, {1, 1, 4}}}});
  writer.write_texts(4, {{"notes", "# A *title*\n\n\xc3\xa9"}});
  writer.close();
}

void train(const std::string& dir, std::int64_t kill_at) {
  std::vector<float> xs(64), ys(64);
  for (std::size_t i = 0; i < xs.size(); ++i) xs[i] = 3 * (ys[i] = static_cast<float>(i) / 64);
  const auto data = giro::Dataset({{"x", {xs, {64, 1}}}, {"y", {ys, {64, 1}}}}).shuffle(0).repeat().batch(4);
  const auto model = nn::sequential(nn::dense(1));
  const auto train_step = giro::jit([&](giro::TrainState& state, const giro::Batch& batch) {
    const auto loss =
        state.value_and_grad([&](auto& params) { return mean(square(model(params, batch["x"]) - batch["y"])); });
    state.apply_gradients();
    return giro::logs().add_metric("loss", loss);
  });
  const auto add_outputs = [](const giro::Elapsed& elapsed) {
    const giro::HostArray pixels(std::vector<float>(6, static_cast<float>(elapsed.steps) / 20), {2, 3, 1});
    return giro::logs().add_output("picture", pixels).add_output("spread", pixels).add_output("unseen", pixels);
  };
  // Anything that is not written to the file at once would be lost.
  const auto board = giro::tensorboard(dir + "/tensorboard", {.hparams = {{"learning_rate", 1e-2}},
                                                              .texts = {{"notes", "a *run*"}},
                                                              .images = {"picture"},
                                                              .histograms = {"spread"},
                                                              .flush_interval = 0});
  const auto kill = [&](const giro::Elapsed& elapsed) {
    if (elapsed.steps == kill_at) std::raise(SIGKILL);
    return giro::Logs();
  };
  (void)giro::loop(giro::TrainState::create(model, giro::optim::adamw(1e-2),
                                            {.inputs = data.spec(), .context = giro::Device::cpu()}),
                   data,
                   {
                       {giro::every(1), train_step},
                       {giro::every(10), add_outputs},
                       {giro::every_end(5), giro::backup_and_restore(dir + "/model")},
                       {giro::every(1), board},
                       {giro::every(10), board.histograms()},
                       {giro::every(1), kill},
                   },
                   {.stop = giro::at(20)});
}

void lines(const std::string& dir) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> losses{0.5, 0.25, kNan, kInfinity, -kInfinity, 1.5}, late{kNan, kInfinity, 3, 2, 1, 0.5};
  const auto step = [&](const giro::Elapsed& elapsed) {
    const auto i = static_cast<std::size_t>(elapsed.steps);
    return giro::logs().add_metric("loss", losses[i]).add_metric("late", late[i]);
  };
  giro::JsonlWriter writer(dir + "/writer.jsonl");
  const auto by_hand = [&](const giro::Elapsed& elapsed, const giro::Logs& logs) {
    writer.write_scalars(elapsed.steps, {{"loss", logs.entry_value("loss")}, {"late", logs.entry_value("late")}});
  };
  const auto result = giro::loop(0, std::vector<int>(losses.size()),
                                 {{giro::every(1), {step, giro::jsonl_logger(dir + "/logger.jsonl"), by_hand}}});
  writer.close();
  result.history.write_jsonl(dir + "/history.jsonl");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string what = argc > 2 ? argv[1] : "";
    if (what == "kinds") return kinds(argv[2]), 0;
    if (what == "train") return train(argv[2], argc > 3 ? std::atoll(argv[3]) : -1), 0;
    if (what == "lines") return lines(argv[2]), 0;
    std::fprintf(stderr, "usage: write_events kinds DIR | write_events train DIR [STEP] | write_events lines DIR\n");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "write_events: %s\n", error.what());
  }
  return 1;
}
