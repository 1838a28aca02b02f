#include <giro/runtime/leaf_files.h>

#include <fmt/format.h>

#include <algorithm>

#include <giro/runtime/error.h>
#include <giro/runtime/host_array.h>
#include <giro/runtime/snapshot.h>

#include "runtime/internal/structure.h"
#include "runtime/program/recording.h"

namespace giro {
namespace {

void write(const std::string& path, const std::vector<Leaf>& leaves, FileSystem& files,
           const std::map<std::string, std::string>& metadata = {}) {
  for (const Leaf& leaf : leaves) {
    if (!leaf.piece) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("save '{}': of the leaf '{}' this process holds {} elements of {}; a checkpoint saves what "
                            "several processes hold",
                            path, leaf.path, leaf.value.count(), to_string(leaf.piece->whole)));
  }
  replace_file(files, path, [&](FileSystem::Writer& file) { write_safetensors(file, leaves, metadata); });
}

}  // namespace

void save(const std::string& path, const std::vector<Leaf>& leaves, FileSystem& files,
          const std::map<std::string, std::string>& metadata) {
  detail::Recording::expect_none("save");
  std::vector<Leaf> on_host;
  std::vector<HostArray> copies;
  std::vector<Stream> streams;  // one for each device
  on_host.reserve(leaves.size());
  for (const Leaf& leaf : leaves) {
    on_host.push_back(leaf);
    const Device device = leaf.value.device();
    if (device.is_cpu()) continue;
    auto stream = std::find_if(streams.begin(), streams.end(), [&](const Stream& s) { return s.device() == device; });
    if (stream == streams.end()) stream = streams.insert(stream, Stream(device));
    copies.push_back(HostArray::copy_of(leaf.value, *stream));
    on_host.back().value = copies.back().tensor();
  }
  write(path, on_host, files, metadata);
}

void save(const std::string& path, const State& state, FileSystem& files) {
  detail::Recording::expect_none("save");
  if (state.device().is_cpu()) {
    state.stream().synchronize();
    write(path, Structure(collections_of(state, Collections::saved)).leaves, files);
  } else {
    const Snapshot snapshot(state, MemoryKind::pinned);
    snapshot.wait();
    write(path, snapshot.leaves(), files);
  }
}

Safetensors load(const std::string& path, FileSystem& files) { return read_safetensors(files, path); }

}  // namespace giro
