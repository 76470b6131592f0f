// Attention of many heads over tiles, forward and backward, as one parallel region each.
//
// With S = q k^T·scale + bias, softcap(S), -inf where masked, P = exp(S - lse) and
// A = P ∘ gain ∘ keep, where keep is what dropout leaves of the weights:
//
//     out = A v,   dv = A^T dout,   dA = dout v^T,   dgain = dA ∘ P ∘ keep,
//     dS = P ∘ (dA ∘ gain ∘ keep - δ) ∘ softcap',   δ = Σ_e dout ∘ out - dlse,
//     dbias = dS,   dq = dS k·scale,   dk = dS^T q·scale.
//
// A layout (see anyseq.ops.layout.tiling) is a list of passes; within a pass every query is in the
// tiles of one group only, so that groups write to rows of their own. What passes find is merged by
// log-sum-exp forward, and added up backward. Scores are held in base 2 (times log2 e).
//
// Work: a *unit* is a batch row with one head of k and v and all heads of q that share it. Its
// tiles are cut into *slices*, and a task is a slice of a unit. Who finishes the last slice of a
// unit merges what its slices found, in their order. How many slices there are depends on the
// shape alone, so the bits of the result do not depend on the number of threads.
//
// Tensors come as pointers, with strides in elements and features side by side; products of
// matrices are the caller's BLAS. Nothing here knows of torch.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include <sys/mman.h>

#include "pool.hpp"

namespace {

constexpr int64_t TASKS = 48;         // that a call is cut into, if it is long enough
constexpr int64_t AREA = 1 << 18;     // scores of a slice at least: about a millisecond
constexpr double LOG2_E = 1.4426950408889634, LN_2 = 0.6931471805599453;

// ---- what Python hands over (see call.py, which has the same fields) ----

struct Tile {
  int64_t row, height;    // in the order of the pass
  int64_t column, width;  // likewise
  int64_t bounds;         // of its first row in Layout.bounds, or -1: all columns
  int64_t left;           // bounds count from this many columns left of the tile
  int64_t mask, pitch;    // bytes in Layout.masks, or -1: none; from row to row
};

struct Pass {
  const Tile* tiles;
  int64_t count;
  const int64_t *rows, *columns;  // queries and keys in the order of the pass; null: as they stand
  int64_t row_count, column_count;
};

struct Layout {
  const Pass* passes;
  int64_t count;
  const int32_t* bounds;  // pairs: the columns [x, y) of a row may be seen
  const uint8_t* masks;   // and of these the ones that are not 0
};

template <class T>
struct Rows {  // (batch, head, row, feature)
  T* data;
  int64_t batch, head, row;
  T* at(int64_t b, int64_t h, int64_t i) const { return data + b * batch + h * head + i * row; }
};

template <class T>
struct Grid {  // (batch, head, query, key); a stride of 0: shared. A Toeplitz matrix has -1 and 1
  T* data;
  int64_t batch, head, row, column;
  T* at(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return data + b * batch + h * head + i * row + j * column;
  }
};

template <class T>
using Gemm = void (*)(const char*, const char*, const int*, const int*, const int*, const T*,
                      const T*, const int*, const T*, const int*, const T*, T*, const int*);

template <class T>
struct Call {
  int64_t batch, heads, groups, queries, keys, size, value_size, layouts, threads;
  double scale, softcap, dropout;  // 0: none
  uint64_t seed;
  int64_t first_batch_row;  // of a larger call, which dropout counts in
  const Layout* layout;  // head h has the layout h mod layouts
  Gemm<T> gemm;
  anyseq::Parallel openmp;   // may be null
  int (*blas_threads)(int);  // sets this thread's number, gives the one before; may be null
  Rows<const T> q, k, v;
  Rows<T> out;
  T* lse;                      // (B, H, N)
  const int32_t* interval;     // (B, N, 2): the keys [x, y) that a query may see; may be null
  const uint8_t* key_mask;     // (B, M); may be null
  Grid<const uint8_t> mask;    // data may be null here and below
  Grid<const T> bias, gain;
  // backward
  Rows<const T> dout;
  const T* dlse;  // (B, H, N); may be null
  Rows<T> dq, dk, dv;
  Grid<T> dbias, dgain;
  int64_t bias_sum, gain_sum;  // the entries of a head's gradient that tiles share; 0: none do
};

// ---- arithmetic ----

// 2^x for x <= 0; what roundings make positive counts as 0.
inline float power_of_two(float x) {
  // below the smallest normal number: 0, since products with less crawl
  const float kept = std::min(std::max(x, -126.0f), 0.0f);
  const float whole = std::floor(kept), y = (kept - whole - 0.5f) * float(LN_2);
  float p = 1.0f / 5040;
  for (float c : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f}) p = p * y + c;
  const int32_t bits = (int32_t(whole) + 127) << 23;
  float power;
  std::memcpy(&power, &bits, sizeof power);
  return x < -126.0f ? 0.0f : p * 1.41421356237f * power;
}

inline double power_of_two(double x) {
  const double kept = std::min(std::max(x, -1022.0), 0.0);
  const double whole = std::floor(kept), y = (kept - whole - 0.5) * LN_2;
  double p = 1.0 / 6227020800.0;
  for (double c : {1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320,
                   1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0})
    p = p * y + c;
  const int64_t bits = (int64_t(whole) + 1023) << 52;
  double power;
  std::memcpy(&power, &bits, sizeof power);
  return x < -1022.0 ? 0.0 : p * 1.4142135623730951 * power;
}

// tanh x = sign x · (1 - 2/(e^{2|x|} + 1)); near 0, where that cancels, its series.
template <class T>
inline T tangent(T x) {
  const T a = std::fabs(x), s = a * a;
  const T far = 1 - 2 * power_of_two(T(-2 * LOG2_E) * a) / (1 + power_of_two(T(-2 * LOG2_E) * a));
  const T near = a * (1 - s / 3 * (1 - s * T(0.4) * (1 - s * T(17.0 / 42))));
  return std::copysign(a < T(sizeof(T) == 4 ? 0.03 : 1e-3) ? near : far, x);
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

// C (m, n) = alpha·op(A) op(B) + beta·C, row-major.
template <class T>
void product(const Call<T>& call, bool ta, bool tb, int64_t m, int64_t n, int64_t k, double alpha,
             const T* a, int64_t lda, const T* b, int64_t ldb, int beta, T* c, int64_t ldc) {
  const int rows = int(m), cols = int(n), inner = int(k), la = int(lda), lb = int(ldb);
  const int lc = int(ldc);
  const T scale = T(alpha), keep = T(beta);
  call.gemm(tb ? "T" : "N", ta ? "T" : "N", &cols, &rows, &inner, &scale, b, &lb, a, &la, &keep, c,
            &lc);
}

// The same where B and C have rows of few features, as all but the scores do. A BLAS copies both
// factors into an order of its own first, which for a small tile takes a quarter of the time; here
// rows of B are read as they stand, and a block of C stays in registers. A is (m, k), or (k, m) if
// it is to be transposed.
#if defined(__AVX512F__)
constexpr int LANES = 16, HIGH = 6, WIDE = 4;
#elif defined(__AVX2__)
constexpr int LANES = 8, HIGH = 6, WIDE = 2;
#else
constexpr int LANES = 4, HIGH = 4, WIDE = 2;
#endif

template <int R, int V>
inline void block(bool ta, int64_t k, float alpha, const float* a, int64_t lda, const float* b,
                  int64_t ldb, bool keep, float* c, int64_t ldc) {
  typedef float Vector __attribute__((vector_size(4 * LANES)));
  Vector sums[R][V] = {};
  const int64_t down = ta ? 1 : lda, along = ta ? lda : 1;
  for (int64_t i = 0; i < k; i++) {
    Vector row[V];
    for (int u = 0; u < V; u++) std::memcpy(&row[u], b + i * ldb + u * LANES, sizeof row[u]);
    for (int r = 0; r < R; r++)
      for (int u = 0; u < V; u++) sums[r][u] += row[u] * a[r * down + i * along];
  }
  for (int r = 0; r < R; r++)
    for (int u = 0; u < V; u++) {
      Vector out = {};
      if (keep) std::memcpy(&out, c + r * ldc + u * LANES, sizeof out);
      out += alpha * sums[r][u];
      std::memcpy(c + r * ldc + u * LANES, &out, sizeof out);
    }
}

template <int V>
void strip(bool ta, int64_t m, int64_t k, float alpha, const float* a, int64_t lda, const float* b,
           int64_t ldb, bool keep, float* c, int64_t ldc) {
  int64_t r = 0;
  const int64_t down = ta ? 1 : lda;
  for (; r + HIGH <= m; r += HIGH)
    block<HIGH, V>(ta, k, alpha, a + r * down, lda, b, ldb, keep, c + r * ldc, ldc);
  for (; r + 2 <= m; r += 2)
    block<2, V>(ta, k, alpha, a + r * down, lda, b, ldb, keep, c + r * ldc, ldc);
  if (r < m) block<1, V>(ta, k, alpha, a + r * down, lda, b, ldb, keep, c + r * ldc, ldc);
}

template <class T>
void into_rows(const Call<T>& call, bool ta, int64_t m, int64_t n, int64_t k, double alpha,
               const T* a, int64_t lda, const T* b, int64_t ldb, int beta, T* c, int64_t ldc) {
  if constexpr (sizeof(T) == 4 && LANES > 4)
    if (n % (LANES * WIDE) == 0 && n <= 2 * LANES * WIDE) {
      for (int64_t j = 0; j < n; j += LANES * WIDE)
        strip<WIDE>(ta, m, k, float(alpha), a, lda, b + j, ldb, beta, c + j, ldc);
      return;
    }
  product(call, ta, false, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

// ---- one thread's working memory ----

template <class T>
struct Scratch {
  std::vector<T> held[8];
  std::vector<int64_t> x, y;
  T* take(int which, int64_t size) {
    if (int64_t(held[which].size()) < size) held[which].resize(size);
    return held[which].data();
  }
};

enum { SCORES, CHANGE, QUERIES, KEYS, VALUES, ROWS_OUT, ROW, SUMS };

// The rows first, ... of a matrix in a pass's order: as they stand, or copied together.
template <class T>
struct Panel {
  const T* data;
  int64_t pitch;
};

template <class T>
Panel<T> panel(const Rows<const T>& from, int64_t b, int64_t h, const int64_t* order,
               int64_t first, int64_t count, int64_t size, T* room) {
  if (!order) return {from.at(b, h, first), from.row};
  for (int64_t r = 0; r < count; r++)
    std::memcpy(room + r * size, from.at(b, h, order[first + r]), size * sizeof(T));
  return {room, size};
}

// ---- a tile ----

// The part of a tile that somebody may see: columns [x, y) of each row, all within [first, last).
struct Seen {
  int64_t *x, *y, first, last;
};

template <class T>
Seen seen(const Call<T>& call, const Layout& layout, const Pass& pass, const Tile& tile, int64_t b,
          Scratch<T>& scratch) {
  scratch.x.resize(std::max<size_t>(scratch.x.size(), tile.height));
  scratch.y.resize(scratch.x.size());
  Seen found{scratch.x.data(), scratch.y.data(), tile.width, 0};
  for (int64_t r = 0; r < tile.height; r++) {
    int64_t x = 0, y = tile.width;
    if (tile.bounds >= 0) {
      const int32_t* bounds = layout.bounds + 2 * (tile.bounds + r);
      x = std::max<int64_t>(x, bounds[0] - tile.left);
      y = std::min<int64_t>(y, bounds[1] - tile.left);
    }
    if (call.interval && !pass.columns) {
      const int64_t row = pass.rows ? pass.rows[tile.row + r] : tile.row + r;
      const int32_t* bounds = call.interval + 2 * (b * call.queries + row);
      x = std::max<int64_t>(x, bounds[0] - tile.column);
      y = std::min<int64_t>(y, bounds[1] - tile.column);
    }
    if (x >= y) x = y = 0;
    found.x[r] = x, found.y[r] = y;
    if (x < y) found.first = std::min(found.first, x), found.last = std::max(found.last, y);
  }
  return found;
}

// One row of a tile: query i, columns [first, last) of the tile, of which [x, y) are seen.
template <class T>
struct Line {
  const Call<T>& call;
  int64_t b, h, i, count, x, y;
  const int64_t* order;  // the keys of the columns, or null: key, key + 1, ...
  int64_t key;
  const uint8_t* mask;

  // Entries of a grid; where they do not lie side by side, copied to `room`.
  template <class G>
  const G* entries(const Grid<const G>& grid, G* room) const {
    const G* row = grid.at(b, h, i, 0);
    if (!order && grid.column == 1) return row + key;
    for (int64_t j = x; j < y; j++) room[j] = row[(order ? order[j] : key + j) * grid.column];
    return room;
  }

  // Add values to the entries of a grid's gradient that begins at `base`. Pairs of weight 0 are not
  // touched: what is masked here may be another slice's at this very moment.
  void collect(const Grid<T>& grid, T* base, const T* values, const T* weights) const {
    T* row = base + i * grid.row;
    for (int64_t j = x; j < y; j++)
      if (weights[j] != 0) row[(order ? order[j] : key + j) * grid.column] += values[j];
  }

  // From q k^T·scale to the scores, in base 2; `slope`, if asked for: the softcap's derivative.
  void finish(T* s, T* room, T* slope) const {
    const T none = -std::numeric_limits<T>::infinity();
    if (call.bias.data) {
      const T* bias = entries(call.bias, room);
      for (int64_t j = x; j < y; j++) s[j] += T(LOG2_E) * bias[j];
    }
    if (call.softcap) {
      const T cap = T(call.softcap * LOG2_E), inverse = 1 / cap;
      for (int64_t j = x; j < y; j++) {
        const T t = tangent(s[j] * inverse);
        s[j] = t * cap;
        if (slope) slope[j] = 1 - t * t;
      }
    }
    if (mask)
      for (int64_t j = x; j < y; j++) s[j] = mask[j] ? s[j] : none;
    if (call.mask.data) {
      auto* bytes = reinterpret_cast<uint8_t*>(room);
      const uint8_t* given = entries(call.mask, bytes);
      for (int64_t j = x; j < y; j++) s[j] = given[j] ? s[j] : none;
    }
    if (call.key_mask) {
      const uint8_t* given = call.key_mask + b * call.keys;
      if (order)
        for (int64_t j = x; j < y; j++) s[j] = given[order[j]] ? s[j] : none;
      else
        for (int64_t j = x; j < y; j++) s[j] = given[key + j] ? s[j] : none;
    }
    if (call.interval && order) {
      const int32_t* bounds = call.interval + 2 * (b * call.queries + i);
      for (int64_t j = x; j < y; j++)
        s[j] = order[j] >= bounds[0] && order[j] < bounds[1] ? s[j] : none;
    }
  }

  // 1/(1-p) where dropout leaves a weight, 0 where it takes it; the same whatever the tiles are.
  void keep(T* room) const {
    const uint64_t place = uint64_t(((call.first_batch_row + b) * call.heads + h) * call.queries + i);
    const uint64_t both = row_key(call.seed ^ row_key(place));
    const uint32_t low = uint32_t(both), high = uint32_t(both >> 32);
    const auto limit = uint32_t(call.dropout * 4294967296.0);
    const T kept = T(1 / (1 - call.dropout));
    for (int64_t j = x; j < y; j++) {
      const auto at = uint32_t(order ? order[j] : key + j);
      room[j] = mixed(mixed(at * 0x9e3779b9u + low) ^ high) >= limit ? kept : T(0);
    }
  }

  void clear_outside(T* s) const {
    std::fill(s, s + x, T(0));
    std::fill(s + y, s + count, T(0));
  }
};

// One tile at work: which part of it is seen, and its keys.
template <class T>
struct View {
  Seen seen;
  int64_t width, key;
  const int64_t* order;
  const uint8_t* mask;
  int64_t pitch;

  View(const Call<T>& call, const Layout& layout, const Pass& pass, const Tile& tile, int64_t b,
       Scratch<T>& scratch)
      : seen(::seen(call, layout, pass, tile, b, scratch)),
        width(seen.last - seen.first),
        key(tile.column + seen.first),
        order(pass.columns ? pass.columns + key : nullptr),
        mask(tile.mask < 0 ? nullptr : layout.masks + tile.mask + seen.first),
        pitch(tile.pitch) {}

  Line<T> line(const Call<T>& call, int64_t b, int64_t h, int64_t i, int64_t r) const {
    const bool some = seen.x[r] < seen.y[r];
    return {call, b, h, i, width, some ? seen.x[r] - seen.first : 0,
            some ? seen.y[r] - seen.first : 0, order, key, mask ? mask + r * pitch : nullptr};
  }
};

// ---- a group: tiles of the same rows, one after the other ----

struct Group {
  int64_t first, last;  // tiles
};

inline Group group_from(const Pass& pass, int64_t first) {
  int64_t last = first + 1;
  while (last < pass.count && pass.tiles[last].row == pass.tiles[first].row) last++;
  return {first, last};
}

// Where a group's rows are written.
template <class T>
struct Target {
  T* data;
  int64_t pitch;
};

// out of the group's rows, and their log-sum-exp in base 2; -inf for a row that sees nothing.
template <class T>
void forward_group(const Call<T>& call, const Layout& layout, const Pass& pass, Group group,
                   int64_t b, int64_t h, Target<T> out, T* lse, Scratch<T>& scratch) {
  const Tile& head = pass.tiles[group.first];
  const int64_t m = head.height, d = call.size, e = call.value_size;
  const int64_t side = h / (call.heads / call.groups);
  const T none = -std::numeric_limits<T>::infinity();
  const Panel<T> q = panel(call.q, b, h, pass.rows, head.row, m, d, scratch.take(QUERIES, m * d));
  T* total = scratch.take(SUMS, m);
  std::fill(lse, lse + m, none);  // the largest score so far, until the end
  std::fill(total, total + m, T(0));
  bool begun = false;
  for (int64_t t = group.first; t < group.last; t++) {
    const Tile& tile = pass.tiles[t];
    const View<T> view(call, layout, pass, tile, b, scratch);
    const int64_t w = view.width;
    if (w <= 0) continue;
    T *s = scratch.take(SCORES, m * w), *room = scratch.take(ROW, 2 * w);
    const Panel<T> k = panel(call.k, b, side, pass.columns, view.key, w, d,
                             scratch.take(KEYS, pass.columns ? w * d : 0));
    product(call, false, true, m, w, d, call.scale * LOG2_E, q.data, q.pitch, k.data, k.pitch, 0, s,
            w);
    for (int64_t r = 0; r < m; r++) {
      T* row = s + r * w;
      const int64_t i = pass.rows ? pass.rows[tile.row + r] : tile.row + r;
      const Line<T> line = view.line(call, b, h, i, r);
      line.finish(row, room, nullptr);
      T top = lse[r], sum = 0;
      for (int64_t j = line.x; j < line.y; j++) top = row[j] > top ? row[j] : top;
      if (top == none) {  // nothing is seen yet, or NaN, which goes on to the sum
        for (int64_t j = line.x; j < line.y; j++) sum += row[j] == none ? T(0) : row[j];
        std::fill(row, row + w, T(0));
        total[r] += sum;
        continue;
      }
      for (int64_t j = line.x; j < line.y; j++) {
        row[j] = power_of_two(row[j] - top);
        sum += row[j];
      }
      line.clear_outside(row);
      if (begun && top > lse[r]) {
        const T shrink = power_of_two(lse[r] - top);
        total[r] *= shrink;
        for (int64_t c = 0; c < e; c++) out.data[r * out.pitch + c] *= shrink;
      }
      lse[r] = top;
      total[r] += sum;
      if (call.gain.data) {
        const T* gain = line.entries(call.gain, room);
        for (int64_t j = line.x; j < line.y; j++) row[j] *= gain[j];
      }
      if (call.dropout) {
        line.keep(room);
        for (int64_t j = line.x; j < line.y; j++) row[j] *= room[j];
      }
    }
    const Panel<T> v = panel(call.v, b, side, pass.columns, view.key, w, e,
                             scratch.take(VALUES, pass.columns ? w * e : 0));
    into_rows(call, false, m, e, w, 1, s, w, v.data, v.pitch, begun, out.data, out.pitch);
    begun = true;
  }
  for (int64_t r = 0; r < m; r++) {
    T* row = out.data + r * out.pitch;
    const T inverse = total[r] == 0 ? T(0) : 1 / total[r];
    if (!begun) std::fill(row, row + e, T(0));
    else
      for (int64_t c = 0; c < e; c++) row[c] *= inverse;
    if (total[r] != total[r]) std::fill(row, row + e, total[r]);  // NaN
    lse[r] = total[r] == 0 ? none : lse[r] + std::log2(total[r]);
  }
}

// What a task adds gradients to: columns [first, ...) of k and v, in the order of the pass.
template <class T>
struct Sums {
  T *k, *v;
  int64_t k_pitch, v_pitch, first;
};

template <class T>
void backward_group(const Call<T>& call, const Layout& layout, const Pass& pass, Group group,
                    int64_t b, int64_t h, Target<T> dq, const Sums<T>& sums, T* dbias, T* dgain,
                    Scratch<T>& scratch) {
  const Tile& head = pass.tiles[group.first];
  const int64_t m = head.height, d = call.size, e = call.value_size;
  const int64_t side = h / (call.heads / call.groups);
  const T none = -std::numeric_limits<T>::infinity();
  const Panel<T> q = panel(call.q, b, h, pass.rows, head.row, m, d, scratch.take(QUERIES, m * d));
  const Panel<T> dout =
      panel(call.dout, b, h, pass.rows, head.row, m, e, scratch.take(ROWS_OUT, m * e));
  T *delta = scratch.take(SUMS, 2 * m), *shift = delta + m;
  for (int64_t r = 0; r < m; r++) {
    const int64_t i = pass.rows ? pass.rows[head.row + r] : head.row + r;
    const int64_t place = (b * call.heads + h) * call.queries + i;
    const T *out = call.out.at(b, h, i), *change = dout.data + r * dout.pitch;
    T sum = 0;
    for (int64_t c = 0; c < e; c++) sum += out[c] * change[c];
    delta[r] = call.dlse ? sum - call.dlse[place] : sum;
    shift[r] = call.lse[place] * T(LOG2_E);
  }
  const bool plain = !call.dropout && !call.softcap && !call.gain.data && !dbias;
  bool begun = false;
  for (int64_t t = group.first; t < group.last; t++) {
    const Tile& tile = pass.tiles[t];
    const View<T> view(call, layout, pass, tile, b, scratch);
    const int64_t w = view.width;
    if (w <= 0) continue;
    T *s = scratch.take(SCORES, m * w), *u = scratch.take(CHANGE, m * w);
    T *room = scratch.take(ROW, 4 * w), *slope = room + w, *kept = slope + w, *a = kept + w;
    const Panel<T> k = panel(call.k, b, side, pass.columns, view.key, w, d,
                             scratch.take(KEYS, pass.columns ? w * d : 0));
    const Panel<T> v = panel(call.v, b, side, pass.columns, view.key, w, e,
                             scratch.take(VALUES, pass.columns ? w * e : 0));
    product(call, false, true, m, w, d, call.scale * LOG2_E, q.data, q.pitch, k.data, k.pitch, 0, s,
            w);
    product(call, false, true, m, w, e, 1, dout.data, dout.pitch, v.data, v.pitch, 0, u, w);
    for (int64_t r = 0; r < m; r++) {
      T *__restrict p = s + r * w, *__restrict g = u + r * w;
      const int64_t i = pass.rows ? pass.rows[tile.row + r] : tile.row + r;
      const Line<T> line = view.line(call, b, h, i, r);
      const int64_t x = line.x, y = line.y;
      line.finish(p, room, call.softcap ? slope : nullptr);
      if (shift[r] == none) {  // sees nothing, or only what is forbidden
        std::fill(p, p + w, T(0));
        std::fill(g, g + w, T(0));
        continue;
      }
      const T most = shift[r], less = delta[r];
      if (plain) {
        for (int64_t j = x; j < y; j++) {
          p[j] = power_of_two(p[j] - most);
          g[j] = p[j] * (g[j] - less);
        }
        line.clear_outside(p);
        line.clear_outside(g);
        continue;
      }
      for (int64_t j = x; j < y; j++) p[j] = power_of_two(p[j] - most);
      if (call.dropout) {
        line.keep(kept);
        for (int64_t j = x; j < y; j++) g[j] *= kept[j];
      }
      const T* gain = call.gain.data ? line.entries(call.gain, room) : nullptr;
      if (gain) {
        if (dgain) {
          for (int64_t j = x; j < y; j++) a[j] = g[j] * p[j];
          line.collect(call.dgain, dgain, a, p);
        }
        for (int64_t j = x; j < y; j++) g[j] *= gain[j];
      }
      for (int64_t j = x; j < y; j++) g[j] = p[j] * (g[j] - less);
      if (call.softcap)
        for (int64_t j = x; j < y; j++) g[j] *= slope[j];
      if (dbias) line.collect(call.dbias, dbias, g, p);
      if (gain)
        for (int64_t j = x; j < y; j++) p[j] *= gain[j];
      if (call.dropout)
        for (int64_t j = x; j < y; j++) p[j] *= kept[j];
      line.clear_outside(p);
      line.clear_outside(g);
    }
    const int64_t at = view.key - sums.first;
    into_rows(call, true, w, e, m, 1, s, w, dout.data, dout.pitch, 1, sums.v + at * sums.v_pitch,
              sums.v_pitch);
    into_rows(call, true, w, d, m, call.scale, u, w, q.data, q.pitch, 1,
              sums.k + at * sums.k_pitch, sums.k_pitch);
    into_rows(call, false, m, d, w, call.scale, u, w, k.data, k.pitch, begun, dq.data, dq.pitch);
    begun = true;
  }
  if (!begun)
    for (int64_t r = 0; r < m; r++) std::fill_n(dq.data + r * dq.pitch, d, T(0));
}

// ---- slices, units, tasks ----

// Ask for large pages under a result that is about to be written for the first time: to get its
// memory page by page can take as long as the arithmetic. A hint; nothing depends on it.
template <class T>
void in_large_pages(const Rows<T>& rows, int64_t batch, int64_t heads, int64_t count, int64_t size) {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t page = 1 << 21;
  if (!rows.data || !batch || !heads || !count) return;
  const T* end = rows.at(batch - 1, heads - 1, count - 1) + size;
  const uintptr_t first = (uintptr_t(rows.data) + page - 1) / page * page;
  const uintptr_t last = uintptr_t(end) / page * page;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

// The tiles [cut[s], cut[s + 1]) of a pass are those of slice s: about equal areas, whole groups.
std::vector<int64_t> cuts(const Pass& pass, int64_t slices) {
  std::vector<int64_t> found{0};
  int64_t area = 0, so_far = 0;
  for (int64_t t = 0; t < pass.count; t++) area += pass.tiles[t].height * pass.tiles[t].width;
  for (int64_t t = 0; t < pass.count;) {
    const int64_t end = group_from(pass, t).last;
    for (; t < end; t++) so_far += pass.tiles[t].height * pass.tiles[t].width;
    while (int64_t(found.size()) < slices && so_far * slices >= area * int64_t(found.size()))
      found.push_back(t);
  }
  found.resize(slices + 1, pass.count);
  found.back() = pass.count;
  return found;
}

template <class T>
struct Part {  // of a unit: what a pass of one head found, in the order of the pass
  std::vector<T> rows, lse;
};

template <class T>
struct Share {  // of a unit: what a slice of one pass of one layout adds to k and v
  std::vector<T> k, v;
  int64_t first = 0, last = 0;
};

template <class T>
struct Unit {
  std::once_flag begun;
  std::atomic<int64_t> left{0};
  std::vector<Part<T>> parts;                    // head of the unit, pass
  std::vector<Share<T>> shares;                  // slice, layout, pass
  std::vector<std::vector<T>> bias, gain;        // slice, head of the unit
};

template <class T>
class Work {
 public:
  Work(const Call<T>& call, bool backward) : call_(call), backward_(backward) {
    per_unit_ = call.heads / call.groups;
    int64_t area = 0, groups = 1;
    for (int64_t l = 0; l < call.layouts; l++) {
      int64_t own = 0;
      for (int64_t p = 0; p < call.layout[l].count; p++) {
        const Pass& pass = call.layout[l].passes[p];
        for (int64_t t = 0; t < pass.count; t++) own += pass.tiles[t].height * pass.tiles[t].width;
        groups = std::max(groups, pass.count);
        passes_ = std::max(passes_, p + 1);
      }
      area = std::max(area, own);
    }
    const int64_t units = call.batch * call.groups;
    slices_ = std::min((TASKS + units - 1) / units, area * per_unit_ / AREA);
    slices_ = std::max<int64_t>(1, std::min(slices_, groups));
    for (int64_t l = 0; l < call.layouts; l++)
      for (int64_t p = 0; p < passes_; p++)
        cuts_.push_back(p < call.layout[l].count ? cuts(call.layout[l].passes[p], slices_)
                                                 : std::vector<int64_t>(slices_ + 1, 0));
    units_ = std::vector<Unit<T>>(units);
    for (auto& unit : units_) unit.left = slices_;
  }

  bool run() {
    if (backward_) {
      in_large_pages(call_.dq, call_.batch, call_.heads, call_.queries, call_.size);
      in_large_pages(call_.dk, call_.batch, call_.groups, call_.keys, call_.size);
      in_large_pages(call_.dv, call_.batch, call_.groups, call_.keys, call_.value_size);
    } else {
      in_large_pages(call_.out, call_.batch, call_.heads, call_.queries, call_.value_size);
    }
    const int64_t tasks = int64_t(units_.size()) * slices_;
    return anyseq::pool().run(tasks, call_.threads, call_.openmp, [&](int64_t task) {
      const int before = call_.blas_threads ? call_.blas_threads(1) : 0;
      struct Restore {
        const Call<T>& call;
        int before;
        ~Restore() {
          if (call.blas_threads) call.blas_threads(before);
        }
      } restore{call_, before};
      slice(task / slices_, task % slices_);
    });
  }

 private:
  const std::vector<int64_t>& cut(int64_t l, int64_t p) const { return cuts_[l * passes_ + p]; }
  // The first pass writes to the result itself, unless it picks queries.
  static bool direct(const Pass& pass, int64_t p) { return p == 0 && !pass.rows; }

  void begin(Unit<T>& unit, int64_t g) {
    unit.parts.resize(per_unit_ * passes_);
    for (int64_t own = 0; own < per_unit_; own++) {
      const Layout& layout = call_.layout[(g * per_unit_ + own) % call_.layouts];
      for (int64_t p = 0; p < layout.count; p++) {
        const Pass& pass = layout.passes[p];
        if (direct(pass, p)) continue;
        Part<T>& part = unit.parts[own * passes_ + p];
        // rows in no tile see nothing in this pass
        part.rows.assign(pass.row_count * (backward_ ? call_.size : call_.value_size), T(0));
        if (!backward_) part.lse.assign(pass.row_count, -std::numeric_limits<T>::infinity());
      }
    }
    if (backward_) {
      unit.shares.resize(slices_ * call_.layouts * passes_);
      unit.bias.resize(slices_ * per_unit_);
      unit.gain.resize(slices_ * per_unit_);
    }
  }

  void clear(int64_t b, int64_t h, const Layout& layout) {
    // rows of the first pass that are in no tile
    std::vector<bool> written(call_.queries, false);
    if (layout.count && direct(layout.passes[0], 0))
      for (int64_t t = 0; t < layout.passes[0].count; t++) {
        const Tile& tile = layout.passes[0].tiles[t];
        std::fill_n(written.begin() + tile.row, tile.height, true);
      }
    for (int64_t i = 0; i < call_.queries; i++) {
      if (written[i]) continue;
      if (backward_) {
        std::fill_n(call_.dq.at(b, h, i), call_.size, T(0));
      } else {
        std::fill_n(call_.out.at(b, h, i), call_.value_size, T(0));
        lse(b, h)[i] = -std::numeric_limits<T>::infinity();
      }
    }
  }

  T* lse(int64_t b, int64_t h) const { return call_.lse + (b * call_.heads + h) * call_.queries; }

  void slice(int64_t number, int64_t s) {
    static thread_local Scratch<T> scratch;
    const int64_t b = number / call_.groups, g = number % call_.groups;
    Unit<T>& unit = units_[number];
    std::call_once(unit.begun, [&] { begin(unit, g); });
    if (backward_ && slices_ == 1) clear_sides(b, g);
    for (int64_t own = 0; own < per_unit_; own++) {
      const int64_t h = g * per_unit_ + own, l = h % call_.layouts;
      const Layout& layout = call_.layout[l];
      if (s == 0) clear(b, h, layout);
      for (int64_t p = 0; p < layout.count; p++) {
        const Pass& pass = layout.passes[p];
        const int64_t first = cut(l, p)[s], last = cut(l, p)[s + 1];
        if (first == last) continue;
        Part<T>& part = unit.parts[own * passes_ + p];
        if (backward_) {
          const Sums<T> sums = share(unit, b, g, s, l, p, first, last);
          T* bias = term(call_.dbias, call_.bias_sum, unit.bias, s * per_unit_ + own, b, h);
          T* gain = term(call_.dgain, call_.gain_sum, unit.gain, s * per_unit_ + own, b, h);
          for (int64_t t = first; t < last;) {
            const Group group = group_from(pass, t);
            const int64_t row = pass.tiles[t].row;
            const Target<T> dq =
                direct(pass, p) ? Target<T>{call_.dq.at(b, h, row), call_.dq.row}
                                : Target<T>{part.rows.data() + row * call_.size, call_.size};
            backward_group(call_, layout, pass, group, b, h, dq, sums, bias, gain, scratch);
            t = group.last;
          }
        } else {
          for (int64_t t = first; t < last;) {
            const Group group = group_from(pass, t);
            const int64_t row = pass.tiles[t].row;
            if (direct(pass, p))
              forward_group(call_, layout, pass, group, b, h,
                            Target<T>{call_.out.at(b, h, row), call_.out.row}, lse(b, h) + row,
                            scratch);
            else
              forward_group(call_, layout, pass, group, b, h,
                            Target<T>{part.rows.data() + row * call_.value_size, call_.value_size},
                            part.lse.data() + row, scratch);
            t = group.last;
          }
        }
      }
    }
    if (unit.left.fetch_sub(1) == 1) finish(unit, b, g);
  }

  void clear_sides(int64_t b, int64_t g) {
    for (int64_t j = 0; j < call_.keys; j++) {
      std::fill_n(call_.dk.at(b, g, j), call_.size, T(0));
      std::fill_n(call_.dv.at(b, g, j), call_.value_size, T(0));
    }
  }

  // Where this slice adds the gradients of k and v: its own room, unless nobody else is about.
  Sums<T> share(Unit<T>& unit, int64_t b, int64_t g, int64_t s, int64_t l, int64_t p, int64_t first,
                int64_t last) {
    const Pass& pass = call_.layout[l].passes[p];
    if (slices_ == 1 && !pass.columns)
      return {call_.dk.at(b, g, 0), call_.dv.at(b, g, 0), call_.dk.row, call_.dv.row, 0};
    Share<T>& own = unit.shares[(s * call_.layouts + l) * passes_ + p];
    if (own.last == 0) {
      own.first = pass.column_count;
      for (int64_t t = first; t < last; t++) {
        own.first = std::min(own.first, pass.tiles[t].column);
        own.last = std::max(own.last, pass.tiles[t].column + pass.tiles[t].width);
      }
      own.k.assign((own.last - own.first) * call_.size, T(0));
      own.v.assign((own.last - own.first) * call_.value_size, T(0));
    }
    return {own.k.data(), own.v.data(), call_.size, call_.value_size, own.first};
  }

  // Where entry (0, 0) of a head's gradient of a term is, for this slice; null: not asked for.
  T* term(const Grid<T>& gradient, int64_t sum, std::vector<std::vector<T>>& own, int64_t which,
          int64_t b, int64_t h) {
    if (!gradient.data) return nullptr;
    if (!sum) return gradient.at(b, h, 0, 0);
    if (own[which].empty()) own[which].assign(sum, T(0));
    return own[which].data() + call_.queries - 1;  // of a Toeplitz matrix
  }

  void finish(Unit<T>& unit, int64_t b, int64_t g) {
    for (int64_t own = 0; own < per_unit_; own++) {
      const int64_t h = g * per_unit_ + own;
      const Layout& layout = call_.layout[h % call_.layouts];
      for (int64_t p = 0; p < layout.count; p++)
        if (!direct(layout.passes[p], p))
          backward_ ? add_rows(layout.passes[p], unit.parts[own * passes_ + p], b, h)
                    : merge_rows(layout.passes[p], unit.parts[own * passes_ + p], b, h);
      if (backward_) {
        add_term(call_.dbias, call_.bias_sum, unit.bias, own, b, h);
        add_term(call_.dgain, call_.gain_sum, unit.gain, own, b, h);
      } else {
        for (int64_t i = 0; i < call_.queries; i++) lse(b, h)[i] *= T(LN_2);
      }
    }
    if (backward_) {
      if (slices_ > 1) clear_sides(b, g);
      for (int64_t s = 0; s < slices_; s++)
        for (int64_t l = 0; l < call_.layouts; l++)
          for (int64_t p = 0; p < call_.layout[l].count; p++)
            add_share(call_.layout[l].passes[p], unit.shares[(s * call_.layouts + l) * passes_ + p],
                      b, g);
    }
    unit.parts = {};
    unit.shares = {};
    unit.bias = {};
    unit.gain = {};
  }

  void merge_rows(const Pass& pass, const Part<T>& part, int64_t b, int64_t h) {
    const int64_t e = call_.value_size;
    for (int64_t r = 0; r < pass.row_count; r++) {
      const int64_t i = pass.rows ? pass.rows[r] : r;
      T *out = call_.out.at(b, h, i), *sum = lse(b, h) + i;
      const T *some = part.rows.data() + r * e, found = part.lse[r];
      if (found == -std::numeric_limits<T>::infinity()) continue;
      const T top = std::max(*sum, found);
      const T old = power_of_two(*sum - top), fresh = power_of_two(found - top);
      const T inverse = 1 / (old + fresh);
      for (int64_t c = 0; c < e; c++) out[c] = (out[c] * old + some[c] * fresh) * inverse;
      *sum = top + std::log2(old + fresh);
    }
  }

  void add_rows(const Pass& pass, const Part<T>& part, int64_t b, int64_t h) {
    for (int64_t r = 0; r < pass.row_count; r++) {
      T* into = call_.dq.at(b, h, pass.rows ? pass.rows[r] : r);
      const T* some = part.rows.data() + r * call_.size;
      for (int64_t c = 0; c < call_.size; c++) into[c] += some[c];
    }
  }

  void add_share(const Pass& pass, const Share<T>& share, int64_t b, int64_t g) {
    for (int64_t column = share.first; column < share.last; column++) {
      const int64_t j = pass.columns ? pass.columns[column] : column, at = column - share.first;
      T *dk = call_.dk.at(b, g, j), *dv = call_.dv.at(b, g, j);
      const T *k = share.k.data() + at * call_.size, *v = share.v.data() + at * call_.value_size;
      for (int64_t c = 0; c < call_.size; c++) dk[c] += k[c];
      for (int64_t c = 0; c < call_.value_size; c++) dv[c] += v[c];
    }
  }

  void add_term(const Grid<T>& gradient, int64_t sum, const std::vector<std::vector<T>>& own,
                int64_t head, int64_t b, int64_t h) {
    if (!gradient.data || !sum) return;
    T* into = gradient.at(b, h, 0, 0);
    std::fill_n(into, sum, T(0));
    for (int64_t s = 0; s < slices_; s++) {
      const std::vector<T>& some = own[s * per_unit_ + head];
      for (int64_t c = 0; c < int64_t(some.size()); c++) into[c] += some[c];
    }
  }

  const Call<T>& call_;
  const bool backward_;
  int64_t per_unit_ = 1, passes_ = 1, slices_ = 1;
  std::vector<std::vector<int64_t>> cuts_;  // layout, pass
  std::vector<Unit<T>> units_;
};

template <class T>
int run(const Call<T>* call, int backward) {
  try {
    return Work<T>(*call, backward != 0).run() ? 0 : 1;
  } catch (const std::exception&) {
    return 1;
  }
}

}  // namespace

// 0: done; 1: out of memory.
#define EXPORTED extern "C" __attribute__((visibility("default")))
EXPORTED int anyseq_attention_float(const Call<float>* call, int backward) {
  return run(call, backward);
}
EXPORTED int anyseq_attention_double(const Call<double>* call, int backward) {
  return run(call, backward);
}
