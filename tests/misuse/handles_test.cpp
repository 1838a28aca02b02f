// What was moved from: a handle goes on as before, anything else says so.

#include <gtest/gtest.h>

#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include <giro/callbacks/checkpoint.h>
#include <giro/callbacks/early_stopping.h>
#include <giro/callbacks/jsonl_logger.h>
#include <giro/callbacks/profile.h>
#include <giro/callbacks/reduce_on_plateau.h>
#include <giro/callbacks/report_progress.h>
#include <giro/callbacks/summary_writer.h>
#include <giro/callbacks/tensorboard.h>
#include <giro/callbacks/tqdm_bar.h>
#include <giro/distributed/communicator.h>
#include <giro/flip.h>
#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/layers.h>
#include <giro/kernels/nn/reduce.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/data/any_dataset.h>
#include <giro/loop/data/dataset.h>
#include <giro/loop/loop.h>
#include <giro/loop/step/step.h>
#include <giro/runtime/files/archive.h>
#include <giro/runtime/files/checkpoint_store.h>
#include <giro/runtime/files/save_load.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/snapshot.h>

#include "tests/misuse/misuse.h"
#include "tests/support/temporary_directory.h"

namespace giro {
namespace {

using test::array;
using test::batch;
using test::Misuse;
using test::rows;
using test::state_of;

auto mean_step() {
  return jit([](const TrainState&, const Batch& batch) { return logs().add_metric("mean", mean(batch["x"])); });
}

TEST(Misuse, OfHandlesThatWereMovedFrom) {
  const test::TemporaryDirectory dir;
  const auto go_on = [](const char* name, auto make, auto use) {
    return Misuse{name, {}, [=] {
                    auto value = make();
                    const auto taken = std::move(value);
                    use(value);
                  }};
  };
  test::expect_errors({
      go_on(
          "Layer", [] { return nn::dense(2); }, [](nn::Layer& layer) { (void)state_of(layer); }),
      go_on(
          "SharedLayer", [] { return nn::dense(2); }, [](nn::Layer& layer) { (void)state_of(shared(layer)); }),
      go_on(
          "Params", [] { return state_of(nn::dense(2)).params(); },
          [](nn::Params& p) { EXPECT_EQ(p.all().size(), 2u); }),
      go_on("Step", mean_step, [](auto& moved) { (void)moved(state_of(nn::dense(2)), batch()); }),
      go_on("StepForItsRecordings", mean_step, [](auto& moved) { EXPECT_EQ(moved.num_recordings(), 0u); }),
      go_on("Dataset", rows, [](Dataset& dataset) { EXPECT_EQ(dataset.num_batches(), Dataset::kForever); }),
      go_on("DatasetInALoop", rows,
            [](Dataset& dataset) {
              (void)loop(state_of(nn::dense(2)), dataset, {{every(1), mean_step()}}, {.stop = 2});
            }),
      go_on("HostArray", array, [](HostArray& a) { EXPECT_EQ(a.tensor().count(), 6); }),
      go_on(
          "Stream", [] { return Stream(Device::cpu()); }, [](Stream& stream) { stream.synchronize(); }),
      go_on(
          "DeviceContext", [] { return DeviceContext(Device::cpu()); },
          [](DeviceContext& context) { context.stream().synchronize(); }),
      go_on(
          "Communicator", [] { return Communicator(Device::cpu()); },
          [](Communicator& ranks) { EXPECT_EQ(ranks.size(), 1); }),
      go_on(
          "Checkpoint", [&] { return checkpoint(dir.path()); },
          [](Checkpoint& saves) { EXPECT_EQ(saves.report(), ""); }),
      go_on(
          "EarlyStopping", [] { return early_stopping("loss", {.mode = "min"}); },
          [](EarlyStopping& stopping) { EXPECT_FALSE(stopping.stopped()); }),
      go_on(
          "ReduceOnPlateau", [] { return reduce_on_plateau("loss", {.mode = "min"}); },
          [](auto& plateau) { EXPECT_EQ(plateau.reductions(), 0); }),
      go_on(
          "ReportProgress", [] { return ReportProgress({}); },
          [](ReportProgress& report) { (void)report.timed("train"); }),
      go_on(
          "Profile", [] { return Profile({}); }, [](Profile& profile) { EXPECT_FALSE(profile.is_running()); }),
  });
}

TEST(Misuse, OfValuesThatWereMovedFrom) {
  const test::TemporaryDirectory dir;
  const auto fails = [](const char* name, auto make, auto use) {
    return Misuse{name, {"moved from"}, [=] {
                    auto value = make();
                    [[maybe_unused]] const auto taken = std::move(value);
                    use(value);
                  }};
  };
  const auto state = [] { return state_of(nn::dense(2)); };
  const auto var = [] { return nn::constant(array(), Stream(Device::cpu())); };
  test::expect_errors({
      fails("StateOfAStep", state, [](TrainState& s) { (void)mean_step()(s, batch()); }),
      fails("StateOfValueAndGrad", state,
            [](TrainState& s) { s.value_and_grad([](const nn::Params&) { return nn::Var(); }); }),
      fails("StateOfALoop", state,
            [](TrainState& s) {
              (void)loop(std::move(s), rows(), {{every(1), mean_step()}});
            }),
      fails("StateToClone", state, [](TrainState& s) { (void)s.clone(); }),
      fails("StateToSave", state, [&](TrainState& s) { giro::save(dir / "state.safetensors", s); }),
      fails("Var", var, [](nn::Var& x) { (void)(x + 1); }),
      fails("VarToLog", var, [](nn::Var& x) { (void)logs().add_metric("x", x); }),
      fails("VarForItsShape", var, [](nn::Var& x) { (void)x.shape(); }),
      fails("VarToConcatenate", var,
            [](nn::Var& x) {
              (void)nn::concatenate({x, x});
            }),
      fails(
          "Snapshot", [&] { return Snapshot(state()); }, [](Snapshot& s) { (void)s.leaves(); }),
      fails(
          "Graph",
          [] {
            const Stream stream(Device::cpu());
            return Graph::record(stream, [] {});
          },
          [](Graph& graph) { graph.replay(Stream(Device::cpu())); }),
      fails(
          "CheckpointStore", [&] { return CheckpointStore(dir.path()); }, [](CheckpointStore& s) { (void)s.all(); }),
      fails(
          "Schedule", [] { return every(2); }, [](Schedule& schedule) { (void)schedule(Elapsed{}); }),
      fails(
          "ScheduleInALoop", [] { return every(2); },
          [](Schedule& schedule) {
            (void)loop(state_of(nn::dense(2)), rows(), {{schedule, mean_step()}});
          }),
      fails(
          "Callback", [] { return Callback<TrainState, Batch>(mean_step()); },
          [](auto& callback) {
            (void)loop(state_of(nn::dense(2)), rows(), {{every(1), callback}});
          }),
      fails(
          "IteratorOfADataset", [] { return rows().begin(); }, [](Dataset::Iterator& it) { (void)*it; }),
      fails(
          "IteratorOfAnyDataset", [] { return AnyDataset<Batch>(rows()).begin(); }, [](auto& it) { (void)*it; }),
      fails(
          "SummaryWriter", [&] { return SummaryWriter(dir.path()); }, [](SummaryWriter& writer) { writer.flush(); }),
      fails(
          "Event", [] { return Event(Stream(Device::cpu())); }, [](Event& event) { (void)event.query(); }),
      fails(
          "TrainLoop",
          [] {
            return flip::TrainLoop({.task = {.model = nn::dense(2),
                                             .optimizer = optim::sgd(0.1),
                                             .loss = [](const nn::Var& y, const Batch&) { return mean(y); },
                                             .data = rows()},
                                    .n_steps = 1,
                                    .device = Device::cpu()});
          },
          [](flip::TrainLoop& l) { (void)l.step(); }),
  });
}

}  // namespace
}  // namespace giro
