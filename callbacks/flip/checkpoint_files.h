#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include <giro/callbacks/checkpoint.h>
#include <giro/callbacks/flip/checkpoint.h>

namespace giro::flip {

// Saves each checkpoint into a directory, durably before the call returns, and returns it. Checkpoints of later steps
// in the directory are then removed, for example after a training was resumed from its best one. In a pipeline of your
// own put it last: if the training is killed between it and a later stage, such as a LowestCheckpointFileWriter, the
// resumed training does not run that stage for this checkpoint. Errors: those of giro::Checkpoint.
class CheckpointFileWriter {
 public:
  static constexpr bool kRunsLast = true;  // in flip::serial, at any position

  // Keeps the newest `keep` checkpoints.
  explicit CheckpointFileWriter(const std::string& output_dir, std::int64_t keep = 1)
      : save_(giro::checkpoint(output_dir, {.keep = keep, .overwrite = true})) {}

  template <std::derived_from<Checkpoint> C>
  C operator()(C checkpoint) {
    (void)save_(checkpoint.elapsed, checkpoint.state());
    return checkpoint;
  }

 private:
  giro::Checkpoint save_;
};

namespace detail {

// "<dir>/lowest_<group>_<metric>", or highest.
std::string best_dir(const std::string& dir, bool highest, const std::string& group, const std::string& metric);

// Saves each summary whose metric is at least as good as all earlier ones.
template <bool kHighest>
class BestCheckpointFileWriter {
 public:
  BestCheckpointFileWriter(const std::string& output_dir, const std::string& metric, const std::string& group = "eval",
                           std::function<void(const std::string& line)> log = {});
  Summary operator()(Summary summary);

 private:
  std::string dir_, metric_, group_;
  std::function<void(const std::string& line)> log_;
  giro::Checkpoint save_;
  bool has_begun_ = false;
  std::optional<double> best_;
};

}  // namespace detail

// Saves each summary whose metric is the lowest so far, or equal to that, and returns every summary. It saves in
// "<output_dir>/lowest_<group>_<metric>", so other writers may use the same directory. It starts from the value of the
// latest checkpoint there, up to the current step, and passes it to `log` when the first summary arrives. NaN is never
// the lowest. Errors: those of giro::Checkpoint; not_found if a summary does not have the metric, naming the nearest.
using LowestCheckpointFileWriter = detail::BestCheckpointFileWriter<false>;
// The same for the highest, in "<output_dir>/highest_<group>_<metric>".
using HighestCheckpointFileWriter = detail::BestCheckpointFileWriter<true>;

// For TrainLoopOptions::init: resumes the training from the newest checkpoint of the directory, if there is one.
// Errors: those of giro::restore.
class CheckpointFileReader {
 public:
  explicit CheckpointFileReader(std::string dir) : dir_(std::move(dir)) {}
  Restored operator()(TrainState& state) const;

 private:
  std::string dir_;
};

namespace detail {

template <bool kHighest>
class BestCheckpointFileReader : public CheckpointFileReader {
 public:
  BestCheckpointFileReader(const std::string& dir, const std::string& metric, const std::string& group = "eval")
      : CheckpointFileReader(best_dir(dir, kHighest, group, metric)) {}
};

}  // namespace detail

// The same for the checkpoints of a LowestCheckpointFileWriter or a HighestCheckpointFileWriter.
using LowestCheckpointFileReader = detail::BestCheckpointFileReader<false>;
using HighestCheckpointFileReader = detail::BestCheckpointFileReader<true>;

}  // namespace giro::flip
