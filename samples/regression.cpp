// Learns to predict a column of a CSV file from other columns. Run it with samples/regression.sh.

#include <giro/giro.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "sample.h"

namespace nn = giro::nn;

namespace {

struct Arguments : sample::Options {
  std::vector<std::string> data, features;
  char delimiter = ',';
  std::string target;
  std::int64_t hidden = 64, batch = 64, evaluate_every = 100, patience = 5;
  double learning_rate = 1e-3, delta = 0.5;

  Arguments() {
    steps = 5'000;
    checkpoint_every = 500;
  }
};

// Made-up houses and their prices, the same every time. Some prices are outliers, as in many real tables.
std::string houses() {
  std::string text = "area,rooms,age,distance,price\n";
  const giro::Rng rng{.seed = 1};
  for (std::uint64_t row = 0; row < 2'000; ++row) {
    const auto drawn = [&](std::uint64_t number) { return static_cast<double>(rng.uniform(8 * row + number)); };
    const double area = 30 + 170 * drawn(0), age = std::floor(100 * drawn(2)), distance = 30 * drawn(3);
    const double rooms = 1 + std::floor(area / 30 + 2 * drawn(1));
    double price = (40 + 3 * area + 20 * rooms) * std::exp(-distance / 40) * (1 - 0.003 * age) + 40 * (drawn(4) - 0.5);
    if (drawn(5) < 0.02) price *= 4;
    char line[100];
    std::snprintf(line, sizeof line, "%.1f,%.0f,%.0f,%.2f,%.1f\n", area, rooms, age, distance, price);
    text += line;
  }
  return text;
}

// Mean and standard deviation of each column.
struct Moments {
  std::vector<float> mean, deviation;

  explicit Moments(const giro::Tensor& rows) {
    const auto columns = static_cast<std::size_t>(rows.shape()[1]), count = static_cast<std::size_t>(rows.shape()[0]);
    for (std::size_t column = 0; column < columns; ++column) {
      double sum = 0, squares = 0;
      for (std::size_t row = 0; row < count; ++row) sum += rows.data<float>()[row * columns + column];
      const double center = sum / static_cast<double>(count);
      for (std::size_t row = 0; row < count; ++row) {
        squares += std::pow(rows.data<float>()[row * columns + column] - center, 2);
      }
      mean.push_back(static_cast<float>(center));
      deviation.push_back(squares > 0 ? static_cast<float>(std::sqrt(squares / static_cast<double>(count))) : 1);
    }
  }
  nn::Var standardized(const nn::Var& x) const {
    return (x - nn::constant(mean, x.stream())) / nn::constant(deviation, x.stream());
  }
  nn::Var original(const nn::Var& x) const {
    return x * nn::constant(deviation, x.stream()) + nn::constant(mean, x.stream());
  }
};

bool is_for_validation(std::int64_t row) { return row % 5 == 4; }

// The training or the validation rows.
giro::Dataset part(const giro::Dataset& all, bool for_validation) {
  giro::Dataset::Arrays arrays;
  for (const auto& [name, rows] : all.rows()) {
    const std::int64_t columns = rows.shape()[1];
    std::vector<float> chosen;
    for (std::int64_t row = 0; row < all.num_rows(); ++row) {
      if (is_for_validation(row) != for_validation) continue;
      const float* const values = rows.data<float>() + row * columns;
      chosen.insert(chosen.end(), values, values + columns);
    }
    const auto count = static_cast<std::int64_t>(chosen.size()) / columns;
    arrays.emplace_back(name, giro::HostArray(std::move(chosen), {count, columns}));
  }
  return giro::Dataset(arrays);
}

// Nearly squared for errors below delta and nearly absolute for those above, so that a few outliers do not dominate.
nn::Var robust_loss(const nn::Var& prediction, const nn::Var& target, double delta) {
  return mean(delta * delta * (sqrt(1 + square((prediction - target) / delta)) - 1));
}

// Returns the exit code.
int train(Arguments args) {
  sample::Environment environment(args);
  auto& [world, context, partitioner] = environment;
  const giro::Device device = context.device();
  const std::string logdir = giro::run_directory(args.logdir, {.resume = args.resume, .partitioner = partitioner});

  if (args.data.empty()) {
    args.data = {logdir + "/houses.csv"};
    args.features = {"area", "rooms", "age", "distance"};
    args.target = "price";
    if (world.is_primary()) {
      giro::replace_file(*giro::posix_file_system(), args.data[0], houses());
      std::printf("made-up house prices in %s: choose other tables with --data\n", args.data[0].c_str());
    }
    if (partitioner) partitioner->expect_same("the table", args.data[0]);  // once the first rank has written it
  } else if (args.features.empty() || args.target.empty()) {
    throw giro::Error(giro::ErrorCode::invalid_argument, "--data needs --features and --target, the names of columns");
  }
  const auto all = giro::data::csv(
      args.data, {.features = {{"x", args.features}, {"y", {args.target}}}, .delimiter = args.delimiter});
  if (all.num_rows() < 5) {
    throw giro::Error(
        giro::ErrorCode::invalid_argument, args.data[0] + ": " + std::to_string(all.num_rows()) +
                                               " rows, expected at least 5: every fifth is for validation");
  }
  const giro::Dataset train_rows = part(all, false), valid_rows = part(all, true);
  const Moments x(train_rows.rows()[0].second), y(train_rows.rows()[1].second);
  const auto batch_of = [&](const giro::Dataset& rows, std::int64_t most) {
    return std::max<std::int64_t>(std::min(most, rows.num_rows()) / world.size(), 1) * world.size();
  };
  auto train_data =
      train_rows.shuffle(args.seed).repeat().batch(batch_of(train_rows, args.batch)).partition(partitioner).to(device);
  auto valid_data = valid_rows.batch(batch_of(valid_rows, 1'000)).partition(partitioner).to(device);

  const nn::Layer model = nn::sequential(nn::dense(args.hidden, {.activation = giro::Activation::relu}),
      nn::dense(args.hidden, {.activation = giro::Activation::relu}), nn::dense(1));
  auto state = giro::TrainState::create(model, giro::optim::adamw(args.learning_rate),
      {.inputs = train_data.spec(),
          .seed = args.seed,
          .context = context,
          .partitioner = partitioner,
          .precision = giro::parse_precision(args.dtype)});

  auto train_step = giro::jit([&](giro::TrainState& state, const giro::Batch& batch) {
    auto loss = state.value_and_grad([&](auto& params) {
      return robust_loss(model(params, x.standardized(batch["x"])), y.standardized(batch["y"]), args.delta);
    });
    state.apply_gradients();
    return giro::logs().add_metric("loss", loss);
  });
  auto valid_step = giro::jit([&](const giro::TrainState& state, const giro::Batch& batch) {
    auto prediction = model(state.params(), x.standardized(batch["x"]));
    return giro::logs()
        .add_metric("loss", robust_loss(prediction, y.standardized(batch["y"]), args.delta))
        .add_metric("mae", mean(absolute_error(y.original(prediction), batch["y"])));
  });
  const auto validate = [&](giro::TrainState& state) {
    return giro::loop(std::move(state), valid_data, {{giro::every(1), valid_step}});
  };

  // Validates periodically, stops once the validation loss no longer improves, and ends with the best state.
  auto stopping = giro::early_stopping("loss_valid", {.patience = args.patience, .mode = "min", .restore_best = true});
  const giro::Schedule evaluating = giro::every_end(args.evaluate_every) | giro::last();
  auto trained = giro::loop(std::move(state), train_data,
      {
          {giro::every(1), train_step},
          {evaluating, giro::inner_loop("valid", validate).preserves_state()},
          {giro::every(1), giro::keras_bar({.total = args.steps, .always_stateful = true})},
          {args.saving(), giro::backup_and_restore(logdir + "/model")},
          {evaluating, stopping},
      },
      {.stop = giro::at(args.steps)});
  if (trained.interrupted != 0) {
    return sample::stopped(trained.interrupted, trained.elapsed.steps, environment, logdir, args.checkpoint_every > 0);
  }
  const double best_loss = stopping.best();
  const std::int64_t best_step = stopping.best_elapsed()->steps + 1;
  const auto validated = validate(trained.state);
  if (!world.is_primary()) return 0;

  // Rank 0 predicts all rows, with a state that is not partitioned.
  auto alone = giro::TrainState::create(model, giro::optim::sgd(0),
      {.inputs = train_data.spec(), .context = device, .precision = giro::parse_precision(args.dtype)});
  giro::load_into(alone, validated.state.flatten("params"), {.only = {"params"}});
  auto predict_step = giro::jit([&](const giro::TrainState& state, const giro::Batch& batch) {
    return giro::logs().add_output("y", y.original(model(state.params(), x.standardized(batch["x"]))));
  });
  auto all_data = all.batch(std::min<std::int64_t>(1'000, all.num_rows())).to(device);
  const auto predicted = giro::loop(std::move(alone), all_data, {{giro::every(1), predict_step}});
  const giro::HostArray predictions = predicted.outputs.concatenate("y");
  std::string table = "row,part,target,prediction\n";
  for (std::int64_t row = 0; row < all.num_rows(); ++row) {
    char line[100];
    std::snprintf(line, sizeof line, "%lld,%s,%.9g,%.9g\n", static_cast<long long>(row),
        is_for_validation(row) ? "valid" : "train", all.rows()[1].second.data<float>()[row],
        predictions.tensor().data<float>()[row]);
    table += line;
  }
  giro::replace_file(*giro::posix_file_system(), logdir + "/predictions.csv", table);
  trained.history.write_csv(logdir + "/history.csv");
  giro::write_curves(trained.history, {"loss"}, logdir + "/curves.svg");
  const auto [losses] = trained.history.collect("loss");
  const nlohmann::ordered_json result{{"dtype", args.dtype}, {"device", to_string(device)}, {"ranks", world.size()},
      {"logdir", logdir}, {"rows", all.num_rows()}, {"steps", trained.elapsed.steps},
      {"stopped_early", trained.elapsed.steps < args.steps}, {"train_loss_first", losses.front()},
      {"train_loss_last", losses.back()}, {"best_step", best_step}, {"valid_loss", best_loss},
      {"valid_mae", giro::aggregate(validated.history).entry_value("mae")}, {"train_seconds", trained.elapsed.time()}};
  return sample::print_result(result);
}

void add_options(CLI::App& app, Arguments& args) {
  args.add_to(app);
  app.add_option("--data", args.data, "CSV files with the same header; without them, made-up house prices");
  app.add_option("--features", args.features, "columns to predict from, such as area,rooms")->delimiter(',');
  app.add_option("--target", args.target, "column to predict");
  app.add_option("--delimiter", args.delimiter, "field separator")->capture_default_str();
  sample::add_count(app, "--hidden", args.hidden, "width of the two hidden layers");
  app.add_option("--delta", args.delta, "the loss is squared below this error, in standard deviations of the target")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  sample::add_count(app, "--batch", args.batch, "rows per step, over all ranks");
  app.add_option("--learning-rate", args.learning_rate, "of adamw")->capture_default_str();
  sample::add_count(app, "--evaluate-every", args.evaluate_every, "steps between validations");
  sample::add_count(app, "--patience", args.patience, "validations in a row without improvement before it stops");
}

}  // namespace

int main(int argc, char** argv) {
  return sample::run("Learns to predict a column of a CSV file from other columns. Every fifth row is for validation.",
      "regression", add_options, train, argc, argv);
}
