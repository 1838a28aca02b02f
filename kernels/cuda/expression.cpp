#include "kernels/expr/expression_op.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include <giro/runtime/error.h>

#include "kernels/cuda/as_expressions.h"
#include "kernels/cuda/expression_source.h"
#include "kernels/cuda/row_tail.h"
#include "kernels/expr/analysis.h"
#include "kernels/prepare.h"
#include "runtime/checksum.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/disk_cache.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/cuda/stream.h"

namespace giro::cuda {
namespace {

using expr::Access;
using expr::Expression;

// The kernels that this process compiled from source or found in the cache; they stay loaded until it ends.
class Kernels {
 public:
  // Never destroyed: graphs that launch the kernels may still exist while static objects are destroyed.
  static Kernels& instance() {
    static auto* const kernels = new Kernels;
    return *kernels;
  }

  // Compiles the sources that are not loaded yet, as one program: for 20 kernels this takes two thirds of the time of
  // compiling them one by one. Errors: those of Nvrtc, device.
  void prepare(Device device, const std::vector<std::string>& sources) {
    const std::lock_guard lock(mutex_);
    make_current(device);
    compile(compute_capability(device), sources);
  }
  // The kernel `name` of a source. Errors as for prepare.
  const void* find(Device device, const std::string& source, const std::string& name) {
    const std::lock_guard lock(mutex_);
    const Key key{compute_capability(device), detail::digits_of({source})};
    make_current(device);
    if (!libraries_.contains(key)) compile(key.first, {source});
    cudaKernel_t kernel = nullptr;
    check(cudaLibraryGetKernel(&kernel, libraries_.at(key), name.c_str()), "cudaLibraryGetKernel");
    return reinterpret_cast<const void*>(kernel);
  }

 private:
  Kernels() = default;
  using Key = std::pair<int, std::string>;  // architecture, digits of the source
  void compile(int architecture, const std::vector<std::string>& sources) {
    std::vector<Key> keys;
    std::string program;
    for (const std::string& source : sources) {
      const Key key{architecture, detail::digits_of({source})};
      if (libraries_.contains(key) || std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
      keys.push_back(key);
      program += source;
    }
    if (keys.empty()) return;
    const Nvrtc& nvrtc = Nvrtc::instance();
    const std::string cached =
        fmt::format("NVRTC {} sm_{} {}\n{}", nvrtc.version(), architecture, fmt::join(Nvrtc::options(), " "), program);
    std::optional<std::string> code = DiskCache::instance().find(cached);
    if (!code) {
      code = nvrtc.compile(program, architecture);
      DiskCache::instance().add(cached, *code);
    }
    cudaLibrary_t library = nullptr;
    check(cudaLibraryLoadData(&library, code->data(), nullptr, nullptr, 0, nullptr, nullptr, 0), "cudaLibraryLoadData");
    for (const Key& key : keys) libraries_[key] = library;
  }

  std::mutex mutex_;
  std::map<Key, cudaLibrary_t> libraries_;
};

// Everything that the source depends on; of addresses, only their alignment.
std::vector<std::int64_t> key_of(const Expression& expression, const ops::Publish* tail) {
  std::vector<std::int64_t> key = expr::structure_of(expression);
  const auto add_alignment = [&](const Access& access) {
    key.push_back(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(begin_of(access)) % 16));
  };
  for (const Access& read : expression.reads) add_alignment(read);
  const bool reduces = expr::reduces(expression);
  for (const Expression::Write& write : expression.writes) {
    add_alignment(write.to);
    key.push_back(reduces && expr::is_written_over_reads(expression, write.to));
  }
  if (tail != nullptr) add_to_key(*tail, key);
  return key;
}

// The source without its text, with its kernels loaded on the device.
ExpressionSource loaded(ExpressionSource source, Device device) {
  for (ExpressionSource::Kernel& kernel : source.kernels) {
    kernel.function = Kernels::instance().find(device, source.text, kernel.name);
  }
  source.text = {};
  return source;
}

// Whether there is nothing to compute, so that no kernel is needed.
bool is_nothing(const Expression& expression, const ops::Publish* tail) {
  const std::span of_rows(expression.space.begin(), expression.space.end() - expression.reduced);
  return tail == nullptr && std::ranges::find(of_rows, 0) != of_rows.end();
}

// Queues an expression, then publishes a row unless `tail` is null. With a tail, the expression must not reduce
// anything.
void run_with_tail(const Expression& expression, const ops::Publish* tail, const Stream& stream) {
  if (is_nothing(expression, tail)) return;
  CudaStream& queue = cuda_stream(stream);
  const ExpressionSource& source = queue.plan<ExpressionSource>(
      key_of(expression, tail), [&] { return loaded(source_of(expression, tail), stream.device()); });
  if (source.count == 0 && tail == nullptr) return;
  const Buffer workspace = source.workspace_bytes > 0 ? stream.allocate(source.workspace_bytes) : Buffer();

  std::vector<void*> addresses;
  for (const Access& read : expression.reads) addresses.push_back(expr::begin_of(read));
  for (const Expression::Write& write : expression.writes) addresses.push_back(expr::begin_of(write.to));
  if (source.workspace_bytes > 0) {
    addresses.push_back(workspace.data());
    addresses.push_back(queue.arrivals());
  }
  if (tail != nullptr) {
    const std::vector<void*> arguments = tail_arguments(*tail, queue.arrivals());
    addresses.insert(addresses.end(), arguments.begin(), arguments.end());
  }
  auto count = source.count;
  auto narrow_count = static_cast<std::int32_t>(count);
  std::vector<void*> arguments;
  for (void*& address : addresses) arguments.push_back(&address);
  arguments.push_back(source.has_wide_count ? static_cast<void*>(&count) : &narrow_count);

  for (const ExpressionSource::Kernel& kernel : source.kernels) {
    check(cudaLaunchKernel(kernel.function, kernel.blocks, kernel.threads, arguments.data(), 0, queue.handle()),
          kernel.name.c_str());
  }
}

}  // namespace

void prepare(const std::vector<detail::HeldOp>& ops, const Stream& stream) {
  CudaStream& queue = cuda_stream(stream);
  std::map<std::vector<std::int64_t>, ExpressionSource> made;
  std::vector<std::string> texts;
  const auto add = [&](const Expression& expression, const ops::Publish* tail) {
    std::vector<std::int64_t> key = key_of(expression, tail);
    if (is_nothing(expression, tail) || queue.has_plan<ExpressionSource>(key) || made.contains(key)) return;
    texts.push_back(made.emplace(std::move(key), source_of(expression, tail)).first->second.text);
  };
  try {
    for (const detail::HeldOp& op : ops) with_expression(op, add);
    Kernels::instance().prepare(stream.device(), texts);
    for (auto& [key, source] : made) {
      queue.plan<ExpressionSource>(key, [&] { return loaded(std::move(source), stream.device()); });
    }
  } catch (const Error&) {
    // Ignored here: the op with the error fails when it runs, and reports where it was made.
  }
}

void run(const Expression& expression, const Stream& stream) { run_with_tail(expression, nullptr, stream); }

void run(const ops::RunAndPublish& op, const Stream& stream) { run_with_tail(op.expression, &op.row, stream); }

// After an empty expression.
void run(const ops::Publish& op, const Stream& stream) { run_with_tail({}, &op, stream); }

}  // namespace giro::cuda
