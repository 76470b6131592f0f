// Arithmetic on vectors of numbers: powers of two, products of small matrices, random numbers.
//
// Vectors are the compiler's, as wide as the instruction set that it compiles for. Products of the
// sizes that tiles have gain nothing from a BLAS, which copies both factors into an order of its own
// first: here a block of the result stays in registers while rows of the right factor are read as
// they stand.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

namespace anyseq {

#if defined(__AVX512F__)
constexpr int BYTES = 64, WIDE = 4;  // of a vector; vectors of a row that a block has at most
#elif defined(__AVX2__)
constexpr int BYTES = 32, WIDE = 2;
#else
constexpr int BYTES = 16, WIDE = 2;
#endif

template <class T, int L>
struct Lanes {
  typedef T type __attribute__((vector_size(L * sizeof(T))));
};
template <class T>
struct Lanes<T, 1> {
  typedef T type;
};
template <class T>
constexpr int LANES = BYTES / int(sizeof(T));
template <class T>
using Vector = typename Lanes<T, LANES<T>>::type;
// Integers of the same size, in as many lanes: what comparisons of vectors give.
template <class T>
using Places = typename Lanes<std::conditional_t<sizeof(T) == 4, int32_t, int64_t>, LANES<T>>::type;

template <class V, class T>
inline V load(const T* from) {
  V found;
  std::memcpy(&found, from, sizeof found);
  return found;
}

template <class V, class T>
inline void store(T* to, V given) {
  std::memcpy(to, &given, sizeof given);
}

// The next multiple of a vector's length.
template <class T>
inline int64_t whole(int64_t count) {
  return (count + LANES<T> - 1) & -int64_t(LANES<T>);
}

// Lanes of two vectors, by number: a's are 0, 1, ..., then come b's.
#ifdef __clang__
#define ANYSEQ_LANES(T, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define ANYSEQ_LANES(T, a, b, ...) __builtin_shuffle(a, b, Places<T>{__VA_ARGS__})
#endif

template <class T>
using Numbers = std::make_integer_sequence<int, LANES<T>>;

// The numbers of a vector as one, by an operation of two.
template <class T, int Step = LANES<T> / 2, class Operation, int... U>
inline T together(Vector<T> given, Operation of, std::integer_sequence<int, U...> all) {
  const Vector<T> both = of(given, ANYSEQ_LANES(T, given, given, (U ^ Step)...));
  if constexpr (Step == 1) return both[0];
  else return together<T, Step / 2>(both, of, all);
}

template <class T>
inline T sum_of(Vector<T> given) {
  return together<T>(given, [](Vector<T> a, Vector<T> b) { return a + b; }, Numbers<T>());
}

template <class T>
inline T largest_of(Vector<T> given) {
  return together<T>(given, [](Vector<T> a, Vector<T> b) { return a > b ? a : b; }, Numbers<T>());
}

template <class T>
inline T dot(const T* a, const T* b, int64_t count) {
  Vector<T> sums = {};
  int64_t c = 0;
  for (; c + LANES<T> <= count; c += LANES<T>)
    sums += load<Vector<T>>(a + c) * load<Vector<T>>(b + c);
  T sum = sum_of<T>(sums);
  for (; c < count; c++) sum += a[c] * b[c];
  return sum;
}

// 2^x for x <= 0, of a number or of each in a vector; what roundings make positive counts as 0.
// With x = n + f, n whole and f in (-1, 0], it is 2^n 2^{-1/2} e^t with t = (f + 1/2)·ln 2, whose
// series ends where a term is below a rounding. Below the smallest normal number: 0, since products
// with less crawl.
template <class T, class V>
inline V power_of_two(V x) {
  constexpr bool single = sizeof(T) == 4;
  constexpr T lowest = single ? -126 : -1022;
  const V low = V{} + lowest, zero = V{};
  V kept = x < low ? low : x;
  kept = kept > zero ? zero : kept;
  V t, p;
  if constexpr (std::is_same_v<T, V>) {
    const auto n = std::conditional_t<single, int32_t, int64_t>(kept);
    t = (kept - T(n) + T(0.5)) * T(0.6931471805599453);
    const auto bits = single ? (n + 127) << 23 : (n + 1023) << (single ? 0 : 52);
    std::memcpy(&p, &bits, sizeof p);
  } else {
    using Half = typename Lanes<int32_t, LANES<T>>::type;  // doubles have no quick way to 64 bits
    const auto n = __builtin_convertvector(__builtin_convertvector(kept, Half), Places<T>);
    t = (kept - __builtin_convertvector(n, V) + T(0.5)) * T(0.6931471805599453);
    const Places<T> bits = single ? (n + 127) << 23 : (n + 1023) << (single ? 0 : 52);
    std::memcpy(&p, &bits, sizeof p);
  }
  V sum = V{} + T(single ? 1.0 / 5040 : 1.0 / 6227020800.0);
  if constexpr (!single)
    for (double c : {1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320,
                     1.0 / 5040})
      sum = sum * t + T(c);
  for (double c : {1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0}) sum = sum * t + T(c);
  const V power = sum * (p * T(0.7071067811865476));
  return x < low ? zero : power;
}

// tanh x = sign x · (1 - 2/(e^{2|x|} + 1)); near 0, where that cancels, its series.
template <class T>
inline T tangent(T x) {
  const T a = std::fabs(x), s = a * a, small = power_of_two<T>(T(-2 * 1.4426950408889634) * a);
  const T near = a * (1 - s / 3 * (1 - s * T(0.4) * (1 - s * T(17.0 / 42))));
  return std::copysign(a < T(sizeof(T) == 4 ? 0.03 : 1e-3) ? near : 1 - 2 * small / (1 + small), x);
}

// A number of 32 bits for a pair, from a key for its row: two rounds of multiply and shift.
inline uint32_t mixed(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

inline uint64_t row_key(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// ---- products ----

// The left factor: entry (i, l) is data[i·down + l·along].
template <class T>
struct Left {
  const T* data;
  int64_t down, along;
};

// A matrix in rows of so many numbers.
template <class T>
struct Panel {
  T* data;
  int64_t pitch;
  Panel from(int64_t row) const { return {data + row * pitch, pitch}; }
};

// R rows of C vectors of the result.
template <class V, int R, int C, class T>
__attribute__((always_inline)) inline void block(int64_t k, T scale, Left<T> a, const T* b,
                                                 int64_t pitch, bool add, Panel<T> c) {
  constexpr int64_t lanes = sizeof(V) / sizeof(T);
  V sums[R][C] = {};
  for (int64_t l = 0; l < k; l++) {
    V row[C];
    for (int u = 0; u < C; u++) row[u] = load<V>(b + l * pitch + u * lanes);
    for (int r = 0; r < R; r++)
      for (int u = 0; u < C; u++) sums[r][u] += row[u] * a.data[r * a.down + l * a.along];
  }
  for (int r = 0; r < R; r++)
    for (int u = 0; u < C; u++) {
      T* at = c.data + r * c.pitch + u * lanes;
      store(at, add ? load<V>(at) + scale * sums[r][u] : scale * sums[r][u]);
    }
}

// All rows of some columns, which are C vectors wide; gives the number of columns.
template <class V, int C, class T>
inline int64_t strip(int64_t m, int64_t k, T scale, Left<T> a, const T* b, int64_t pitch, bool add,
                     Panel<T> c) {
  constexpr int high = C == WIDE ? 6 : C == 3 ? 8 : 12;  // so that sums fill the registers
  int64_t r = 0;
  const auto rows = [&](auto count) {
    for (; r + count <= m; r += count)
      block<V, count, C>(k, scale, Left<T>{a.data + r * a.down, a.down, a.along}, b, pitch, add,
                         c.from(r));
  };
  rows(std::integral_constant<int, high>());
  rows(std::integral_constant<int, 4>());
  rows(std::integral_constant<int, 2>());
  rows(std::integral_constant<int, 1>());
  return C * sizeof(V) / sizeof(T);
}

// c (m, n) = scale·a b, or that added to it, for a (m, k), b (k, n).
template <class T>
void multiply(int64_t m, int64_t n, int64_t k, double scale, Left<T> a, Panel<const T> b, bool add,
              Panel<T> c) {
  constexpr int lanes = LANES<T>, few = lanes > 4 ? 4 : 1;
  for (int64_t j = 0; j < n;) {
    const Panel<T> into{c.data + j, c.pitch};
    const auto one = [&](auto vector, auto count) {
      return strip<decltype(vector), count>(m, k, T(scale), a, b.data + j, b.pitch, add, into);
    };
    using std::integral_constant;
    if (j + WIDE * lanes <= n) j += one(Vector<T>{}, integral_constant<int, WIDE>());
    else if (WIDE > 3 && j + 3 * lanes <= n) j += one(Vector<T>{}, integral_constant<int, 3>());
    else if (WIDE > 2 && j + 2 * lanes <= n) j += one(Vector<T>{}, integral_constant<int, 2>());
    else if (j + lanes <= n) j += one(Vector<T>{}, integral_constant<int, 1>());
    else if (j + few <= n) j += one(typename Lanes<T, few>::type{}, integral_constant<int, 1>());
    else j += one(T{}, integral_constant<int, 1>());
  }
}

// The halves of two vectors, one number of each in turn.
template <class T, int... U>
inline void zip(Vector<T> a, Vector<T> b, Vector<T>& low, Vector<T>& high,
                std::integer_sequence<int, U...>) {
  low = ANYSEQ_LANES(T, a, b, (U / 2 + U % 2 * LANES<T>)...);
  high = ANYSEQ_LANES(T, a, b, ((LANES<T> + U) / 2 + U % 2 * LANES<T>)...);
}

// The transposed of `rows` (count, size), with 0 in a vector of columns after them, for products that
// begin anywhere and end with a whole vector.
template <class T>
void transpose(Panel<const T> rows, int64_t count, int64_t size, Panel<T> to) {
  constexpr int lanes = LANES<T>;
  const int64_t even = size - size % lanes;
  int64_t done = 0;
  for (; done + lanes <= count; done += lanes) {
    for (int64_t c = 0; c < even; c += lanes) {
      Vector<T> held[lanes], next[lanes];
      for (int u = 0; u < lanes; u++)
        held[u] = load<Vector<T>>(rows.data + (done + u) * rows.pitch + c);
      for (int step = 1; step < lanes; step *= 2) {
        for (int u = 0; u < lanes / 2; u++)
          zip<T>(held[u], held[u + lanes / 2], next[2 * u], next[2 * u + 1], Numbers<T>());
        for (int u = 0; u < lanes; u++) held[u] = next[u];
      }
      for (int u = 0; u < lanes; u++) store(to.data + (c + u) * to.pitch + done, held[u]);
    }
    for (int64_t c = even; c < size; c++)
      for (int u = 0; u < lanes; u++)
        to.data[c * to.pitch + done + u] = rows.data[(done + u) * rows.pitch + c];
  }
  for (int64_t c = 0; c < size; c++)
    for (int64_t j = done; j < count + lanes; j++)
      to.data[c * to.pitch + j] = j < count ? rows.data[j * rows.pitch + c] : T(0);
}

}  // namespace anyseq
