#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <giro/callbacks/metric_logger.h>
#include <giro/callbacks/metric_writer.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/files/file_system.h>
#include <giro/runtime/handle.h>
#include <giro/runtime/state.h>

namespace giro {

struct TensorBoardOptions {
  // Written once per run, at its first step.
  MetricWriter::HParams hparams = {};
  MetricWriter::Texts texts = {};
  // Names of outputs that are arrays (Logs::add_output): each is written as images, or as a histogram, when it is
  // logged. Other arrays are left out.
  std::vector<std::string> images = {};
  std::vector<std::string> histograms = {};
  double flush_interval = 5;  // seconds; the first record after this flushes, as the end of a loop does
  std::int64_t histogram_buckets = 30;
  std::shared_ptr<FileSystem> files = posix_file_system();
};

class TensorBoardHistograms;

// A MetricLogger for TensorBoard, with a directory instead of a file: a number becomes the scalar
// "<collection>/<name>", such as "metrics/loss", at step elapsed.steps.
//
//   const auto board = giro::tensorboard("logdir/tensorboard", {.hparams = {{"learning_rate", 1e-3}}});
//   ...
//       {giro::every(1), board},
//       {giro::every(1'000), board.histograms()},
//
// A resumed run continues in a new file of the directory, and the records of the steps that run again are removed from
// the earlier files. A new run in another run's directory leaves those files alone, but TensorBoard shows the new run
// for the tags that both have, so use one directory per run. Copies write to the same file. Errors when a loop begins
// or it is called: those of SummaryWriter.
class TensorBoard : public MetricLogger {
 public:
  using MetricLogger::persist;
  TensorBoard(std::string dir, TensorBoardOptions options);

  void operator()(const Elapsed& elapsed, const Logs& logs);

  // A callback that writes histograms of all leaves of these collections, tagged by their paths. It sees the state, so
  // it is a barrier: use every(1'000) rather than every(1). Error(not_found) naming the nearest collection.
  TensorBoardHistograms histograms(std::vector<std::string> collections = {"params", "grads"}) const;
  // To write other things by hand. Error(invalid_argument) before a loop has begun, and on ranks other than 0.
  MetricWriter& writer() const;

 private:
  friend class TensorBoardHistograms;
  struct Board;
  explicit TensorBoard(const std::shared_ptr<Board>& board);

  detail::Handle<Board> board_;
};

// See TensorBoard::histograms.
class TensorBoardHistograms {
 public:
  static constexpr bool kPrimaryOnly = true;

  void operator()(const Elapsed& elapsed, const State& state);

 private:
  friend class TensorBoard;
  TensorBoardHistograms(std::shared_ptr<TensorBoard::Board> board, std::vector<std::string> collections)
      : board_(std::move(board)), collections_(std::move(collections)) {}

  detail::Handle<TensorBoard::Board> board_;
  std::vector<std::string> collections_;
};

TensorBoard tensorboard(const std::string& dir, const TensorBoardOptions& options = {});

}  // namespace giro
