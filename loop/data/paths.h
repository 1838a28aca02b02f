#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace giro::data {

// One file or several, in order: "a.npy", {"a.npy", "b.npy"}, or a vector of paths.
class Paths {
 public:
  Paths(const char* path) : all_{path} {}
  Paths(std::string path) : all_{std::move(path)} {}
  Paths(std::initializer_list<std::string> paths) : all_(paths) {}
  Paths(std::vector<std::string> paths) : all_(std::move(paths)) {}

  bool empty() const noexcept { return all_.empty(); }
  std::size_t size() const noexcept { return all_.size(); }
  const std::string& front() const { return all_.front(); }
  auto begin() const noexcept { return all_.begin(); }
  auto end() const noexcept { return all_.end(); }

 private:
  std::vector<std::string> all_;
};

}  // namespace giro::data
