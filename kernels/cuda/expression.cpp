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

  // Loads the kernels of sources, and drops the texts. Compiles those that are not loaded yet as one program: for 20
  // kernels this takes two thirds of the time of compiling them one by one. Errors: those of Nvrtc, device.
  void load(Device device, const std::vector<ExpressionSource*>& sources) {
    const std::lock_guard lock(mutex_);
    make_current(device);
    const int architecture = compute_capability(device);
    std::vector<Key> keys, missing;
    std::string program;
    for (const ExpressionSource* const source : sources) {
      const Key& key = keys.emplace_back(architecture, detail::digits_of({source->text}));
      if (libraries_.contains(key) || std::ranges::find(missing, key) != missing.end()) continue;
      missing.push_back(key);
      program += source->text;
    }
    if (!missing.empty()) {
      const cudaLibrary_t library = compiled(program, architecture);
      for (const Key& key : missing) libraries_[key] = library;
    }
    for (std::size_t i = 0; i < sources.size(); ++i) {
      for (ExpressionSource::Kernel& kernel : sources[i]->kernels) {
        cudaKernel_t found = nullptr;
        check(cudaLibraryGetKernel(&found, libraries_.at(keys[i]), kernel.name.c_str()), "cudaLibraryGetKernel");
        kernel.function = found;
      }
      sources[i]->text = {};
    }
  }

 private:
  Kernels() = default;
  using Key = std::pair<int, std::string>;  // architecture, digits of the source

  static cudaLibrary_t compiled(const std::string& program, int architecture) {
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
    return library;
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
  const ExpressionSource& source = queue.plan<ExpressionSource>(key_of(expression, tail), [&] {
    ExpressionSource made = source_of(expression, tail);
    Kernels::instance().load(stream.device(), {&made});
    return made;
  });
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
  std::vector<ExpressionSource*> sources;
  const auto add = [&](const Expression& expression, const ops::Publish* tail) {
    std::vector<std::int64_t> key = key_of(expression, tail);
    if (is_nothing(expression, tail) || queue.has_plan<ExpressionSource>(key) || made.contains(key)) return;
    sources.push_back(&made.emplace(std::move(key), source_of(expression, tail)).first->second);
  };
  try {
    for (const detail::HeldOp& op : ops) with_expression(op, add);
    Kernels::instance().load(stream.device(), sources);
    for (auto& [key, source] : made) {
      queue.plan<ExpressionSource>(key, [of = &source] { return std::move(*of); });
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
