#include "tests/cuda_on_cpu/libraries/nccl_reduce.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <type_traits>

namespace cuda_on_cpu {
namespace {

// The type in which T is summed. Integers wrap around, as unsigned ones do.
template <class T>
struct Sum {
  using type =
      typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<double>>::type;
};

double to_sum(__half value) { return __half2float(value); }
double to_sum(__nv_bfloat16 value) { return __bfloat162float(value); }
template <class T>
typename Sum<T>::type to_sum(T value) {
  return static_cast<typename Sum<T>::type>(value);
}

template <class T>
T from_sum(typename Sum<T>::type sum) {
  if constexpr (std::is_same_v<T, __half>) {
    return __double2half(sum);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __double2bfloat16(sum);
  } else {
    return static_cast<T>(sum);
  }
}

// NCCL uses fminf and fmaxf, or __hmin and __hmax: given a number and a NaN, they return the number (FuncMinMax in
// reduce_kernel.h).
template <class T>
T smaller(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return std::fmin(a, b);
  return std::min(a, b);
}
template <class T>
T larger(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return std::fmax(a, b);
  return std::max(a, b);
}

template <class T>
void reduce(void* out, const std::vector<const void*>& ranks, std::size_t count, ncclRedOp_t op) {
  using S = typename Sum<T>::type;
  using Compared = std::conditional_t<std::is_integral_v<T>, T, S>;  // signed integers as signed
  // An average of integers divides at the end, as C++ does. For other types, each element is first multiplied by the
  // rounded reciprocal, and this product is rounded (hostToDevRedOp in enqueue.cc, FuncPreMulSum in reduce_kernel.h).
  const auto at = [&](std::size_t rank, std::size_t i) -> S {
    const T value = static_cast<const T*>(ranks[rank])[i];
    if constexpr (std::is_same_v<S, double>) {
      const double share = 1.0 / static_cast<double>(ranks.size());
      if (op == ncclAvg) return to_sum(from_sum<T>(to_sum(value) * to_sum(from_sum<T>(share))));
    }
    return to_sum(value);
  };
  for (std::size_t i = 0; i < count; ++i) {
    S sum = at(0, i);
    for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
      const S value = at(rank, i);
      switch (op) {
        case ncclProd:
          sum = static_cast<S>(sum * value);
          break;
        case ncclMax:
          sum = static_cast<S>(larger(static_cast<Compared>(sum), static_cast<Compared>(value)));
          break;
        case ncclMin:
          sum = static_cast<S>(smaller(static_cast<Compared>(sum), static_cast<Compared>(value)));
          break;
        default:
          sum = static_cast<S>(sum + value);
      }
    }
    if constexpr (std::is_integral_v<T>) {
      if (op == ncclAvg) sum = static_cast<S>(static_cast<T>(sum) / static_cast<T>(ranks.size()));
    }
    static_cast<T*>(out)[i] = from_sum<T>(sum);
  }
}

struct Type {
  const char* name;
  std::size_t bytes;
  void (*reduce)(void* out, const std::vector<const void*>& ranks, std::size_t count, ncclRedOp_t op);
};

template <class T>
Type type(const char* name) {
  return {name, sizeof(T), reduce<T>};
}

const Type& describe(ncclDataType_t dtype) {
  static const std::map<ncclDataType_t, Type> all{
      {ncclInt8, type<std::int8_t>("int8")},    {ncclUint8, type<std::uint8_t>("uint8")},
      {ncclInt32, type<std::int32_t>("int32")}, {ncclUint32, type<std::uint32_t>("uint32")},
      {ncclInt64, type<std::int64_t>("int64")}, {ncclUint64, type<std::uint64_t>("uint64")},
      {ncclFloat16, type<__half>("float16")},   {ncclFloat32, type<float>("float32")},
      {ncclFloat64, type<double>("float64")},   {ncclBfloat16, type<__nv_bfloat16>("bfloat16")}};
  static const Type other{"a type that is not emulated", 0, nullptr};  // refused earlier
  const auto found = all.find(dtype);
  return found != all.end() ? found->second : other;
}

}  // namespace

std::size_t nccl_type_bytes(ncclDataType_t type) { return describe(type).bytes; }
const char* nccl_type_name(ncclDataType_t type) { return describe(type).name; }

void nccl_reduce(void* out, const std::vector<const void*>& ranks, std::size_t count, ncclDataType_t type,
                 ncclRedOp_t op) {
  describe(type).reduce(out, ranks, count, op);
}

}  // namespace cuda_on_cpu
