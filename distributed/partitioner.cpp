#include <giro/distributed/partitioner.h>

#include <fmt/format.h>

#include <cstddef>
#include <sstream>
#include <utility>

#include <giro/distributed/communicator.h>
#include <giro/runtime/device_context.h>

#include "distributed/gradient_buckets.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

Tensor on_host(void* data, DType dtype, std::size_t count) {
  return {data, dtype, {static_cast<std::int64_t>(count)}, Device::cpu()};
}

class DataParallel : public Partitioner {
 public:
  DataParallel(World& world, Communicator ranks, Communicator host, const DataParallelOptions& options)
      : world_(world), ranks_(std::move(ranks)), host_(std::move(host)), options_(options) {}

  int rank() const noexcept override { return ranks_.rank(); }
  int size() const noexcept override { return ranks_.size(); }
  double timeout() const noexcept override { return world_.timeout(); }

  void replicate(const State& state) const override {
    std::string structure;
    for (const auto& collection : state.collections()) {
      for (const LeafSpec& leaf : collection->specs()) {
        structure += fmt::format("{}: {}{}\n", collection->path_of(leaf), name_of(leaf.dtype), to_string(leaf.shape));
      }
    }
    expect_same("the state's leaves", structure);
    for (const auto& collection : state.collections()) {
      if (!collection->is_sharded()) ranks_.broadcast(collection->bytes(), 0, state.stream());
    }
  }
  std::unique_ptr<GradientReduction> reduce(const Collection& grads, const DeviceContext& context) const override {
    return std::make_unique<detail::GradientBuckets>(ranks_, grads, context, options_.bucket_bytes);
  }
  void mean(const Tensor& values, const Stream& stream) const override {
    ranks_.all_reduce(values, Reduction::mean, stream);
  }

  void all_reduce_max(std::span<double> values) const override {
    host_.all_reduce(on_host(values.data(), DType::f64, values.size()), Reduction::max, host_stream_);
  }
  std::string broadcast(const std::string& text) const override { return broadcast(text, 0); }
  void expect_same(const std::string& what, const std::string& text) const override {
    const std::string of_first = broadcast(text, 0);
    double differs = of_first == text ? 0 : rank();
    all_reduce_max({&differs, 1});
    if (differs == 0) return;
    const int other = static_cast<int>(differs);
    const auto [line, first_line] = first_difference(broadcast(text, other), of_first);
    throw_error(ErrorCode::communication, "{}: rank {} has {}, but rank 0 has {}", what, other, line, first_line);
  }
  void set_failed() const noexcept override { world_.set_failed(); }

 protected:
  const Communicator& ranks() const noexcept { return ranks_; }

 private:
  // The text of rank `root`.
  std::string broadcast(const std::string& text, int root) const {
    auto size = static_cast<std::int64_t>(text.size());
    host_.broadcast(on_host(&size, DType::i64, 1), root, host_stream_);
    std::string theirs = text;
    theirs.resize(static_cast<std::size_t>(size));
    host_.broadcast(on_host(theirs.data(), DType::u8, theirs.size()), root, host_stream_);
    return theirs;
  }
  static std::pair<std::string, std::string> first_difference(const std::string& a, const std::string& b) {
    std::istringstream lines_of_a(a), lines_of_b(b);
    std::string line_of_a, line_of_b;
    do {
      if (!std::getline(lines_of_a, line_of_a)) line_of_a = "nothing more";
      if (!std::getline(lines_of_b, line_of_b)) line_of_b = "nothing more";
    } while (line_of_a == line_of_b && (lines_of_a || lines_of_b));
    return {line_of_a, line_of_b};
  }

  World& world_;
  Communicator ranks_, host_;
  DataParallelOptions options_;
  Stream host_stream_{Device::cpu()};
};

class ZeroDataParallel final : public DataParallel {
 public:
  using DataParallel::DataParallel;

  std::unique_ptr<GradientReduction> reduce(const Collection& grads, const DeviceContext& context) const override {
    struct ReduceScatter final : GradientReduction {
      ReduceScatter(const Communicator& to, const Tensor& in, const Tensor& out, const Stream& on)
          : ranks(to), grads(in), part(out), stream(on) {}
      void ready(std::size_t) override {}
      void finish() override { ranks.reduce_scatter(part, grads, Reduction::mean, stream); }
      Communicator ranks;
      Tensor grads, part;
      Stream stream;
    };
    return std::make_unique<ReduceScatter>(ranks(), grads.flat(), grads.flat(update_shard()), context.stream());
  }
  Shard update_shard() const noexcept override { return {rank(), size()}; }
  void sum_over_shards(const Tensor& values, const Stream& stream) const override {
    ranks().all_reduce(values, Reduction::sum, stream);
  }
  void gather_shards(const Collection& params, const Stream& stream) const override {
    ranks().all_gather(params.flat(), params.flat(update_shard()), stream);
  }
};

std::shared_ptr<const Partitioner> make_data_parallel(World& world, const Communicator& ranks, const Communicator& host,
                                                      const DataParallelOptions& options) {
  if (options.bucket_bytes < 1) {
    throw_invalid("data_parallel: bucket_bytes is {}, expected at least 1", options.bucket_bytes);
  }
  auto partitioner = std::make_shared<DataParallel>(world, ranks, host, options);
  partitioner->expect_same("the partitioner", fmt::format("data_parallel, bucket_bytes {}", options.bucket_bytes));
  return partitioner;
}

std::shared_ptr<const Partitioner> make_zero(World& world, const Communicator& ranks, const Communicator& host) {
  auto partitioner = std::make_shared<ZeroDataParallel>(world, ranks, host, DataParallelOptions{});
  partitioner->expect_same("the partitioner", "zero_data_parallel");
  return partitioner;
}

}  // namespace

std::shared_ptr<const Partitioner> data_parallel(World& world, Device device, const DataParallelOptions& options) {
  return make_data_parallel(world, world.communicator(device), world.host(), options);
}
std::shared_ptr<const Partitioner> data_parallel(const Mesh& mesh, const std::string& axis,
                                                 const DataParallelOptions& options) {
  return make_data_parallel(mesh.world(), mesh.axis(axis), mesh.host_axis(axis), options);
}

std::shared_ptr<const Partitioner> zero_data_parallel(World& world, Device device) {
  return make_zero(world, world.communicator(device), world.host());
}
std::shared_ptr<const Partitioner> zero_data_parallel(const Mesh& mesh, const std::string& axis) {
  return make_zero(mesh.world(), mesh.axis(axis), mesh.host_axis(axis));
}

}  // namespace giro
