#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include <giro/runtime/dtype.h>

// Shared by the reader and the writer of the safetensors format.
namespace giro::detail::safetensors {

static_assert(std::endian::native == std::endian::little, "the format stores numbers as they lie in memory here");

inline constexpr std::uint64_t kMaxHeader = 100'000'000;  // bytes; the format's limit
inline constexpr std::size_t kMaxEntries = 100'000;       // names of a header, which limits their memory to tens of MiB
inline constexpr std::size_t kPrefix = sizeof(std::uint64_t);
inline constexpr std::size_t kDataAlignment = 64;
inline constexpr std::string_view kMetadata = "__metadata__";

inline constexpr std::pair<DType, std::string_view> kDTypes[] = {
    {DType::f32, "F32"}, {DType::bf16, "BF16"}, {DType::f16, "F16"}, {DType::f64, "F64"},
    {DType::i32, "I32"}, {DType::i64, "I64"},   {DType::u8, "U8"},   {DType::boolean, "BOOL"}};

}  // namespace giro::detail::safetensors
