#include <giro/callbacks/tensorboard.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include <giro/callbacks/summary_writer.h>
#include <giro/loop/log/outputs.h>
#include <giro/runtime/error.h>
#include <giro/runtime/files/archive.h>

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

struct TensorBoard::Impl {
  void claim() {
    if (writer) return;
    writer.emplace(dir, SummaryWriterOptions{.flush_interval = options.flush_interval,
                                             .histogram_buckets = options.histogram_buckets,
                                             .files = options.files});
  }
  SummaryWriter& open(const Elapsed& elapsed) {
    claim();
    if (!has_begun || resumed) writer->purge(elapsed.steps, resumed);
    has_begun = true;
    resumed = false;
    if (!std::exchange(described, true)) {
      if (!options.hparams.empty()) writer->write_hparams(options.hparams);
      writer->write_texts(elapsed.steps, options.texts);
    }
    return *writer;
  }

  // The numbers of these logs by tag. Most records have the same entries in the same order, so the tags are kept from
  // one to the next.
  const MetricWriter::Scalars& scalars_of(const Logs& logs) {
    std::size_t count = 0;
    if (!(logs.schema() == schema)) scalars.clear();
    schema = logs.schema();
    for (std::size_t i = 0; i < logs.entries().size(); ++i) {
      const Logs::Entry entry = logs.entries()[i];
      if (is_array(entry)) continue;
      if (count == scalars.size() || entries[count] != i) {
        scalars.resize(count);
        entries.resize(count);
        scalars.emplace_back(fmt::format("{}/{}", entry.collection, entry.name), 0);
        entries.push_back(i);
      }
      scalars[count++].second = entry.value.value();
    }
    scalars.resize(count);
    return scalars;
  }

  std::string dir;
  TensorBoardOptions options;
  std::optional<SummaryWriter> writer;
  bool has_begun = false;
  bool described = false;  // whether hparams and texts were written
  bool resumed = false;    // whether the next loop continues a run that has written to the directory
  LogSchema schema;        // of the previous logs
  MetricWriter::Scalars scalars;
  std::vector<std::size_t> entries;  // the positions of the scalars in the logs
};

TensorBoard::TensorBoard(std::string dir, TensorBoardOptions options) : impl_(std::make_shared<Impl>()) {
  impl_->dir = std::move(dir);
  impl_->options = std::move(options);
}

void TensorBoard::on_claim() { impl_->claim(); }
void TensorBoard::on_start(const Elapsed& elapsed) { impl_->open(elapsed); }

void TensorBoard::operator()(const Elapsed& elapsed, const Logs& logs) {
  Impl& impl = *impl_;
  SummaryWriter& writer = impl.open(elapsed);
  writer.write_scalars(elapsed.steps, impl.scalars_of(logs));
  for (const Logs::Entry& entry : logs.entries()) {
    if (!is_array(entry)) continue;
    const auto array = [&] { return MetricWriter::Arrays{{"outputs/" + entry.name, on_host(entry.value)}}; };
    if (is_among(impl.options.images, entry.name)) writer.write_images(elapsed.steps, array());
    if (is_among(impl.options.histograms, entry.name)) writer.write_histograms(elapsed.steps, array());
  }
}

void TensorBoard::persist(Archive& archive) {
  archive("described", impl_->described);
  if (archive.is_reading()) {
    impl_->resumed = true;
  } else if (impl_->writer) {
    impl_->writer->sync();
  }
}

void TensorBoard::on_end() {
  if (impl_->writer) impl_->writer->sync();
}

TensorBoardHistograms TensorBoard::histograms(std::vector<std::string> collections) const {
  return TensorBoardHistograms(impl_, std::move(collections));
}

MetricWriter& TensorBoard::writer() const {
  if (!impl_->writer) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("tensorboard '{}': there is no writer before a loop begins, nor on ranks other than 0",
                            impl_->dir));
  }
  return *impl_->writer;
}

void TensorBoardHistograms::operator()(const Elapsed& elapsed, const State& state) {
  MetricWriter::Arrays arrays;
  for (const std::string& name : collections_) {
    for (const Leaf& leaf : state.collection(name).leaves()) {
      arrays.emplace_back(leaf.path, HostArray::copy_of(leaf.value, state.stream()));
    }
  }
  board_->open(elapsed).write_histograms(elapsed.steps, arrays);
}

TensorBoard tensorboard(const std::string& dir, const TensorBoardOptions& options) { return {dir, options}; }

}  // namespace giro
