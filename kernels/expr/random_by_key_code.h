// The bits of runtime/rng.h by a key instead of a seed, for RngPurpose::draw, 2, and key, 3. Included as code and as
// text, as arithmetic_code.h is.
// clang-format off
GIRO_DEVICE_CODE(
struct TwoWords { u32 first, second; };
// Pair i of a purpose's numbers.
template <int kPurpose> GIRO_ARITHMETIC TwoWords two_words(i64 key, i64 i) {
  const PhiloxBlock block = philox(u64(key), u64(i) / 2, u64(kPurpose) << 56);
  const bool is_odd = u64(i) % 2 != 0;
  return {is_odd ? block.word[2] : block.word[0], is_odd ? block.word[3] : block.word[1]};
}
GIRO_ARITHMETIC i64 key_by_key(i64 key, i64 i) {
  const TwoWords words = two_words<3>(key, i);
  return i64(u64(words.second) << 32 | words.first);
}
// Rng::uniform without an array index that depends on data.
GIRO_ARITHMETIC f32 uniform_by_key(i64 key, i64 i) {
  const PhiloxBlock block = philox(u64(key), u64(i) / 4, u64(2) << 56);
  const bool is_odd = u64(i) % 2 != 0;
  const u32 first = is_odd ? block.word[1] : block.word[0], second = is_odd ? block.word[3] : block.word[2];
  const u32 word = u64(i) % 4 >= 2 ? second : first;
  return f32(i32(word >> 8)) * 0x1p-24f;
}
)
