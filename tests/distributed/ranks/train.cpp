// A training run on several ranks that tests start from outside, and the faults that it can have.

#include <giro/giro.h>

#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include "tests/distributed/ranks/ranks.h"
#include "tests/distributed/ranks/small_model.h"
#include "tests/support/faulty_file_system.h"

namespace giro::test {
namespace {

class Options {
 public:
  explicit Options(const std::vector<std::string>& arguments) {
    for (const std::string& argument : arguments) {
      const std::size_t equals = argument.find('=');
      const auto known = values_.find(argument.substr(0, equals));
      if (equals == std::string::npos || known == values_.end()) {
        throw Error(ErrorCode::invalid_argument, "train: unknown option " + argument);
      }
      known->second = argument.substr(equals + 1);
    }
  }
  const std::string& text(const std::string& name) const { return values_.at(name); }
  std::int64_t number(const std::string& name) const { return std::stoll(text(name)); }

 private:
  std::map<std::string, std::string> values_{
      {"steps", "40"},
      {"batch", "24"},
      {"seed", "3"},
      {"timeout", "60000"},   // the world's timeout in milliseconds
      {"save", "10"},         // steps between saves
      {"pace", "0"},          // delay of each step in milliseconds
      {"keep", "1"},          // number of checkpoints
      {"async", "no"},        // whether to write them asynchronously
      {"best", "no"},         // whether to save the best as well
      {"partition", "data"},  // or "zero"
      {"model", "small"},     // or one with larger products: mlp, cnn, block
      {"nan", "stop"},        // terminate_on_nan, "restore" (restore_on_divergence) or "ignore"
      {"caught", "no"},       // whether a LoopError is caught within the world's scope; the exit code is then 3
      // The failing rank:
      {"rank", "1"},
      {"fault", ""},   // kill, segv, abort, exit, throw, stop, hang, skip, slow, nan, data
      {"at", "step"},  // init, start, step, save, finish, end
      {"step", "7"},
      {"call", "1"},         // number of the file system call of a save; the fault comes before it
      {"other_steps", "0"},  // added to that rank's options
      {"other_batch", "0"},
      {"other_seed", "0"},
      {"other_dir", ""},
      {"other_cwd", ""},  // all ranks use the same relative path
  };
};

// The fault of one rank, at a certain point of the run.
class Fault {
 public:
  Fault(const Options& options, int rank)
      : kind_(options.text("fault")),
        at_(options.text("at")),
        step_(options.number("step")),
        call_(options.number("call")),
        timeout_(options.number("timeout")),
        is_here_(rank == options.number("rank")) {}

  bool is_planned() const { return !kind_.empty() && kind_ != "nan" && kind_ != "data"; }

  void come_to(const std::string& place) {
    if (place != at_ || !is_here_ || !is_planned() || std::exchange(has_come_, true)) return;
    std::printf("astray\n");
    if (kind_ == "kill") std::raise(SIGKILL);
    if (kind_ == "segv") std::raise(SIGSEGV);
    if (kind_ == "abort") std::abort();
    if (kind_ == "exit") _exit(0);
    if (kind_ == "throw") throw std::runtime_error("has had enough");
    if (kind_ == "stop") std::raise(SIGSTOP);
    while (kind_ == "hang") std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  // Called in each step, before the train step.
  template <class Step>
  void come_to_step(LoopState<TrainState, Batch>& loop, Step&& extra) {
    const std::int64_t step = loop.elapsed.steps;
    if (at_ == "save") {
      is_saving_ = step == step_;
      // Rank 0 is saving meanwhile.
      if (loop.partitioner() != nullptr && !loop.is_primary() && step == step_ + 1) come_to("save");
    }
    if (is_here_ && kind_ == "slow" && step % step_ == 0) std::this_thread::sleep_for(timeout_ * 6 / 10);
    if (step != step_) return;
    come_to("step");
    if (is_here_ && kind_ == "skip") extra();
  }
  // Called before each file system call that changes something.
  void come_to_call() {
    if (!is_saving_) return;
    if (is_here_ && ++calls_ == call_) come_to("save");
    if (!is_here_ && !std::exchange(has_slept_, true)) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }

 private:
  const std::string kind_, at_;
  const std::int64_t step_, call_;
  const std::chrono::milliseconds timeout_;
  const bool is_here_;
  bool has_come_ = false, is_saving_ = false, has_slept_ = false;
  std::int64_t calls_ = 0;
};

class FilesWithFault final : public FaultyFileSystem {
 public:
  explicit FilesWithFault(Fault& fault) : fault_(fault) {}
  std::unique_ptr<Writer> create(const std::string& path) override {
    fault_.come_to_call();
    return FaultyFileSystem::create(path);
  }
  void rename(const std::string& from, const std::string& to) override {
    fault_.come_to_call();
    FaultyFileSystem::rename(from, to);
  }
  void sync_directory(const std::string& path) override {
    fault_.come_to_call();
    FaultyFileSystem::sync_directory(path);
  }

 private:
  Fault& fault_;
};

std::size_t hash_of(const TrainState& state) {
  const auto params = to_host<float>(state.collection("params").flat(), state.stream());
  return std::hash<std::string_view>()(
      {reinterpret_cast<const char*>(params.data()), params.size() * sizeof(params[0])});
}

void write_losses(const History& history, const std::string& path) {
  std::string lines;
  const auto columns = history.collect("steps", "loss");
  for (std::size_t i = 0; i < columns[0].size(); ++i) lines += fmt::format("{} {}\n", columns[0][i], columns[1][i]);
  replace_file(*posix_file_system(), path, lines);
}

nn::Layer model_of(const std::string& name) {
  const auto shaped = [](std::int64_t rows, std::int64_t columns, std::int64_t channels) {
    return nn::lambda([=](const nn::Var& x) {
      const std::int64_t samples = x.shape()[0];
      return x.reshape(channels > 0 ? Shape{samples, rows, columns, channels} : Shape{samples, rows, columns});
    });
  };
  const nn::DenseOptions relu{.activation = Activation::relu};
  const nn::Layer classes = nn::dense(kClasses);
  if (name == "small") return model();
  if (name == "mlp") return nn::sequential(nn::dense(784, relu), nn::dense(784, relu), classes);
  if (name == "cnn") {
    return nn::sequential(nn::dense(12 * 12, relu), shaped(12, 12, 1), nn::conv(24, {3, 3}), nn::relu(),
                          nn::avg_pool({2, 2}), nn::flatten(), nn::dense(128, relu), classes);
  }
  if (name == "block") {
    return nn::sequential(nn::dense(8 * 128), shaped(8, 128, 0), nn::transformer_block({.attention = {.heads = 4}}),
                          nn::flatten(), classes);
  }
  throw Error(ErrorCode::invalid_argument, "train: unknown model " + name);
}

int train(World& world, std::string dir, const Options& options) {
  const bool is_other = world.rank() == options.number("rank");
  const auto number = [&](const std::string& name) {
    return options.number(name) + (is_other ? options.number("other_" + name) : 0);
  };
  if (is_other && !options.text("other_dir").empty()) dir = options.text("other_dir");
  if (is_other && !options.text("other_cwd").empty()) dir = options.text("other_cwd");
  std::filesystem::create_directories(dir);
  if (!options.text("other_cwd").empty()) {
    std::filesystem::current_path(dir);
    dir = ".";
  }
  const Device device = test_device(world);
  const auto partitioner =
      options.text("partition") == "zero" ? zero_data_parallel(world, device) : data_parallel(world, device);
  const std::int64_t batch = number("batch");
  const auto prepare = [&](Dataset rows) {
    return rows.shuffle(static_cast<std::uint64_t>(number("seed"))).repeat().batch(batch);
  };
  Dataset data = prepare(random_rows());
  if (options.text("fault") == "nan") {
    const auto place = static_cast<std::size_t>(options.number("rank") * batch / world.size());
    data = prepare(random_rows(data.indices(options.number("step"))[place]));
  }
  if (options.text("fault") == "data" && (is_other || options.number("rank") == -1)) {  // -1: all ranks
    data = data.map([batch = std::make_shared<std::int64_t>(-1), last = options.number("step")](const Batch& made) {
      if (++*batch <= last) return made;  // the first only gives the spec
      std::printf("astray\n");
      throw std::runtime_error("there is no such batch");
    });
  }
  data = data.partition(partitioner).prefetch(2);
  auto state = TrainState::create(model_of(options.text("model")), optim::adamw(1e-2),
                                  {.inputs = data.spec(), .seed = 3, .context = device, .partitioner = partitioner});

  Fault fault(options, world.rank());
  const auto train_step = make_step();
  std::vector<Task<TrainState, Batch>> tasks;
  if (fault.is_planned()) {
    tasks.push_back({every(1), [&fault, step = train_step](LoopState<TrainState, Batch>& loop) mutable {
                       fault.come_to_step(loop, [&] { step(loop.state, loop.batch()); });
                     }});
  }
  if (const std::int64_t pace = options.number("pace"); pace > 0) {
    tasks.push_back(
        {every(1), [pace](const Elapsed&) { std::this_thread::sleep_for(std::chrono::milliseconds(pace)); }});
  }
  const auto files = std::make_shared<FilesWithFault>(fault);
  tasks.push_back({every(1), train_step});
  if (options.text("nan") == "stop") tasks.push_back({every(5) | last(), terminate_on_nan("loss")});
  const RestoreOnDivergence back = restore_on_divergence(dir + "/model", {.max_restores = 9});
  if (options.text("nan") == "restore") tasks.push_back({every(1), back});
  tasks.push_back({every(7), early_stopping("loss", {.patience = std::int64_t{1'000'000'000}, .restore_best = true})});
  tasks.push_back({every_end(options.number("save")) | last(),
                   backup_and_restore(dir + "/model", {.keep = options.number("keep"),
                                                       .asynchronous = options.text("async") == "yes",
                                                       .files = files})});
  if (options.text("best") == "yes") {
    tasks.push_back(
        {every(3),
         checkpoint(dir + "/best",
                    {.keep = 2, .monitor = "loss", .asynchronous = options.text("async") == "yes", .files = files})});
  }
  tasks.push_back({every(1), csv_logger(dir + "/log.csv")});
  tasks.push_back({every(1), keras_bar({.total = number("steps")})});
  const auto begins = [&](const Elapsed& elapsed) {
    std::printf("rank %d, process %d, begins at step %lld\n", world.rank(), getpid(),
                static_cast<long long>(elapsed.steps));
    fault.come_to("start");
  };
  const auto ends = [&](const Elapsed&) { fault.come_to("finish"); };
  auto trained =
      loop(std::move(state), data, tasks, {.stop = at(number("steps")), .on_start = {begins}, .on_end = {ends}});
  std::printf("rank %d ended after %lld steps, signal %d, params %016zx\n", world.rank(),
              static_cast<long long>(trained.elapsed.steps), trained.interrupted, hash_of(trained.state));
  if (back.restores() > 0) std::printf("rank %d: %s\n", world.rank(), back.report().c_str());
  if (world.is_primary()) write_losses(trained.history, dir + "/losses");
  fault.come_to("end");
  return trained.interrupted == 0 ? 0 : 128 + trained.interrupted;
}

int print_newest(const std::string& dir) {
  const LoadedCheckpoint newest = load_checkpoint(dir + "/model");
  std::printf("step %lld, %zu damaged\n", static_cast<long long>(newest.record.steps), newest.skipped.size());
  return 0;
}

}  // namespace

int train(const std::vector<std::string>& arguments) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (arguments.size() == 2 && arguments[1] == "newest") return print_newest(arguments[0]);
  const Options options({arguments.begin() + 1, arguments.end()});
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");  // known before MPI starts
  Fault(options, rank == nullptr ? 0 : std::stoi(rank)).come_to("init");
  World world({.timeout = 1e-3 * static_cast<double>(options.number("timeout"))});
  if (options.text("caught") == "no") return train(world, arguments[0], options);
  try {
    return train(world, arguments[0], options);
  } catch (const LoopError& error) {
    std::fprintf(stderr, "caught: %s\n", error.what());
    return 3;
  }
}

}  // namespace giro::test
