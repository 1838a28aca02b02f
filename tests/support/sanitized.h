#pragma once

namespace giro::test {

// Whether a sanitizer is compiled in; it makes everything several times slower.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// The number of random cases to try: a tenth of `all` under a sanitizer.
constexpr int cases(int all) { return kSanitized ? all / 10 : all; }

// The stride over consecutive cases, such as the steps of a run: every seventh under a sanitizer.
inline constexpr int kStride = kSanitized ? 7 : 1;

}  // namespace giro::test
