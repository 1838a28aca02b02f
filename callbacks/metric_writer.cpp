#include <giro/callbacks/metric_writer.h>

namespace giro {

HParam::HParam(bool flag) : value(flag) {}
HParam::HParam(double number) : value(number) {}
HParam::HParam(std::string text) : value(std::move(text)) {}

Tag Tag::of_entry(std::string_view collection, std::string_view name) {
  Tag tag(collection);
  tag.path_.append(1, '/').append(name);
  tag.name_begin_ = collection.size() + 1;
  return tag;
}

void MetricWriter::write_scalars(std::int64_t step, Scalars scalars) { write({{.steps = step}, std::move(scalars)}); }
void MetricWriter::write_images(std::int64_t step, Arrays images) {
  write({{.steps = step}, MetricRecord::Images{std::move(images)}});
}
void MetricWriter::write_histograms(std::int64_t step, Arrays arrays) {
  write({{.steps = step}, MetricRecord::Histograms{std::move(arrays)}});
}
void MetricWriter::write_texts(std::int64_t step, Texts texts) { write({{.steps = step}, std::move(texts)}); }
void MetricWriter::write_hparams(HParams hparams) { write({{}, std::move(hparams)}); }

}  // namespace giro
