#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <giro/callbacks/metric_writer.h>

namespace giro::test {

// Records its calls, and throws if the only tag is "fail".
struct RecordingWriter : MetricWriter {
  void write_scalars(std::int64_t step, const Scalars& scalars) override {
    std::string call = fmt::format("scalars {}", step);
    for (const auto& [tag, value] : scalars) call += fmt::format(" {}={:g}", tag, value);
    note(call);
    if (scalars.size() == 1 && scalars.front().first == "fail") throw std::runtime_error("the disk is full");
  }
  void write_images(std::int64_t step, const Arrays&) override { note(fmt::format("images {}", step)); }
  void write_histograms(std::int64_t step, const Arrays&) override { note(fmt::format("histograms {}", step)); }
  void write_texts(std::int64_t step, const Texts&) override { note(fmt::format("texts {}", step)); }
  void write_hparams(const HParams&) override { note("hparams"); }
  void flush() override { note("flush"); }
  void close() override { note("close"); }

  void note(const std::string& call) { calls.push_back(call); }

  std::vector<std::string> calls;
};

}  // namespace giro::test
