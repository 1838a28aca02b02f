#include <fmt/format.h>

#include <exception>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <giro/callbacks/checkpoint.h>

#include "callbacks/internal/checkpoint_files.h"

namespace giro {
namespace {

std::vector<Leaf> saved_leaves(const State& state) {
  std::vector<Leaf> leaves;
  for (const auto& collection : state.collections()) {
    if (collection->saved()) leaves.insert(leaves.end(), collection->leaves().begin(), collection->leaves().end());
  }
  return leaves;
}

// The state changes only if the whole file is good.
Restored restore_file(State& state, const std::string& file_path, FileSystem& files) {
  const Safetensors file = read_safetensors(files, file_path);
  std::map<std::string, Tensor> stored;
  for (const Leaf& leaf : file.tensors) stored.emplace(leaf.path, leaf.value);

  const Elapsed elapsed = detail::read_elapsed(file, file_path);
  const std::vector<Leaf> leaves = saved_leaves(state);
  std::set<std::string_view> expected;
  for (const Leaf& leaf : leaves) {
    expected.insert(leaf.path);
    const auto found = stored.find(leaf.path);
    if (found == stored.end()) {
      throw Error(ErrorCode::not_found, fmt::format("checkpoint '{}' has no leaf '{}'", file_path, leaf.path));
    }
    const bool dtypes_differ = found->second.dtype() != leaf.value.dtype();
    if (dtypes_differ || found->second.shape() != leaf.value.shape()) {
      throw Error(dtypes_differ ? ErrorCode::dtype_mismatch : ErrorCode::shape_mismatch,
                  fmt::format("checkpoint '{}': leaf '{}' is {}{}, expected {}{}", file_path, leaf.path,
                              name_of(found->second.dtype()), to_string(found->second.shape()),
                              name_of(leaf.value.dtype()), to_string(leaf.value.shape())));
    }
  }
  for (const Leaf& leaf : file.tensors) {
    if (!expected.contains(leaf.path)) {
      throw Error(ErrorCode::not_found,
                  fmt::format("checkpoint '{}': the state saves no leaf {:?}", file_path, leaf.path));
    }
  }

  for (const Leaf& leaf : leaves) copy(leaf.value, stored.at(leaf.path), state.stream());
  state.stream().synchronize();
  return {elapsed, file_path, {}};
}

}  // namespace

Restored restore(State& state, const std::string& path, FileSystem& files) {
  std::vector<detail::CheckpointFile> found;
  try {
    found = detail::find_checkpoints(files, path);
  } catch (const Error&) {
    return restore_file(state, path, files);  // no directory; if it is no file either, reading it will say why
  }
  if (found.empty()) throw Error(ErrorCode::not_found, fmt::format("no checkpoint in the directory '{}'", path));
  std::vector<std::string> skipped;
  std::exception_ptr newest;
  for (auto it = found.rbegin(); it != found.rend(); ++it) {
    try {
      Restored restored = restore_file(state, detail::join(path, it->name), files);
      restored.skipped = std::move(skipped);
      return restored;
    } catch (const Error& error) {
      if (!detail::is_damage(error)) throw;
      if (!newest) newest = std::current_exception();
      skipped.push_back(error.what());
    }
  }
  std::rethrow_exception(newest);
}

}  // namespace giro
