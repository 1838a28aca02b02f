#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <giro/runtime/device.h>

#include "runtime/backend.h"
#include "runtime/program/recording.h"

namespace giro::detail {

class GraphImpl {
 public:
  explicit GraphImpl(Device device) : device(device) {}
  virtual ~GraphImpl() = default;
  virtual void replay(StreamImpl& stream, std::int64_t times) = 0;
  virtual void prepare(std::int64_t times) = 0;
  virtual std::size_t num_nodes() const = 0;
  virtual std::size_t longest_path() const { return num_nodes(); }

  const Device device;
  GraphOwned owned;
};

}  // namespace giro::detail

namespace giro::cpu {
std::shared_ptr<detail::GraphImpl> create_sequence(const std::vector<std::shared_ptr<detail::GraphImpl>>& parts);
}
namespace giro::cuda {
std::shared_ptr<detail::GraphImpl> create_sequence(const std::vector<std::shared_ptr<detail::GraphImpl>>& parts);
}
