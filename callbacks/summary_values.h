#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <giro/callbacks/metric_writer.h>

#include "callbacks/protobuf.h"

namespace giro::detail {

// These add a value to a tensorflow.Summary as TensorBoard's plugins read it. `tag` is UTF-8.
void add_scalar(ProtoMessage& summary, std::string_view tag, double value);
// Rows of a left edge, a right edge and a count.
void add_histogram(ProtoMessage& summary, std::string_view tag, const std::vector<double>& rows);
// `files` are PNGs of one size.
void add_images(ProtoMessage& summary, std::string_view tag, std::int64_t width, std::int64_t height,
                const std::vector<std::string>& files);
void add_text(ProtoMessage& summary, std::string_view tag, std::string_view markdown);
// A run's hyperparameters, a row in TensorBoard's table of runs, and when the run began, in seconds since the Unix
// epoch.
void add_hparams(ProtoMessage& summary, const MetricWriter::HParams& hparams, double date);

}  // namespace giro::detail
