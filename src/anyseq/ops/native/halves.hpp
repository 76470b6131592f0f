// Numbers of 16 bits, in which tensors may be stored, and the numbers that are computed with.
//
// In operations that any machine has, on integers mostly, so that the compiler makes vectors of
// them. Roundings are to the nearest, ties to even, as torch's.
#pragma once

#include <cstdint>
#include <cstring>

namespace anyseq {

enum Kind : int64_t { PLAIN, BFLOAT16, FLOAT16 };  // as computed with, or halves

inline float as_float(uint32_t bits) {
  float found;
  std::memcpy(&found, &bits, sizeof found);
  return found;
}

inline uint32_t as_bits(float given) {
  uint32_t found;
  std::memcpy(&found, &given, sizeof found);
  return found;
}

inline float from_bfloat16(uint16_t given) { return as_float(uint32_t(given) << 16); }

inline uint16_t to_bfloat16(float given) {
  const uint32_t bits = as_bits(given), rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const bool nan = (bits & 0x7fffffff) > 0x7f800000;
  return uint16_t(nan ? (bits >> 16) | 0x40 : rounded);
}

// 5 bits of exponent become 8: 112 more, which a product takes away again, and by which infinity
// stays so. Numbers below the smallest normal one are whole multiples of 2^-24.
inline float from_float16(uint16_t given) {
  const uint32_t sign = uint32_t(given & 0x8000) << 16, rest = uint32_t(given & 0x7fff) << 13;
  const float normal = as_float(rest + 0x70000000) * 0x1p-112f;
  const float small = float(int32_t(given & 0x7fff)) * 0x1p-24f;
  return as_float(sign | as_bits(rest < 0x800000 ? small : normal));
}

// Adding a power of two so much larger that the bits to be rounded away fall off its end.
inline uint16_t to_float16(float given) {
  const uint32_t bits = as_bits(given), size = bits & 0x7fffffff;
  const float infinite_if_large = as_float(size) * 0x1p112f * 0x1p-110f;
  const uint32_t exponent = size & 0x7f800000, lowest = 0x38800000;
  const float large = as_float((exponent < lowest ? lowest : exponent) + 0x7800000);
  const uint32_t sum = as_bits(large + infinite_if_large);
  const uint32_t rounded = ((sum >> 13) & 0x7c00) + (sum & 0xfff);
  return uint16_t(((bits >> 16) & 0x8000) | (size > 0x7f800000 ? 0x7e00 : rounded));
}

template <class T>
inline void widen(Kind kind, const void* from, T* to, int64_t count) {
  const auto* halves = static_cast<const uint16_t*>(from);
  if (kind == PLAIN) std::memcpy(to, from, count * sizeof(T));
  else if (kind == BFLOAT16)
    for (int64_t c = 0; c < count; c++) to[c] = T(from_bfloat16(halves[c]));
  else
    for (int64_t c = 0; c < count; c++) to[c] = T(from_float16(halves[c]));
}

template <class T>
inline void narrow(Kind kind, const T* from, void* to, int64_t count) {
  auto* halves = static_cast<uint16_t*>(to);
  if (kind == BFLOAT16)
    for (int64_t c = 0; c < count; c++) halves[c] = to_bfloat16(float(from[c]));
  else
    for (int64_t c = 0; c < count; c++) halves[c] = to_float16(float(from[c]));
}

}  // namespace anyseq
