#include <giro/callbacks/tensorboard.h>

#include <algorithm>
#include <optional>

#include <giro/callbacks/summary_writer.h>
#include <giro/loop/log/outputs.h>
#include <giro/runtime/files/archive.h>

#include "callbacks/run_writer.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

HostArray on_host(const LogValue& value) {
  if (const nn::Var* var = value.scalar()) return HostArray::copy_of(var->value(), var->stream());
  return *value.array();
}

}  // namespace

struct TensorBoard::Board final : detail::RunWriter {
  Board(std::string name, TensorBoardOptions given) : dir(std::move(name)), options(std::move(given)) {}

  std::shared_ptr<void> claim(std::shared_ptr<void>) override {
    if (writer) return nullptr;
    writer.emplace(dir, SummaryWriterOptions{.flush_interval = options.flush_interval,
                                             .histogram_buckets = options.histogram_buckets,
                                             .files = options.files});
    return nullptr;
  }
  void begin(const Elapsed& elapsed) override {
    claim(nullptr);
    if (!has_begun || resumed) writer->purge(elapsed.steps, resumed);
    has_begun = true;
    resumed = false;
    if (std::exchange(described, true)) return;
    if (!options.hparams.empty()) writer->write_hparams(options.hparams);
    writer->write_texts(elapsed.steps, options.texts);
  }
  void write(const MetricRecord& record) override {
    begin(record.elapsed);
    writer->write(record);
  }
  void flush() override {
    if (writer) writer->sync();
  }
  void persist(Archive& archive) override {
    archive("described", described);
    if (archive.is_reading()) {
      resumed = true;
    } else {
      flush();
    }
  }

  std::string dir;
  TensorBoardOptions options;
  std::optional<SummaryWriter> writer;
  bool has_begun = false;
  bool described = false;  // whether hparams and texts were written
  bool resumed = false;    // whether the next loop continues a run that has written to the directory
};

TensorBoard::TensorBoard(std::string dir, TensorBoardOptions options)
    : TensorBoard(std::make_shared<Board>(std::move(dir), std::move(options))) {}
TensorBoard::TensorBoard(const std::shared_ptr<Board>& board) : MetricLogger(board), board_(board) {}

void TensorBoard::operator()(const Elapsed& elapsed, const Logs& logs) {
  MetricLogger::operator()(elapsed, logs);
  if (board_->options.images.empty() && board_->options.histograms.empty()) return;
  for (const Logs::Entry& entry : logs.entries()) {
    if (!is_array(entry)) continue;
    const auto array = [&] {
      return MetricRecord::Arrays{{Tag::of_entry("outputs", entry.name), on_host(entry.value)}};
    };
    if (is_among(board_->options.images, entry.name)) board_->write_images(elapsed.steps, array());
    if (is_among(board_->options.histograms, entry.name)) board_->write_histograms(elapsed.steps, array());
  }
}

TensorBoardHistograms TensorBoard::histograms(std::vector<std::string> collections) const {
  return TensorBoardHistograms(board_, std::move(collections));
}

MetricWriter& TensorBoard::writer() const {
  if (!board_->writer) {
    throw_invalid("tensorboard '{}': there is no writer before a loop begins, nor on ranks other than 0", board_->dir);
  }
  return *board_->writer;
}

void TensorBoardHistograms::operator()(const Elapsed& elapsed, const State& state) {
  MetricWriter::Arrays arrays;
  for (const std::string& name : collections_) {
    for (const Leaf& leaf : state.collection(name).leaves()) {
      arrays.emplace_back(leaf.path, HostArray::copy_of(leaf.value, state.stream()));
    }
  }
  board_->write({elapsed, MetricRecord::Histograms{std::move(arrays)}});
}

TensorBoard tensorboard(const std::string& dir, const TensorBoardOptions& options) { return {dir, options}; }

}  // namespace giro
