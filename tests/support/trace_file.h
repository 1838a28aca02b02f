#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace giro::test {

// The content of a trace file, in the file's order.
struct TraceFile {
  struct Span {
    std::string track, category, name;
    std::int64_t begin, end;  // nanoseconds from the trace's start
    std::map<std::string, std::int64_t> args;
  };

  explicit TraceFile(const std::string& path) {
    std::ifstream file(path);
    const auto json = nlohmann::json::parse(file);
    other = json.at("otherData");
    std::map<std::int64_t, std::string> tracks;
    const auto nanoseconds = [](const auto& value) { return std::llround(1e3 * value.template get<double>()); };
    for (const auto& event : json.at("traceEvents")) {
      if (event.at("ph") == "M") {
        if (event.at("name") == "thread_name") tracks[event.at("tid")] = event.at("args").at("name");
        continue;
      }
      EXPECT_EQ(event.at("ph"), "X");
      Span span{tracks.at(event.at("tid")), event.at("cat"), event.at("name"), nanoseconds(event.at("ts")), 0, {}};
      span.end = span.begin + nanoseconds(event.at("dur"));
      if (event.contains("args")) span.args = event.at("args");
      spans.push_back(span);
    }
  }

  std::vector<Span> named(const std::string& name) const {
    std::vector<Span> found;
    for (const Span& span : spans) {
      if (span.name == name) found.push_back(span);
    }
    return found;
  }

  nlohmann::json other;
  std::vector<Span> spans;
};

inline bool lies_within(const TraceFile::Span& inner, const TraceFile::Span& outer) {
  return inner.track == outer.track && outer.begin <= inner.begin && inner.end <= outer.end;
}

}  // namespace giro::test
