#pragma once

namespace giro::test {

// Whether a sanitizer is compiled in, which makes everything several times as slow.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// How many of so many random cases are tried: a tenth of them where a sanitizer looks on.
constexpr int cases(int all) { return kSanitized ? all / 10 : all; }

// Cases that stand in a row, such as the steps of a run: every one is tried, or every seventh where a sanitizer looks
// on.
inline constexpr int kStride = kSanitized ? 7 : 1;

}  // namespace giro::test
