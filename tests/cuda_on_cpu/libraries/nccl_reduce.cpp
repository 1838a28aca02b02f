#include "tests/cuda_on_cpu/libraries/nccl_reduce.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace cuda_on_cpu {
namespace {

struct Type {
  const char* name;
  std::size_t bytes;
};

Type describe(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return {"int8", 1};
    case ncclUint8:
      return {"uint8", 1};
    case ncclInt32:
      return {"int32", 4};
    case ncclUint32:
      return {"uint32", 4};
    case ncclInt64:
      return {"int64", 8};
    case ncclUint64:
      return {"uint64", 8};
    case ncclFloat16:
      return {"float16", 2};
    case ncclFloat32:
      return {"float32", 4};
    case ncclFloat64:
      return {"float64", 8};
    case ncclBfloat16:
      return {"bfloat16", 2};
    default:
      return {"a type that is not emulated", 0};
  }
}

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
template <class S>
S smaller(S a, S b) {
  if constexpr (std::is_floating_point_v<S>) return std::fmin(a, b);
  return std::min(a, b);
}
template <class S>
S larger(S a, S b) {
  if constexpr (std::is_floating_point_v<S>) return std::fmax(a, b);
  return std::max(a, b);
}

template <class T>
void reduce(void* out, const std::vector<const void*>& ranks, std::size_t count, ncclRedOp_t op) {
  using S = typename Sum<T>::type;
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
          // Signed integers are compared as signed.
          if constexpr (std::is_integral_v<T>) {
            sum = static_cast<S>(larger(static_cast<T>(sum), static_cast<T>(value)));
          } else {
            sum = larger(sum, value);
          }
          break;
        case ncclMin:
          if constexpr (std::is_integral_v<T>) {
            sum = static_cast<S>(smaller(static_cast<T>(sum), static_cast<T>(value)));
          } else {
            sum = smaller(sum, value);
          }
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

}  // namespace

std::size_t nccl_type_bytes(ncclDataType_t type) { return describe(type).bytes; }
const char* nccl_type_name(ncclDataType_t type) { return describe(type).name; }

void nccl_reduce(void* out, const std::vector<const void*>& ranks, std::size_t count, ncclDataType_t type,
                 ncclRedOp_t op) {
  switch (type) {
    case ncclInt8:
      return reduce<std::int8_t>(out, ranks, count, op);
    case ncclUint8:
      return reduce<std::uint8_t>(out, ranks, count, op);
    case ncclInt32:
      return reduce<std::int32_t>(out, ranks, count, op);
    case ncclUint32:
      return reduce<std::uint32_t>(out, ranks, count, op);
    case ncclInt64:
      return reduce<std::int64_t>(out, ranks, count, op);
    case ncclUint64:
      return reduce<std::uint64_t>(out, ranks, count, op);
    case ncclFloat16:
      return reduce<__half>(out, ranks, count, op);
    case ncclFloat32:
      return reduce<float>(out, ranks, count, op);
    case ncclFloat64:
      return reduce<double>(out, ranks, count, op);
    case ncclBfloat16:
      return reduce<__nv_bfloat16>(out, ranks, count, op);
    default:
      return;  // refused earlier
  }
}

}  // namespace cuda_on_cpu
