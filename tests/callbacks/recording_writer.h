#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include <giro/callbacks/metric_writer.h>

namespace giro::test {

// Records its calls, and throws if the only tag is "fail".
struct RecordingWriter : MetricWriter {
  void write(const MetricRecord& record) override {
    constexpr const char* kKinds[] = {"scalars", "images", "histograms", "texts", "hparams"};
    std::string call = kKinds[record.values.index()];
    if (call != "hparams") call += fmt::format(" {}", record.elapsed.steps);
    const auto* scalars = std::get_if<MetricRecord::Scalars>(&record.values);
    if (scalars == nullptr) return note(call);
    for (const auto& [tag, value] : *scalars) call += fmt::format(" {}={:g}", tag.path(), value);
    note(call);
    if (scalars->size() == 1 && scalars->front().first.path() == "fail") throw std::runtime_error("the disk is full");
  }
  void flush() override { note("flush"); }
  void close() override { note("close"); }

  void note(const std::string& call) { calls.push_back(call); }

  std::vector<std::string> calls;
};

}  // namespace giro::test
