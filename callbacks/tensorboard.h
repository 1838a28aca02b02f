#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <giro/callbacks/metric_writer.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/file_system.h>
#include <giro/runtime/state.h>

namespace giro {

class Archive;

struct TensorBoardOptions {
  // Written once a run, at its first step.
  MetricWriter::HParams hparams = {};
  MetricWriter::Texts texts = {};
  // Names of outputs that are arrays (Logs::add_output): each is written as images, or as a histogram, when it is
  // logged. Other arrays are left out.
  std::vector<std::string> images = {};
  std::vector<std::string> histograms = {};
  double flush_interval = 5;  // seconds after which the next record brings all to the file, as a loop's end does
  std::int64_t histogram_buckets = 30;
  std::shared_ptr<FileSystem> files = posix_file_system();
};

class TensorBoardHistograms;

// An observer that writes what each step logs that it is due at for TensorBoard: a number as the scalar
// "<collection>/<name>", such as "metrics/loss", at the step number elapsed.steps.
//
//   const auto board = giro::tensorboard("logdir/tensorboard", {.hparams = {{"learning_rate", 1e-3}}});
//   ...
//       {giro::every(1), board},
//       {giro::every(1'000), board.histograms()},
//
// A run that is resumed goes on in another file of the directory; the earlier ones lose what they hold of the steps
// that are run again. One that begins in the directory of another run leaves that one's files, and takes its place in
// TensorBoard where both have a tag: a directory for each is better. Copies write to the same file. Errors, when a loop
// begins or it is called: those of SummaryWriter.
class TensorBoard {
 public:
  static constexpr bool kPrimaryOnly = true;

  TensorBoard(std::string dir, TensorBoardOptions options);

  void on_claim();
  void on_start(const Elapsed& elapsed);
  void operator()(const Elapsed& elapsed, const Logs& logs);
  void persist(Archive& archive);
  // Also for loops written by hand: brings everything to the disk.
  void on_end();

  // A callback that writes histograms of all leaves of these collections, under their paths. As it sees the state, it
  // is a barrier: every(1'000) rather than every(1). Error(not_found) naming the nearest collection.
  TensorBoardHistograms histograms(std::vector<std::string> collections = {"params", "grads"}) const;
  // To write other things by hand, until another loop begins. Error(invalid_argument) before, and on other ranks than
  // 0.
  MetricWriter& writer() const;

 private:
  friend class TensorBoardHistograms;
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

// See TensorBoard::histograms.
class TensorBoardHistograms {
 public:
  static constexpr bool kPrimaryOnly = true;

  void operator()(const Elapsed& elapsed, const State& state);

 private:
  friend class TensorBoard;
  TensorBoardHistograms(std::shared_ptr<TensorBoard::Impl> board, std::vector<std::string> collections)
      : board_(std::move(board)), collections_(std::move(collections)) {}

  std::shared_ptr<TensorBoard::Impl> board_;
  std::vector<std::string> collections_;
};

TensorBoard tensorboard(const std::string& dir, const TensorBoardOptions& options = {});

}  // namespace giro
