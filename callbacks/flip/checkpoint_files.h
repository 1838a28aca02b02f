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

// Saves each checkpoint into a directory, durable when the call returns, and gives it back. Checkpoints of later steps
// that lie there, as where the training goes on from its best one, then go. In a pipeline of one's own it comes last:
// what would come after it, such as a LowestCheckpointFileWriter, is lost to a training that is killed between the two.
// Errors: those of giro::Checkpoint.
class CheckpointFileWriter {
 public:
  static constexpr bool kRunsLast = true;  // in flip::serial, wherever it stands

  // The newest `keep` stay.
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

// Saves a summary whose metric is as good as any before, or better.
class BestCheckpointFileWriter {
 public:
  Summary operator()(Summary summary);

 protected:
  BestCheckpointFileWriter(const std::string& output_dir, const std::string& metric, const std::string& group,
                           bool highest, std::function<void(const std::string& line)> log);

 private:
  std::string dir_, metric_, group_;
  bool highest_;
  std::function<void(const std::string& line)> log_;
  giro::Checkpoint save_;
  bool has_begun_ = false;
  std::optional<double> best_;
};

}  // namespace detail

// Saves the summaries whose metric is the lowest so far, equal ones included, and gives each back. It stays in
// "<output_dir>/lowest_<group>_<metric>", so other writers may use the same directory, and begins with the value of the
// one there, up to the step at hand. NaN is never the lowest. `log` is told that value when the first summary comes.
// Errors: those of giro::Checkpoint; not_found where a summary has no such metric, naming the nearest.
class LowestCheckpointFileWriter : public detail::BestCheckpointFileWriter {
 public:
  LowestCheckpointFileWriter(const std::string& output_dir, const std::string& metric,
                             const std::string& group = "eval", std::function<void(const std::string& line)> log = {})
      : BestCheckpointFileWriter(output_dir, metric, group, false, std::move(log)) {}
};

// The highest, in "<output_dir>/highest_<group>_<metric>".
class HighestCheckpointFileWriter : public detail::BestCheckpointFileWriter {
 public:
  HighestCheckpointFileWriter(const std::string& output_dir, const std::string& metric,
                              const std::string& group = "eval", std::function<void(const std::string& line)> log = {})
      : BestCheckpointFileWriter(output_dir, metric, group, true, std::move(log)) {}
};

// For TrainLoopOptions::init: the training goes on from the newest checkpoint of the directory, if there is one.
// Errors: those of giro::restore.
class CheckpointFileReader {
 public:
  explicit CheckpointFileReader(std::string dir) : dir_(std::move(dir)) {}
  Restored operator()(TrainState& state) const;

 private:
  std::string dir_;
};

// The same of what a LowestCheckpointFileWriter, or a HighestCheckpointFileWriter, has saved.
class LowestCheckpointFileReader : public CheckpointFileReader {
 public:
  LowestCheckpointFileReader(const std::string& dir, const std::string& metric, const std::string& group = "eval");
};
class HighestCheckpointFileReader : public CheckpointFileReader {
 public:
  HighestCheckpointFileReader(const std::string& dir, const std::string& metric, const std::string& group = "eval");
};

}  // namespace giro::flip
