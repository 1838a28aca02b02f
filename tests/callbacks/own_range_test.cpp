// A custom range of batches in each kind of loop: a resumed run continues at its place in the range.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <giro/callbacks/checkpoint.h>
#include <giro/callbacks/flip/checkpoint_files.h>
#include <giro/callbacks/flip/train_loop.h>
#include <giro/callbacks/jaxloop/actions.h>
#include <giro/callbacks/jaxloop/outer_loop.h>
#include <giro/callbacks/resume.h>
#include <giro/kernels/nn/elementwise.h>
#include <giro/kernels/nn/layers.h>
#include <giro/kernels/nn/reduce.h>
#include <giro/kernels/optim/optimizer.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/loop.h>
#include <giro/loop/step/step.h>
#include <giro/runtime/error.h>
#include <giro/runtime/files/archive.h>
#include <giro/runtime/rng.h>

#include "tests/support/expect_error.h"
#include "tests/support/saved_bytes.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/training.h"

namespace giro {
namespace {

constexpr std::int64_t kBatchesOfPoints = 12;

// Batch k is a pure function of (seed, k).
class Points {
 public:
  explicit Points(std::uint64_t seed, std::vector<std::int64_t>* made = nullptr) : seed_(seed), made_(made) {}

  class Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    Iterator(const Points& points, std::int64_t batch) : points_(&points), batch_(batch) {}
    Batch operator*() const { return points_->make(batch_); }
    Iterator& operator++() {
      ++batch_;
      return *this;
    }
    void operator++(int) { ++batch_; }
    friend bool operator==(const Iterator& it, std::default_sentinel_t) { return it.batch_ == kBatchesOfPoints; }

   private:
    const Points* points_;
    std::int64_t batch_;
  };
  Iterator begin() const { return {*this, 0}; }
  Iterator begin_at(std::int64_t batch) const { return {*this, batch}; }
  std::default_sentinel_t end() const { return {}; }
  void persist(Archive& archive) const {
    std::uint64_t seed = seed_;
    archive("seed", seed);
    if (seed != seed_) throw Error(ErrorCode::invalid_argument, "the points of another seed");
  }

 private:
  Batch make(std::int64_t batch) const {
    if (made_ != nullptr) made_->push_back(batch);
    const auto x = std::make_shared<std::vector<float>>();
    for (std::uint64_t i = 0; i < 4; ++i) {
      x->push_back(Rng{seed_, RngPurpose::application, static_cast<std::uint64_t>(batch)}.uniform(i));
    }
    return Batch({{"x", Tensor(x->data(), DType::f32, {4, 1}, Device::cpu())}}, x);
  }

  std::uint64_t seed_;
  std::vector<std::int64_t>* made_;
};

// The same points in a range that cannot begin at a given place.
struct PointsInOrder {
  Points points{1};
  Points::Iterator begin() const { return points.begin(); }
  std::default_sentinel_t end() const { return {}; }
};

nn::Var loss_of_points(const nn::Var& prediction, const Batch& batch) {
  return mean(square(prediction - 2.0 * batch["x"]));
}

class OwnRangeTest : public testing::Test {
 protected:
  using Bytes = std::map<std::string, std::vector<std::uint8_t>>;

  // Each trains on the range up to step `until`, from the newest checkpoint in `dir` on.
  template <class R>
  static Bytes in_loop(const R& range, const std::string& dir, std::int64_t until = kBatchesOfPoints) {
    const nn::Layer model = nn::dense(1);
    auto state = TrainState::create(model, optim::adam(0.1), {.inputs = (*range.begin()).spec()});
    const auto step = jit(test::training([&](const nn::Params& params, const Batch& batch) {
      return loss_of_points(model(params, batch["x"]), batch);
    }));
    const auto trained = loop(std::move(state), range, {{every(1), step}, {every(1) | last(), backup_and_restore(dir)}},
                              {.stop = at(until)});
    return test::saved_bytes(trained.state);
  }
  template <class R>
  static Bytes in_jaxloop(const R& range, const std::string& dir, std::int64_t until = kBatchesOfPoints) {
    struct Fit : jaxloop::Step {
      using Step::Step;
      Logs run(TrainState& state, const Batch& batch) override {
        const auto loss =
            state.value_and_grad([&](auto& params) { return loss_of_points(model()(params, batch["x"]), batch); });
        state.apply_gradients();
        return logs().add_metric("loss", loss);
      }
    } step(nn::dense(1), {.train = true, .optimizer = optim::adam(0.1), .device = Device::cpu()});
    jaxloop::TrainLoop train_loop(step, {.end_actions = {jaxloop::checkpoint_action(dir)}});
    jaxloop::OuterLoop outer_loop({.train_loop = &train_loop, .checkpoint_spec = jaxloop::CheckpointSpec{dir}});
    const auto trained = outer_loop(step.initialize_model({{"x", {4, 1}}}),
                                    {.train_dataset = range, .train_total_steps = until, .train_loop_steps = 2});
    return test::saved_bytes(trained.state);
  }
  template <class R>
  static Bytes in_flip(const R& range, const std::string& dir, std::int64_t until = kBatchesOfPoints) {
    flip::TrainLoop train_loop(
        {.task = {.model = nn::dense(1), .optimizer = optim::adam(0.1), .loss = loss_of_points, .data = range},
         .n_steps_per_checkpoint = 1,
         .n_steps = until,
         .init = flip::CheckpointFileReader(dir),
         .device = Device::cpu()});
    flip::CheckpointFileWriter write(dir);
    Bytes bytes;
    for (const flip::Checkpoint& checkpoint : train_loop) {
      (void)write(checkpoint);
      bytes = test::saved_bytes(checkpoint.state());
    }
    return bytes;
  }

  test::TemporaryDirectory dir_;
};

TEST_F(OwnRangeTest, ContinuesAtItsPosition) {
  const auto expect_same_bits = [&](const char* kind, const auto& train) {
    const Bytes whole = train(Points(1), dir_ / (std::string(kind) + "whole"), kBatchesOfPoints);
    const std::string parts = dir_ / (std::string(kind) + "parts");
    (void)train(Points(1), parts, 5);
    std::vector<std::int64_t> made;
    EXPECT_EQ(train(Points(1, &made), parts, kBatchesOfPoints), whole) << kind;
    for (const std::int64_t batch : made) EXPECT_TRUE(batch == 0 || batch >= 5) << kind << " made " << batch;
    EXPECT_EQ(made.back(), kBatchesOfPoints - 1) << kind;

    const std::string in_order = dir_ / (std::string(kind) + "in_order");
    (void)train(PointsInOrder(), in_order, 7);
    EXPECT_EQ(train(PointsInOrder(), in_order, kBatchesOfPoints), whole) << kind << ", skipped batch by batch";
  };
  expect_same_bits("loop", [](auto range, const std::string& dir, auto until) { return in_loop(range, dir, until); });
  expect_same_bits("jaxloop",
                   [](auto range, const std::string& dir, auto until) { return in_jaxloop(range, dir, until); });
  expect_same_bits("flip", [](auto range, const std::string& dir, auto until) { return in_flip(range, dir, until); });
}

TEST_F(OwnRangeTest, EndsAtItsOwnEnd) {
  EXPECT_EQ(in_jaxloop(Points(1), dir_ / "jaxloop", 100), in_jaxloop(Points(1), dir_ / "same"));
  EXPECT_EQ(in_flip(Points(1), dir_ / "flip", 100), in_flip(Points(1), dir_ / "other"));
}

TEST_F(OwnRangeTest, MayRejectAnotherRun) {
  (void)in_loop(Points(1), dir_ / "run", 5);
  test::expect_invalid({"points of another seed"}, [&] { (void)in_loop(Points(2), dir_ / "run"); });
}

}  // namespace
}  // namespace giro
