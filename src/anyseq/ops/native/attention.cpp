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
// tiles are cut into *slices*, and a task is a slice of a unit. What slices add to shared gradients
// is added in their order, and who finishes the last one merges the passes. How many slices there
// are depends on the shape alone, so the bits of the result do not depend on the number of threads.
//
// Tensors come as pointers, with strides in elements and features side by side. Those of q, k, v,
// out and their gradients may hold halves: they are widened as tiles are read, and results, summed
// in T for a unit, are narrowed once at its end. Nothing here knows of torch.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include <sys/mman.h>

#include "arithmetic.hpp"
#include "halves.hpp"
#include "pool.hpp"

namespace {

using namespace anyseq;

constexpr int64_t TASKS = 48;         // that a call is cut into, if it is long enough
constexpr int64_t AREA = 1 << 18;     // scores of a slice at least: about a millisecond
constexpr double LOG2_E = 1.4426950408889634, LN_2 = 0.6931471805599453;

// ---- what Python hands over (see call.py, which has the same fields) ----

struct Tile {
  int64_t row, height;    // in the order of the pass
  int64_t column, width;  // likewise
  int64_t bounds, mask;   // where they begin in those of the layout, or -1: all columns
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
  const int32_t* bounds;  // of each row of a tile: the columns [x, y) of the tile may be seen
  const uint8_t* masks;   // (height, width): and of these the ones that are not 0
};

struct Rows {  // (batch, head, row, feature)
  void* data;
  int64_t batch, head, row;
  template <class S>
  S* at(int64_t b, int64_t h, int64_t i) const {
    return static_cast<S*>(data) + b * batch + h * head + i * row;
  }
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
struct Call {
  int64_t batch, heads, groups, queries, keys, size, value_size, layouts, threads;
  Kind kind;                       // of all Rows; the others are in T
  double scale, softcap, dropout;  // 0: none
  uint64_t seed;
  int64_t first_batch_row;  // of a larger call, which dropout counts in
  const Layout* layout;  // head h has the layout h mod layouts
  Parallel openmp;  // may be null
  Rows q, k, v, out;
  T* lse;                      // (B, H, N)
  const int32_t* interval;     // (B, N, 2): the keys [x, y) that a query may see; may be null
  const uint8_t* key_mask;     // (B, M); may be null
  Grid<const uint8_t> mask;    // data may be null here and below
  Grid<const T> bias, gain;
  // backward
  Rows dout;
  const T* dlse;  // (B, H, N); may be null
  Rows dq, dk, dv;
  Grid<T> dbias, dgain;
  int64_t bias_sum, gain_sum;  // the entries of a head's gradient that tiles share; 0: none do
  // Of queries and of keys, or null. Then entry (i, j) of the bias is that at rows[i] - columns[j]
  // from bias.data on, which is the middle of a table; and bias_sum is the length of the table.
  const int64_t *bias_rows, *bias_columns;
};

// ---- one thread's working memory ----

template <class T>
struct Scratch {
  std::vector<T> held[11];
  std::vector<int64_t> x, y;
  T* take(int which, int64_t size) {  // aligned as vectors are
    constexpr int64_t spare = BYTES / sizeof(T);
    if (int64_t(held[which].size()) < size + spare) held[which] = std::vector<T>(size + spare);
    const uintptr_t first = reinterpret_cast<uintptr_t>(held[which].data());
    return reinterpret_cast<T*>((first + BYTES - 1) / BYTES * BYTES);
  }
};

enum { SCORES, CHANGE, QUERIES, KEYS, VALUES, ACROSS_KEYS, ACROSS_VALUES, ROWS_OUT, ROW, SUMS, OUT };

// Row i of one of a call's matrices, in T.
template <class T>
const T* row_of(const Call<T>& call, const Rows& from, int64_t b, int64_t h, int64_t i, int64_t size,
                T* room) {
  if (call.kind == PLAIN) return from.at<const T>(b, h, i);
  widen(call.kind, from.at<const uint16_t>(b, h, i), room, size);
  return room;
}

// The rows first, ... of one, in a pass's order: as they stand, or copied together.
template <class T>
Panel<const T> picked(const Call<T>& call, const Rows& from, int64_t b, int64_t h,
                      const int64_t* order, int64_t first, int64_t count, int64_t size, int which,
                      Scratch<T>& scratch) {
  if (!order && call.kind == PLAIN) return {from.at<const T>(b, h, first), from.row};
  T* room = scratch.take(which, count * size);
  for (int64_t r = 0; r < count; r++) {
    const int64_t i = order ? order[first + r] : first + r;
    if (call.kind == PLAIN) std::memcpy(room + r * size, from.at<const T>(b, h, i), size * sizeof(T));
    else row_of(call, from, b, h, i, size, room + r * size);
  }
  return {room, size};
}

// The keys and values of a slice: columns from `first` on, in the order of its pass. Products with
// rows of queries want them across: feature by feature.
template <class T>
struct Sides {
  int64_t first;
  Panel<const T> k, v, across_k, across_v;

  Sides(const Call<T>& call, const Pass& pass, int64_t first, int64_t last, int64_t b, int64_t g,
        bool backward, Scratch<T>& scratch)
      : first(first) {
    const int64_t count = last - first, d = call.size, e = call.value_size;
    k = picked(call, call.k, b, g, pass.columns, first, count, d, KEYS, scratch);
    v = picked(call, call.v, b, g, pass.columns, first, count, e, VALUES, scratch);
    across_k = across(k, count, d, ACROSS_KEYS, scratch);
    across_v = backward ? across(v, count, e, ACROSS_VALUES, scratch) : v;
  }

 private:
  static Panel<const T> across(Panel<const T> rows, int64_t count, int64_t size, int which,
                               Scratch<T>& scratch) {
    // an odd number of vectors from row to row, so that rows do not meet in the same lines of cache
    const int64_t pitch = ((count / LANES<T> + 2) | 1) * LANES<T>;
    const Panel<T> room{scratch.take(which, size * pitch), pitch};
    transpose(rows, count, size, room);
    return {room.data, pitch};
  }
};

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
      x = layout.bounds[tile.bounds + 2 * r];
      y = layout.bounds[tile.bounds + 2 * r + 1];
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
  int64_t b, h, i, x, y;
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

  // Add values to the entries of a grid's gradient that begins at `base`. If other slices write there,
  // too, pairs of weight 0 are not touched: they may be another slice's at this very moment.
  void collect(const Grid<T>& grid, T* base, bool own, const T* values, const T* weights) const {
    T* row = base + i * grid.row;
    if (own && !order && grid.column == 1)
      for (int64_t j = x; j < y; j++) row[key + j] += values[j];
    else
      for (int64_t j = x; j < y; j++)
        if (weights[j] != 0) row[(order ? order[j] : key + j) * grid.column] += values[j];
  }

  // The biases, where places tell them.
  const T* placed(T* room) const {
    const T* row = call.bias.at(b, h, 0, 0) + call.bias_rows[i];
    for (int64_t j = x; j < y; j++) room[j] = row[-call.bias_columns[order ? order[j] : key + j]];
    return room;
  }

  void collect_placed(T* base, const T* values) const {
    T* row = base + call.bias_rows[i];
    for (int64_t j = x; j < y; j++) row[-call.bias_columns[order ? order[j] : key + j]] += values[j];
  }

  // From q k^T·scale to the scores, in base 2; `slope`, if asked for: the softcap's derivative.
  void finish(T* s, T* room, T* slope) const {
    const T none = -std::numeric_limits<T>::infinity();
    if (call.bias.data) {
      const T* bias = call.bias_rows ? placed(room) : entries(call.bias, room);
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

  // Of a row of w scores, whole vectors: none where nobody looks. Gives the highest, or `top`.
  T highest(T* s, int64_t w, T top) const {
    const Vector<T> none = Vector<T>{} - std::numeric_limits<T>::infinity();
    Vector<T> most = none;
    for (int64_t j = 0; j < w; j += LANES<T>) {
      const Vector<T> given = load<Vector<T>>(s + j), some = inside(j) ? given : none;
      store(s + j, some);
      most = some > most ? some : most;
    }
    return std::max(top, largest_of<T>(most));
  }

  // The weights 2^(s - shift); 0 where nobody looks. Gives their sum.
  T weights(T* s, int64_t w, T shift) const {
    Vector<T> sum = {};
    for (int64_t j = 0; j < w; j += LANES<T>) {
      const Vector<T> power = power_of_two<T>(load<Vector<T>>(s + j) - shift);
      const Vector<T> weight = inside(j) ? power : Vector<T>{};
      store(s + j, weight);
      sum += weight;
    }
    return sum_of<T>(sum);
  }

  // The changes of scores, p ∘ (g - less), from those g of the weights p.
  void changes(T* g, const T* p, int64_t w, T less) const {
    for (int64_t j = 0; j < w; j += LANES<T>) {
      const Vector<T> change = load<Vector<T>>(p + j) * (load<Vector<T>>(g + j) - less);
      store(g + j, inside(j) ? change : Vector<T>{});
    }
  }

 private:
  // Which of the columns from j on are seen, a vector of them.
  Places<T> inside(int64_t j) const {
    using Place = std::remove_reference_t<decltype(Places<T>{}[0])>;
    Places<T> at;
    for (int u = 0; u < LANES<T>; u++) at[u] = Place(u);
    return (at >= Place(x - j)) & (at < Place(y - j));
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
        pitch(tile.width) {}

  Line<T> line(const Call<T>& call, int64_t b, int64_t h, int64_t i, int64_t r) const {
    const bool some = seen.x[r] < seen.y[r];
    const int64_t x = some ? seen.x[r] - seen.first : 0, y = some ? seen.y[r] - seen.first : 0;
    return {call, b, h, i, x, y, order, key, mask ? mask + r * pitch : nullptr};
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

// out of the group's rows, and their log-sum-exp in base 2; -inf for a row that sees nothing.
template <class T>
void forward_group(const Call<T>& call, const Layout& layout, const Pass& pass, Group group,
                   int64_t b, int64_t h, const Sides<T>& sides, Panel<T> out, T* lse,
                   Scratch<T>& scratch) {
  const Tile& head = pass.tiles[group.first];
  const int64_t m = head.height, d = call.size, e = call.value_size;
  const T none = -std::numeric_limits<T>::infinity();
  const Panel<const T> q = picked(call, call.q, b, h, pass.rows, head.row, m, d, QUERIES, scratch);
  T* total = scratch.take(SUMS, m);
  std::fill(lse, lse + m, none);  // the largest score so far, until the end
  std::fill(total, total + m, T(0));
  bool begun = false;
  for (int64_t t = group.first; t < group.last; t++) {
    const Tile& tile = pass.tiles[t];
    const View<T> view(call, layout, pass, tile, b, scratch);
    if (view.width <= 0) continue;
    const int64_t w = whole<T>(view.width), at = view.key - sides.first;
    const Panel<T> s{scratch.take(SCORES, m * w), w};
    T* room = scratch.take(ROW, w);
    multiply(m, w, d, call.scale * LOG2_E, Left<T>{q.data, q.pitch, 1},
             Panel<const T>{sides.across_k.data + at, sides.across_k.pitch}, false, s);
    for (int64_t r = 0; r < m; r++) {
      T* row = s.data + r * w;
      const int64_t i = pass.rows ? pass.rows[tile.row + r] : tile.row + r;
      const Line<T> line = view.line(call, b, h, i, r);
      line.finish(row, room, nullptr);
      const T top = line.highest(row, w, lse[r]);
      if (top == none) {  // nothing is seen yet, or NaN, which goes on to the sum
        for (int64_t j = line.x; j < line.y; j++) total[r] += row[j] == none ? T(0) : row[j];
        std::fill(row, row + w, T(0));
        continue;
      }
      const T sum = line.weights(row, w, top);
      if (begun && top > lse[r]) {
        const T shrink = power_of_two<T>(lse[r] - top);
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
    multiply(m, e, view.width, 1, Left<T>{s.data, w, 1}, sides.v.from(at), begun, out);
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

// What a task adds gradients to: columns of k and v, from the first of its sides on.
template <class T>
struct Sums {
  Panel<T> k, v;
};

template <class T>
void backward_group(const Call<T>& call, const Layout& layout, const Pass& pass, Group group,
                    int64_t b, int64_t h, const Sides<T>& sides, Panel<T> dq, const Sums<T>& sums,
                    T* dbias, T* dgain, Scratch<T>& scratch) {
  const Tile& head = pass.tiles[group.first];
  const int64_t m = head.height, d = call.size, e = call.value_size;
  const T none = -std::numeric_limits<T>::infinity();
  const Panel<const T> q = picked(call, call.q, b, h, pass.rows, head.row, m, d, QUERIES, scratch);
  const Panel<const T> dout =
      picked(call, call.dout, b, h, pass.rows, head.row, m, e, ROWS_OUT, scratch);
  T *delta = scratch.take(SUMS, 2 * m), *shift = delta + m, *room_out = scratch.take(OUT, e);
  for (int64_t r = 0; r < m; r++) {
    const int64_t i = pass.rows ? pass.rows[head.row + r] : head.row + r;
    const int64_t place = (b * call.heads + h) * call.queries + i;
    const T* out = row_of(call, call.out, b, h, i, e, room_out);
    delta[r] = dot(out, dout.data + r * dout.pitch, e);
    if (call.dlse) delta[r] -= call.dlse[place];
    shift[r] = call.lse[place] * T(LOG2_E);
  }
  bool begun = false;
  for (int64_t t = group.first; t < group.last; t++) {
    const Tile& tile = pass.tiles[t];
    const View<T> view(call, layout, pass, tile, b, scratch);
    if (view.width <= 0) continue;
    const int64_t w = whole<T>(view.width), at = view.key - sides.first;
    const Panel<T> s{scratch.take(SCORES, m * w), w}, u{scratch.take(CHANGE, m * w), w};
    T *room = scratch.take(ROW, 4 * w), *slope = room + w, *kept = slope + w, *a = kept + w;
    multiply(m, w, d, call.scale * LOG2_E, Left<T>{q.data, q.pitch, 1},
             Panel<const T>{sides.across_k.data + at, sides.across_k.pitch}, false, s);
    multiply(m, w, e, 1, Left<T>{dout.data, dout.pitch, 1},
             Panel<const T>{sides.across_v.data + at, sides.across_v.pitch}, false, u);
    for (int64_t r = 0; r < m; r++) {
      T *p = s.data + r * w, *g = u.data + r * w;
      const int64_t i = pass.rows ? pass.rows[tile.row + r] : tile.row + r;
      const Line<T> line = view.line(call, b, h, i, r);
      const int64_t x = line.x, y = line.y;
      if (shift[r] == none) {  // sees nothing, or only what is forbidden
        std::fill(p, p + w, T(0));
        std::fill(g, g + w, T(0));
        continue;
      }
      line.finish(p, room, call.softcap ? slope : nullptr);
      line.weights(p, w, shift[r]);
      if (call.dropout) {
        line.keep(kept);
        for (int64_t j = x; j < y; j++) g[j] *= kept[j];
      }
      const T* gain = call.gain.data ? line.entries(call.gain, room) : nullptr;
      if (gain) {
        for (int64_t j = x; j < y; j++) a[j] = g[j] * p[j], g[j] *= gain[j];
        if (dgain) line.collect(call.dgain, dgain, call.gain_sum, a, p);
      }
      line.changes(g, p, w, delta[r]);
      if (call.softcap)
        for (int64_t j = x; j < y; j++) g[j] *= slope[j];
      if (dbias && call.bias_rows)
        line.collect_placed(dbias, g);
      else if (dbias)
        line.collect(call.dbias, dbias, call.bias_sum, g, p);
      if (gain)
        for (int64_t j = x; j < y; j++) p[j] *= gain[j];
      if (call.dropout)
        for (int64_t j = x; j < y; j++) p[j] *= kept[j];
    }
    multiply(view.width, e, m, 1, Left<T>{s.data, 1, w}, dout, true, sums.v.from(at));
    multiply(view.width, d, m, call.scale, Left<T>{u.data, 1, w}, q, true, sums.k.from(at));
    multiply(m, d, view.width, call.scale, Left<T>{u.data, w, 1}, sides.k.from(at), begun, dq);
    begun = true;
  }
  if (!begun)
    for (int64_t r = 0; r < m; r++) std::fill_n(dq.data + r * dq.pitch, d, T(0));
}

// ---- slices, units, tasks ----

// Ask for large pages under a result that is about to be written for the first time: to get its
// memory page by page can take as long as the arithmetic. A hint; nothing depends on it.
template <class T>
void in_large_pages(const T* data, const T* end) {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t page = 1 << 21;
  const uintptr_t first = (uintptr_t(data) + page - 1) / page * page;
  const uintptr_t last = uintptr_t(end) / page * page;
  if (data && first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

template <class T>
void in_large_pages(Kind kind, const Rows& rows, int64_t batch, int64_t heads, int64_t count,
                    int64_t size) {
  if (!rows.data || !batch || !heads || !count) return;
  if (kind == PLAIN)
    in_large_pages(rows.at<T>(0, 0, 0), rows.at<T>(batch - 1, heads - 1, count - 1) + size);
  else
    in_large_pages(rows.at<uint16_t>(0, 0, 0),
                   rows.at<uint16_t>(batch - 1, heads - 1, count - 1) + size);
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
  std::unique_ptr<T[]> rows;
  std::vector<T> lse;  // -inf for a row in no tile, whose numbers nobody has written; backward else 0
};

template <class T>
struct Share {  // of a slice: what it adds to columns [first, last) of k and v, of one pass
  std::vector<T> k, v;
  int64_t first = 0, last = 0;
};

template <class T>
struct Found {  // by a slice, backward
  std::vector<Share<T>> shares;            // layout, pass
  std::vector<std::vector<T>> bias, gain;  // head of the unit
  bool whole = false;
};

template <class T>
struct Unit {
  std::once_flag begun;
  std::vector<T> wide;  // of halves: the results in T, heads of q, then k, then v
  std::vector<Part<T>> parts;  // head of the unit, pass
  std::vector<Found<T>> found;
  std::mutex mutex;  // guards what follows, and `whole`
  int64_t left = 0, added = 0;
  bool adding = false;
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
      large_pages(call_.dq, call_.heads, call_.queries, call_.size);
      large_pages(call_.dk, call_.groups, call_.keys, call_.size);
      large_pages(call_.dv, call_.groups, call_.keys, call_.value_size);
    } else {
      large_pages(call_.out, call_.heads, call_.queries, call_.value_size);
    }
    const int64_t tasks = int64_t(units_.size()) * slices_;
    // slices of a unit one after the other, so that few wait for their turn to be added
    return pool().run(tasks, call_.threads, int64_t(units_.size()), call_.openmp,
                      [&](int64_t task) { slice(task / slices_, task % slices_); });
  }

 private:
  const std::vector<int64_t>& cut(int64_t l, int64_t p) const { return cuts_[l * passes_ + p]; }
  // The first pass writes to the result itself, unless it picks queries.
  static bool direct(const Pass& pass, int64_t p) { return p == 0 && !pass.rows; }

  void large_pages(const Rows& rows, int64_t heads, int64_t count, int64_t size) const {
    in_large_pages<T>(call_.kind, rows, call_.batch, heads, count, size);
  }

  // Where a unit's results are summed: out, or dq, of one of its heads; dk; dv. They are the result
  // itself, or room for it in T.
  int64_t row_size() const { return backward_ ? call_.size : call_.value_size; }

  Panel<T> rows_of(Unit<T>& unit, int64_t b, int64_t h) const {
    const int64_t own = h % per_unit_ * call_.queries * row_size();
    return summed(unit, backward_ ? call_.dq : call_.out, b, h, own, row_size());
  }

  Panel<T> keys_of(Unit<T>& unit, int64_t b, int64_t g) const {
    return summed(unit, call_.dk, b, g, per_unit_ * call_.queries * row_size(), call_.size);
  }

  Panel<T> values_of(Unit<T>& unit, int64_t b, int64_t g) const {
    const int64_t before = (per_unit_ * call_.queries + call_.keys) * call_.size;
    return summed(unit, call_.dv, b, g, before, call_.value_size);
  }

  Panel<T> summed(Unit<T>& unit, const Rows& result, int64_t b, int64_t h, int64_t place,
                  int64_t size) const {
    if (call_.kind == PLAIN) return {result.at<T>(b, h, 0), result.row};
    return {unit.wide.data() + place, size};
  }

  // Room that a unit has done with serves the next one, while it is still in the cache.
  void make_room(Unit<T>& unit) {
    const int64_t both = backward_ ? call_.keys * (call_.size + call_.value_size) : 0;
    std::unique_lock<std::mutex> hold(mutex_);
    if (!spare_.empty()) {
      unit.wide = std::move(spare_.back());
      spare_.pop_back();
    }
    hold.unlock();
    unit.wide.resize(per_unit_ * call_.queries * row_size() + both);
  }

  void narrow_rows(Panel<T> from, const Rows& to, int64_t b, int64_t h, int64_t count,
                   int64_t size) const {
    for (int64_t i = 0; i < count; i++)
      narrow(call_.kind, from.from(i).data, to.at<uint16_t>(b, h, i), size);
  }

  void narrow_results(Unit<T>& unit, int64_t b, int64_t g) {
    for (int64_t h = g * per_unit_; h < (g + 1) * per_unit_; h++)
      narrow_rows(rows_of(unit, b, h), backward_ ? call_.dq : call_.out, b, h, call_.queries,
                  row_size());
    if (backward_) {
      narrow_rows(keys_of(unit, b, g), call_.dk, b, g, call_.keys, call_.size);
      narrow_rows(values_of(unit, b, g), call_.dv, b, g, call_.keys, call_.value_size);
    }
    const std::lock_guard<std::mutex> hold(mutex_);
    spare_.push_back(std::move(unit.wide));
  }

  void begin(Unit<T>& unit, int64_t g) {
    if (call_.kind != PLAIN) make_room(unit);
    unit.parts.resize(per_unit_ * passes_);
    for (int64_t own = 0; own < per_unit_; own++) {
      for (int64_t p = 0; p < layout(g, own).count; p++) {
        const Pass& pass = layout(g, own).passes[p];
        if (direct(pass, p)) continue;
        Part<T>& part = unit.parts[own * passes_ + p];
        const int64_t size = row_size();
        part.rows.reset(new T[pass.row_count * size]);
        in_large_pages(part.rows.get(), part.rows.get() + pass.row_count * size);
        part.lse.assign(pass.row_count, -std::numeric_limits<T>::infinity());
      }
    }
    if (backward_) unit.found.resize(slices_);
  }

  void clear(Unit<T>& unit, int64_t b, int64_t h, const Layout& layout) {
    // rows of the first pass that are in no tile
    std::vector<bool> written(call_.queries, false);
    if (layout.count && direct(layout.passes[0], 0))
      for (int64_t t = 0; t < layout.passes[0].count; t++) {
        const Tile& tile = layout.passes[0].tiles[t];
        std::fill_n(written.begin() + tile.row, tile.height, true);
      }
    for (int64_t i = 0; i < call_.queries; i++) {
      if (written[i]) continue;
      std::fill_n(rows_of(unit, b, h).from(i).data, row_size(), T(0));
      if (!backward_) lse(b, h)[i] = -std::numeric_limits<T>::infinity();
    }
  }

  T* lse(int64_t b, int64_t h) const { return call_.lse + (b * call_.heads + h) * call_.queries; }

  void slice(int64_t number, int64_t s) {
    static thread_local Scratch<T> scratch;
    const int64_t b = number / call_.groups, g = number % call_.groups;
    Unit<T>& unit = units_[number];
    std::call_once(unit.begun, [&] { begin(unit, g); });
    if (backward_) {
      if (slices_ == 1) clear_sides(unit, b, g);
      unit.found[s].shares.resize(call_.layouts * passes_);
      unit.found[s].bias.resize(per_unit_);
      unit.found[s].gain.resize(per_unit_);
    }
    if (s == 0)
      for (int64_t own = 0; own < per_unit_; own++)
        clear(unit, b, g * per_unit_ + own, layout(g, own));
    for (int64_t l = 0; l < call_.layouts; l++)
      for (int64_t p = 0; p < call_.layout[l].count; p++) tiles(unit, b, g, s, l, p, scratch);
    if (backward_) add_in_turn(unit, b, g, s);
    std::unique_lock<std::mutex> hold(unit.mutex);
    const bool last = --unit.left == 0;
    hold.unlock();
    if (last) finish(unit, b, g);
  }

  const Layout& layout(int64_t g, int64_t own) const {
    return call_.layout[(g * per_unit_ + own) % call_.layouts];
  }

  // The tiles of one pass in a slice, of all heads of the unit that have this layout.
  void tiles(Unit<T>& unit, int64_t b, int64_t g, int64_t s, int64_t l, int64_t p,
             Scratch<T>& scratch) {
    const Pass& pass = call_.layout[l].passes[p];
    const int64_t first = cut(l, p)[s], last = cut(l, p)[s + 1];
    int64_t left = pass.column_count, right = 0;
    for (int64_t t = first; t < last; t++) {
      left = std::min(left, pass.tiles[t].column);
      right = std::max(right, pass.tiles[t].column + pass.tiles[t].width);
    }
    std::unique_ptr<Sides<T>> sides;
    for (int64_t own = 0; own < per_unit_; own++) {
      const int64_t h = g * per_unit_ + own;
      if (first == last || h % call_.layouts != l) continue;
      if (!sides)
        sides = std::make_unique<Sides<T>>(call_, pass, left, right, b, g, backward_, scratch);
      Part<T>& part = unit.parts[own * passes_ + p];
      const Panel<T> rows =
          direct(pass, p) ? rows_of(unit, b, h) : Panel<T>{part.rows.get(), row_size()};
      T* sums = direct(pass, p) ? lse(b, h) : part.lse.data();
      for (int64_t t = first; t < last;) {
        const Group group = group_from(pass, t);
        const int64_t row = pass.tiles[t].row;
        if (backward_) {
          Found<T>& found = unit.found[s];
          const int64_t middle = call_.bias_rows ? call_.bias_sum / 2 : call_.queries - 1;
          const Sums<T> into = share(unit, found.shares[l * passes_ + p], pass, b, g, left, right);
          backward_group(call_, call_.layout[l], pass, group, b, h, *sides, rows.from(row), into,
                         term(call_.dbias, call_.bias_sum, middle, found.bias[own], b, h),
                         term(call_.dgain, call_.gain_sum, call_.queries - 1, found.gain[own], b, h),
                         scratch);
          if (!direct(pass, p)) std::fill_n(sums + row, pass.tiles[t].height, T(0));
        } else {
          forward_group(call_, call_.layout[l], pass, group, b, h, *sides, rows.from(row),
                        sums + row, scratch);
        }
        t = group.last;
      }
    }
  }

  void clear_sides(Unit<T>& unit, int64_t b, int64_t g) {
    const Panel<T> dk = keys_of(unit, b, g), dv = values_of(unit, b, g);
    for (int64_t j = 0; j < call_.keys; j++) {
      std::fill_n(dk.from(j).data, call_.size, T(0));
      std::fill_n(dv.from(j).data, call_.value_size, T(0));
    }
  }

  // Where a slice adds the gradients of k and v: its own room, unless nobody else is about.
  Sums<T> share(Unit<T>& unit, Share<T>& own, const Pass& pass, int64_t b, int64_t g,
                int64_t first, int64_t last) {
    if (slices_ == 1 && !pass.columns)
      return {keys_of(unit, b, g).from(first), values_of(unit, b, g).from(first)};
    if (own.last == 0) {
      own.first = first, own.last = last;
      own.k.assign((last - first) * call_.size, T(0));
      own.v.assign((last - first) * call_.value_size, T(0));
    }
    return {{own.k.data(), call_.size}, {own.v.data(), call_.value_size}};
  }

  // Where entry (0, 0) of a head's gradient of a term is, for a slice; null: not asked for. If tiles
  // share its entries, it is at `zero` of them.
  T* term(const Grid<T>& gradient, int64_t sum, int64_t zero, std::vector<T>& own, int64_t b,
          int64_t h) {
    if (!gradient.data) return nullptr;
    if (!sum) return gradient.at(b, h, 0, 0);
    if (own.empty()) own.assign(sum, T(0));
    return own.data() + zero;
  }

  // Add what slices found to the gradients, in their order: whoever ends the one whose turn it is
  // adds it, and those after it that are whole. So a sum has the same bits whoever was first, and
  // few slices wait for their turn with their memory.
  void add_in_turn(Unit<T>& unit, int64_t b, int64_t g, int64_t s) {
    std::unique_lock<std::mutex> hold(unit.mutex);
    unit.found[s].whole = true;
    if (unit.adding) return;
    unit.adding = true;
    while (unit.added < slices_ && unit.found[unit.added].whole) {
      hold.unlock();
      add(unit, unit.found[unit.added], unit.added == 0, b, g);
      hold.lock();
      unit.added++;
    }
    unit.adding = false;
  }

  void add(Unit<T>& unit, Found<T>& found, bool first, int64_t b, int64_t g) {
    if (first && slices_ > 1) clear_sides(unit, b, g);
    for (int64_t l = 0; l < call_.layouts; l++)
      for (int64_t p = 0; p < call_.layout[l].count; p++)
        add_share(unit, call_.layout[l].passes[p], found.shares[l * passes_ + p], b, g);
    for (int64_t own = 0; own < per_unit_; own++) {
      add_term(call_.dbias, call_.bias_sum, found.bias[own], first, b, g * per_unit_ + own);
      add_term(call_.dgain, call_.gain_sum, found.gain[own], first, b, g * per_unit_ + own);
    }
    found.shares = {};
    found.bias = found.gain = {};
  }

  void finish(Unit<T>& unit, int64_t b, int64_t g) {
    for (int64_t own = 0; own < per_unit_; own++) {
      const int64_t h = g * per_unit_ + own;
      for (int64_t p = 0; p < layout(g, own).count; p++) {
        const Pass& pass = layout(g, own).passes[p];
        if (direct(pass, p)) continue;
        backward_ ? add_rows(pass, unit.parts[own * passes_ + p], rows_of(unit, b, h))
                  : merge_rows(pass, unit.parts[own * passes_ + p], rows_of(unit, b, h), lse(b, h));
      }
      if (!backward_)
        for (int64_t i = 0; i < call_.queries; i++) lse(b, h)[i] *= T(LN_2);
    }
    std::vector<Part<T>>().swap(unit.parts);
    if (call_.kind != PLAIN) narrow_results(unit, b, g);
  }

  void merge_rows(const Pass& pass, const Part<T>& part, Panel<T> rows, T* lse) {
    const int64_t e = call_.value_size;
    for (int64_t r = 0; r < pass.row_count; r++) {
      const int64_t i = pass.rows ? pass.rows[r] : r;
      T *out = rows.from(i).data, *sum = lse + i;
      const T *some = part.rows.get() + r * e, found = part.lse[r];
      if (found == -std::numeric_limits<T>::infinity()) continue;
      const T top = std::max(*sum, found);
      const T old = power_of_two<T>(*sum - top), fresh = power_of_two<T>(found - top);
      const T inverse = 1 / (old + fresh);
      for (int64_t c = 0; c < e; c++) out[c] = (out[c] * old + some[c] * fresh) * inverse;
      *sum = top + std::log2(old + fresh);
    }
  }

  void add_rows(const Pass& pass, const Part<T>& part, Panel<T> rows) {
    for (int64_t r = 0; r < pass.row_count; r++) {
      if (part.lse[r] == -std::numeric_limits<T>::infinity()) continue;
      T* into = rows.from(pass.rows ? pass.rows[r] : r).data;
      const T* some = part.rows.get() + r * call_.size;
      for (int64_t c = 0; c < call_.size; c++) into[c] += some[c];
    }
  }

  void add_share(Unit<T>& unit, const Pass& pass, const Share<T>& share, int64_t b, int64_t g) {
    for (int64_t column = share.first; column < share.last; column++) {
      const int64_t j = pass.columns ? pass.columns[column] : column, at = column - share.first;
      T *dk = keys_of(unit, b, g).from(j).data, *dv = values_of(unit, b, g).from(j).data;
      const T *k = share.k.data() + at * call_.size, *v = share.v.data() + at * call_.value_size;
      for (int64_t c = 0; c < call_.size; c++) dk[c] += k[c];
      for (int64_t c = 0; c < call_.value_size; c++) dv[c] += v[c];
    }
  }

  void add_term(const Grid<T>& gradient, int64_t sum, const std::vector<T>& some, bool first,
                int64_t b, int64_t h) {
    if (!gradient.data || !sum) return;
    T* into = gradient.at(b, h, 0, 0);
    if (first) std::fill_n(into, sum, T(0));
    for (int64_t c = 0; c < int64_t(some.size()); c++) into[c] += some[c];
  }

  const Call<T>& call_;
  const bool backward_;
  int64_t per_unit_ = 1, passes_ = 1, slices_ = 1;
  std::vector<std::vector<int64_t>> cuts_;  // layout, pass
  std::vector<Unit<T>> units_;
  std::mutex mutex_;  // guards what follows
  std::vector<std::vector<T>> spare_;
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
