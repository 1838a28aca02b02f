#pragma once

#include <memory>
#include <string>

#include <giro/callbacks/flip/checkpoint.h>
#include <giro/callbacks/summary_writer.h>

namespace giro::flip {

// Writes the metrics of each summary for TensorBoard as scalars "group/label", and returns the summary. A resumed
// training continues in the same directory. Only rank 0 writes. Errors: those of giro::SummaryWriter.
class SummaryWriter {
 public:
  // Creates nothing yet.
  explicit SummaryWriter(std::string output_dir, SummaryWriterOptions options = {.resume = true});

  Summary operator()(Summary summary);
  void flush();

 private:
  std::string dir_;
  SummaryWriterOptions options_;
  std::unique_ptr<giro::SummaryWriter> writer_;
};

}  // namespace giro::flip
