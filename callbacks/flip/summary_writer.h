#pragma once

#include <memory>
#include <string>

#include <giro/callbacks/flip/checkpoint.h>
#include <giro/callbacks/summary_writer.h>

namespace giro::flip {

// Writes the metrics of each summary as scalars "group/label", which TensorBoard shows, and gives the summary back. A
// training that goes on from a checkpoint goes on in the same directory. Of several ranks rank 0 writes. Errors: those
// of giro::SummaryWriter.
class SummaryWriter {
 public:
  // Touches nothing yet.
  explicit SummaryWriter(std::string output_dir, SummaryWriterOptions options = {.resume = true});

  Summary operator()(Summary summary);
  void flush();

 private:
  std::string dir_;
  SummaryWriterOptions options_;
  std::unique_ptr<giro::SummaryWriter> writer_;
};

}  // namespace giro::flip
