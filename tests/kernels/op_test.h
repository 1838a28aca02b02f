#pragma once

// The harness of the kernels' tests. A case has inputs, outputs, a call, and the expected outputs from a naive
// reference in double precision. OpTest::check runs it on the test's device, directly and recorded, with poisoned
// outputs and guard bytes around every tensor.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <giro/runtime/buffer.h>
#include <giro/runtime/device.h>
#include <giro/runtime/dtype.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/shape.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

#include "tests/support/dtypes.h"
#include "tests/support/expect_error.h"
#include "tests/support/sanitized.h"

namespace giro::test {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

inline constexpr DType kAllDTypes[] = {DType::f32, DType::bf16, DType::f16, DType::f64,
                                       DType::i32, DType::i64,  DType::u8,  DType::boolean};
inline constexpr DType kFloatingDTypes[] = {DType::f32, DType::f64, DType::bf16, DType::f16};
inline constexpr DType kLabelDTypes[] = {DType::u8, DType::i32, DType::i64};

// A tensor on the host. Doubles represent the values of every dtype exactly, i64 up to 2^53.
struct Array {
  DType dtype = DType::f32;
  Shape shape;
  std::vector<double> values;  // row-major; empty for an output that starts out poisoned
};

// An expected output: each value has an absolute tolerance. NaN matches NaN, and an infinity matches itself.
struct Expected {
  std::vector<double> values, tolerances;

  void add(double value, double tolerance) {
    values.push_back(value);
    tolerances.push_back(tolerance);
  }
  // The same after `times` roundings to that dtype.
  Expected stored_as(DType dtype, int times = 1) const;
  // The same, but nothing other than an infinity is close to an infinity.
  Expected with_exact_infinities() const;
};

inline constexpr double kUnit = 0x1p-24;  // of f32

// The error from storing an f32 result of this magnitude in bf16 or f16: half a unit in the last place, which does not
// shrink below f16's least normal number.
inline double storage_error(DType dtype, double magnitude) {
  if (dtype != DType::bf16 && dtype != DType::f16) return 0;
  return unit_roundoff(dtype) * std::abs(magnitude) * (1 + 0x1p-8) + (dtype == DType::f16 ? 0x1p-25 : 0);
}

inline Expected Expected::stored_as(DType dtype, int times) const {
  Expected stored = *this;
  for (std::size_t i = 0; i < values.size(); ++i) {
    stored.tolerances[i] += times * storage_error(dtype, std::abs(values[i]) + tolerances[i]);
  }
  return stored;
}

inline Expected Expected::with_exact_infinities() const {
  Expected exact = *this;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isinf(values[i])) exact.tolerances[i] = 0;
  }
  return exact;
}

// A bound on the error of an f32 sum of n rounded terms whose magnitudes add up to `magnitude`: n units in the worst
// case, about sqrt(n) if the roundings are independent.
inline double sum_tolerance(std::int64_t n, double magnitude) {
  return (8 + std::sqrt(static_cast<double>(n))) * kUnit * magnitude;
}

using Bytes = std::vector<unsigned char>;

inline Bytes encode(const Array& array) {
  Bytes bytes(array.values.size() * size_of(array.dtype));
  with_type(array.dtype, [&]<class T>(T value) {
    unsigned char* to = bytes.data();
    for (const double* from = array.values.data(); from != array.values.data() + array.values.size(); ++from) {
      if constexpr (std::is_integral_v<T> || std::is_same_v<T, double>) {
        value = static_cast<T>(*from);
      } else {
        value = T(static_cast<float>(*from));
      }
      std::memcpy(to, &value, sizeof(T));
      to += sizeof(T);
    }
  });
  return bytes;
}

inline std::vector<double> decode(DType dtype, const Bytes& bytes) {
  std::vector<double> values(bytes.size() / size_of(dtype));
  with_type(dtype, [&]<class T>(T value) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
      values[i] = static_cast<double>(value);
    }
  });
  return values;
}

// Inputs that are the same on every run.
class Random {
 public:
  // In [low, high), rounded to the dtype.
  Array uniform(const Shape& shape, double low = -1, double high = 1, DType dtype = DType::f32) {
    Array array{dtype, shape, {}};
    for (std::int64_t i = 0; i < shape.count(); ++i) {
      array.values.push_back(round_to(dtype, low + (high - low) * unit()));
    }
    return array;
  }
  // Whole numbers in [low, high].
  Array integers(const Shape& shape, std::int64_t low, std::int64_t high, DType dtype) {
    Array array{dtype, shape, {}};
    for (std::int64_t i = 0; i < shape.count(); ++i) {
      array.values.push_back(static_cast<double>(low) + std::floor(static_cast<double>(high - low + 1) * unit()));
    }
    return array;
  }

 private:
  double unit() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  std::mt19937_64 engine_{20240229};
};

inline void expect_close(const std::string& what, const std::vector<double>& actual, const Expected& expected) {
  ASSERT_EQ(actual.size(), expected.values.size()) << what;
  std::size_t wrong = 0;
  std::string first;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double a = actual[i], e = expected.values[i], tolerance = expected.tolerances[i];
    const bool close = std::isnan(e) ? std::isnan(a) : a == e || std::abs(a - e) <= tolerance;
    if (!close && wrong++ == 0)
      first = fmt::format("element {}: {:.9g}, expected {:.9g} within {:.3g}", i, a, e, tolerance);
  }
  EXPECT_EQ(wrong, 0u) << what << ": " << wrong << " of " << actual.size() << " elements are off; " << first;
}

inline double contracted(const std::vector<double>& dy, const std::vector<double>& y) {
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) sum += dy[i] * y[i];
  return sum;
}

// Compares a gradient with central differences of `f` around `x`, under a sanitizer in about fifty elements. `f` is the
// forward reference contracted with the incoming gradient. Each tolerance is the kernel's, from `direct`, plus that of
// the difference.
inline void expect_finite_differences(const std::string& what, const std::vector<double>& gradient,
                                      const Expected& direct, std::vector<double> x,
                                      const std::function<double(const std::vector<double>&)>& f) {
  constexpr double kStep = 1e-4;
  const std::size_t stride = kSanitized ? 1 + x.size() / 50 : 1;
  std::vector<double> chosen;
  Expected differences;
  for (std::size_t i = 0; i < x.size(); i += stride) {
    const double middle = x[i];
    x[i] = middle + kStep;
    const double above = f(x);
    x[i] = middle - kStep;
    const double below = f(x);
    x[i] = middle;
    const double slope = (above - below) / (2 * kStep);
    differences.add(slope, direct.tolerances[i] + 1e-7 * std::max(1.0, std::abs(slope)));
    chosen.push_back(gradient[i]);
  }
  expect_close(what + " against finite differences, stride " + std::to_string(stride), chosen, differences);
}

using Tensors = std::vector<Tensor>;

// The alignment in bytes of a collection's leaves and of an arena's blocks. Libraries choose algorithms by alignment,
// so identical bits are expected only at the same alignment.
inline constexpr std::size_t kLeafAlignment = 64;

struct OpCase {
  std::string name;
  std::vector<Array> inputs;   // must stay unchanged
  std::vector<Array> outputs;  // an output with values is read and written
  std::function<void(const Tensors& out, const Tensors& in, const Stream& stream)> run;
  std::vector<Expected> expected;  // one per output
  // The alignment in bytes that the op requires of its tensors. 0 is the dtype's size, as for a view of rows.
  std::size_t alignment = 0;
};

// A tensor in its own memory, between guard bytes.
class GuardedTensor {
 public:
  GuardedTensor(Device device, const Array& initial, std::size_t shift)
      : initial_(encode(initial)),
        begin_(kGuardBytes + shift),
        buffer_(Buffer::allocate(
            device, begin_ + static_cast<std::size_t>(initial.shape.count()) * size_of(initial.dtype) + kGuardBytes)),
        tensor_(static_cast<char*>(buffer_.data()) + begin_, initial.dtype, initial.shape, device) {}

  const Tensor& tensor() const { return tensor_; }
  const Bytes& initial() const { return initial_; }

  void reset(unsigned char poison, const Stream& stream) {
    poison_ = poison;
    stream.fill(buffer_.data(), poison, buffer_.size());
    if (!initial_.empty()) stream.copy(tensor_.raw(), initial_.data(), initial_.size());
    stream.synchronize();
  }

  // Waits for the stream and returns the tensor's bytes. The guard bytes must be intact.
  Bytes read(const std::string& what, const Stream& stream) const {
    Bytes all(buffer_.size());
    stream.copy(all.data(), buffer_.data(), all.size());
    stream.synchronize();
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(begin_);
    const auto end = begin + static_cast<std::ptrdiff_t>(tensor_.bytes());
    const auto whole = [&](auto from, auto to) {
      return std::all_of(from, to, [&](unsigned char byte) { return byte == poison_; });
    };
    EXPECT_TRUE(whole(all.begin(), begin)) << what << ": bytes in front were written";
    EXPECT_TRUE(whole(end, all.end())) << what << ": bytes behind were written";
    return {begin, end};
  }

 private:
  static constexpr std::size_t kGuardBytes = Buffer::kAlignment;

  Bytes initial_;
  std::size_t begin_;
  Buffer buffer_;
  Tensor tensor_;
  unsigned char poison_ = 0;
};

// A test for the CPU and for CUDA. It is instantiated by
//   INSTANTIATE_TEST_SUITE_P(Devices, DenseTest, test::kDevices, test::device_name);
// so that the names of all tests that need a GPU end in "/cuda".
class OpTest : public ::testing::TestWithParam<Device::Kind> {
 protected:
  virtual void prepare() {}  // called before each test that is not skipped

  void SetUp() override {
    static const Discovery discovery = discover_devices();
    for (const DeviceInfo& info : discovery.devices) {
      if (info.device.kind() == GetParam() && !stream_) stream_.emplace(info.device);
    }
    if (!stream_) GTEST_SKIP() << "no CUDA device: " << discovery.no_cuda_reason;
    prepare();
  }

  const Stream& stream() const { return *stream_; }
  Device device() const { return stream_->device(); }

  // Runs the case and returns its outputs' values. Each run starts with fresh inputs and poisoned outputs. All runs
  // must give the same bits with every poison, which reveals unwritten elements and reads outside a tensor.
  std::vector<std::vector<double>> check(const OpCase& op) {
    SCOPED_TRACE(op.name);
    std::vector<Bytes> first;
    for (const bool shifted : {false, true}) {
      std::vector<GuardedTensor> inputs = guarded(op.inputs, shifted, op.alignment);
      std::vector<GuardedTensor> outputs = guarded(op.outputs, shifted, op.alignment);
      const Tensors in = tensors_of(inputs), out = tensors_of(outputs);
      const auto reset = [&](unsigned char poison) {
        for (GuardedTensor& tensor : inputs) tensor.reset(poison, stream());
        for (GuardedTensor& tensor : outputs) tensor.reset(poison, stream());
      };
      const auto read = [&](const std::string& run) {
        std::vector<Bytes> bytes;
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          const std::string what = fmt::format("{}, input {}", run, i);
          EXPECT_EQ(inputs[i].read(what, stream()), inputs[i].initial()) << what << " was written";
        }
        for (std::size_t i = 0; i < outputs.size(); ++i) {
          bytes.push_back(outputs[i].read(fmt::format("{}, output {}", run, i), stream()));
        }
        return bytes;
      };

      // The recorded run comes first, because an op's setup on first use must also work inside a recording.
      reset(kPoisons[0]);
      const std::vector<Bytes> before = read("before recording");
      const Graph graph = Graph::record(stream(), [&] { op.run(out, in, stream()); });
      EXPECT_EQ(read("recording"), before) << "recording ran the op";
      // The four runs have each pair of alignment, recording and poison.
      for (const bool recorded : {true, false}) {
        const unsigned char poison = kPoisons[recorded == shifted ? 1 : 0];
        const std::string run = fmt::format("{}, {}, poison {:#x}", shifted ? "shifted" : "aligned",
                                            recorded ? "replayed" : "direct", poison);
        if (recorded && !shifted) graph.replay(stream());  // what is read is of the second replay
        reset(poison);
        recorded ? graph.replay(stream()) : op.run(out, in, stream());
        const std::vector<Bytes> bytes = read(run);
        if (first.empty()) first = bytes;
        for (std::size_t i = 0; i < bytes.size(); ++i) expect_same_bits(run, i, op.outputs[i], bytes[i], first[i]);
      }
    }

    std::vector<std::vector<double>> values;
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      values.push_back(decode(op.outputs[i].dtype, first[i]));
      expect_close(fmt::format("output {}", i), values[i], op.expected.at(i));
    }
    return values;
  }

  // A tensor for a call that must fail.
  Tensor tensor(const Shape& shape, DType dtype = DType::f32) {
    kept_.push_back(Buffer::allocate(device(), std::max<std::size_t>(64, static_cast<std::size_t>(shape.count()) * 8)));
    return Tensor(kept_.back().data(), dtype, shape, device());
  }
  // The same tensor, labelled with a device other than the stream's.
  Tensor elsewhere(const Tensor& t) const {
    return Tensor(t.raw(), t.dtype(), t.shape(), device().is_cpu() ? Device::cuda() : Device::cpu());
  }

  // Calls test::expect_error for the direct call and for the recorded one.
  void expect_error(ErrorCode code, std::initializer_list<std::string> words, const std::function<void()>& call) {
    test::expect_error(code, words, call);
    SCOPED_TRACE("recorded");
    test::expect_error(code, words, [&] { Graph::record(stream(), call); });
  }
  void expect_shape_error(const Shape& a, const Shape& b, const std::function<void()>& call) {
    expect_error(ErrorCode::shape_mismatch, {to_string(a), to_string(b)}, call);
  }
  void expect_dtype_error(DType a, DType b, const std::function<void()>& call) {
    expect_error(ErrorCode::dtype_mismatch, {std::string(name_of(a)), std::string(name_of(b))}, call);
  }
  void expect_device_error(const std::function<void()>& call) {
    expect_error(ErrorCode::device_mismatch, {"cpu", "cuda:0"}, call);
  }

  Random random_;

 private:
  static constexpr unsigned char kPoisons[] = {0xFF, 0xA5};  // the first is a NaN in every floating dtype

  std::vector<GuardedTensor> guarded(const std::vector<Array>& arrays, bool shifted, std::size_t alignment) const {
    std::vector<GuardedTensor> tensors;
    for (const Array& array : arrays) {
      tensors.emplace_back(device(), array, shifted ? std::max(alignment, size_of(array.dtype)) : 0);
    }
    return tensors;
  }

  static Tensors tensors_of(const std::vector<GuardedTensor>& guarded) {
    Tensors tensors;
    for (const GuardedTensor& one : guarded) tensors.push_back(one.tensor());
    return tensors;
  }

  static void expect_same_bits(const std::string& run, std::size_t output, const Array& array, const Bytes& bytes,
                               const Bytes& first) {
    if (bytes == first) return;
    const auto at = std::mismatch(bytes.begin(), bytes.end(), first.begin()).first - bytes.begin();
    const std::size_t element = static_cast<std::size_t>(at) / size_of(array.dtype);
    ADD_FAILURE() << run << ": output " << output << " has other bits than the first run, from element " << element
                  << " on: " << decode(array.dtype, bytes)[element] << " against "
                  << decode(array.dtype, first)[element];
  }

  std::optional<Stream> stream_;
  std::vector<Buffer> kept_;
};

inline const auto kDevices = ::testing::Values(Device::Kind::cpu, Device::Kind::cuda);
inline std::string device_name(const ::testing::TestParamInfo<Device::Kind>& info) {
  return info.param == Device::Kind::cpu ? "cpu" : "cuda";
}

}  // namespace giro::test
