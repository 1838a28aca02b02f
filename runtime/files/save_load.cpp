#include <giro/runtime/files/save_load.h>

#include <map>

#include <giro/runtime/host_array.h>
#include <giro/runtime/snapshot.h>

#include "runtime/collection.h"
#include "runtime/path_pattern.h"
#include "runtime/stream_recording.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

void write(const std::string& path, std::vector<Leaf> leaves, const SaveOptions& options, FileSystem& files) {
  const Renaming renamed("save", options.rename);
  for (Leaf& leaf : leaves) {
    if (leaf.piece) {
      throw_invalid(
          "save '{}': of leaf '{}', this process holds {} elements of {}; use a checkpoint to save what several "
          "processes hold",
          path, leaf.path, leaf.value.count(), to_string(leaf.piece->whole));
    }
    leaf.path = renamed(leaf.path);
  }
  replace_file(files, path,
               [&](FileSystem::Writer& file) { write_safetensors(file, leaves, options.metadata, options.dtype); });
}

}  // namespace

void save(const std::string& path, const std::vector<Leaf>& leaves, const SaveOptions& options, FileSystem& files) {
  detail::StreamRecording::expect_none("save");
  std::vector<Leaf> on_host;
  std::vector<HostArray> copies;
  std::map<Device, Stream> streams;
  on_host.reserve(leaves.size());
  for (const Leaf& leaf : leaves) {
    on_host.push_back(leaf);
    if (leaf.value.is_empty()) {
      throw_invalid("save '{}': the leaf '{}' is {}, expected one with memory", path, leaf.path, to_string(leaf.value));
    }
    const Device device = leaf.value.device();
    if (device.is_cpu()) continue;
    const Stream& stream = streams.try_emplace(device, device).first->second;
    copies.push_back(HostArray::copy_of(leaf.value, stream));
    on_host.back().value = copies.back().tensor();
  }
  write(path, std::move(on_host), options, files);
}

void save(const std::string& path, const State& state, const SaveOptions& options, FileSystem& files) {
  detail::StreamRecording::expect_none("save");
  if (state.device().is_cpu()) {
    state.stream().synchronize();
    write(path, Structure(collections_of(state, Collections::saved)).leaves, options, files);
  } else {
    const Snapshot snapshot(state, MemoryKind::pinned);
    snapshot.wait();
    write(path, snapshot.leaves(), options, files);
  }
}

Safetensors load(const std::string& path, FileSystem& files) { return read_safetensors(files, path); }

}  // namespace giro
