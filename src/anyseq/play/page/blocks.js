"use strict";
/* The blocks of a constructed network in float64: softmax attention and ReLU layers, each added to
   the residual stream. The data are window.Networks, scripts that the library wrote.

       const network = Blocks.load(data);
       network.outputs(x)   T(x), one number per token and output feature
       network.trace(x)     every state on the way

   x and outputs are flat: token 0 first. A state is flat too, (positions, width), BOS first. */

window.Blocks = (() => {
  const dense = ({ shape, at, is }) => {
    const values = new Float64Array(shape.reduce((a, b) => a * b, 1));
    at.forEach((place, k) => { values[place] = is[k]; });
    return values;
  };

  /* A matrix by its rows, without zeros: row r has entries start[r], ..., start[r+1] - 1. */
  const sparse = ({ shape: [rows, columns], at, is }) => {
    const start = new Int32Array(rows + 1);
    for (const place of at) start[Math.floor(place / columns) + 1] += 1;
    for (let row = 0; row < rows; row++) start[row + 1] += start[row];
    return {
      rows, columns, start,
      column: Int32Array.from(at, (place) => place % columns),
      value: Float64Array.from(is),
    };
  };

  /* x (count, columns) -> x W^T + b (count, rows). */
  const linear = (matrix, bias, x, count) => {
    const { rows, columns, start, column, value } = matrix;
    const made = new Float64Array(count * rows);
    for (let at = 0; at < count; at++) {
      for (let row = 0; row < rows; row++) {
        let sum = bias ? bias[row] : 0;
        for (let k = start[row]; k < start[row + 1]; k++) sum += value[k] * x[at * columns + column[k]];
        made[at * rows + row] = sum;
      }
    }
    return made;
  };

  const add = (x, more) => x.map((value, at) => value + more[at]);

  /* ---- reading the data ---- */

  const loadAttention = (data, heads) => {
    const part = (name) => (data[name] ? dense(data[name]) : null);
    const o = sparse(data.o);
    const size = o.columns / heads;
    const writes = new Set(Array.from(o.column, (column) => Math.floor(column / size)));
    return {
      mask: data.mask, size, o, writes,
      q: sparse(data.q), k: sparse(data.k), v: sparse(data.v), qBias: dense(data.q_bias),
      bias: part("bias"), gain: part("gain"), sink: part("sink"), turn: part("turn"),
    };
  };

  const loadFeedForward = (data) => ({
    up: sparse(data.up), upBias: dense(data.up_bias),
    down: sparse(data.down), downBias: dense(data.down_bias),
  });

  /* ---- running ---- */

  /* Queries or keys (count, heads, size), each turned by the matrix of its position. */
  const turned = (x, matrices, count, heads, size) => {
    const made = new Float64Array(x.length);
    for (let at = 0; at < count; at++)
      for (let head = 0; head < heads; head++)
        for (let to = 0; to < size; to++) {
          let sum = 0;
          for (let from = 0; from < size; from++)
            sum += matrices[(at * size + to) * size + from] * x[(at * heads + head) * size + from];
          made[(at * heads + head) * size + to] = sum;
        }
    return made;
  };

  /* The weights (heads, count, count) of one layer: softmax over the scores of the positions that
     the mask allows, times gains. */
  const attentionWeights = (layer, masks, q, k, count, heads) => {
    const { size, bias, gain, sink } = layer;
    const weights = new Float64Array(heads * count * count);
    for (let head = 0; head < heads; head++) {
      const mask = masks[head % masks.length];
      for (let i = 0; i < count; i++) {
        const row = (head * count + i) * count;
        let most = sink ? sink[head] : -Infinity;
        for (let j = 0; j < count; j++) {
          if (mask[i][j] !== "1") continue;
          let score = 0;
          for (let at = 0; at < size; at++)
            score += q[(i * heads + head) * size + at] * k[(j * heads + head) * size + at];
          if (bias) score += bias[row + j];
          weights[row + j] = score;
          most = Math.max(most, score);
        }
        let total = sink ? Math.exp(sink[head] - most) : 0;
        for (let j = 0; j < count; j++) {
          if (mask[i][j] !== "1") continue;
          weights[row + j] = Math.exp(weights[row + j] - most);
          total += weights[row + j];
        }
        for (let j = 0; j < count; j++) {
          if (mask[i][j] !== "1") continue;
          weights[row + j] /= total;
          if (gain) weights[row + j] *= gain[row + j];
        }
      }
    }
    return weights;
  };

  const attention = (layer, masks, x, count, heads) => {
    const { size } = layer;
    let q = linear(layer.q, layer.qBias, x, count);
    let k = linear(layer.k, null, x, count);
    if (layer.turn) {
      q = turned(q, layer.turn, count, heads, size);
      k = turned(k, layer.turn, count, heads, size);
    }
    const v = linear(layer.v, null, x, count);
    const weights = attentionWeights(layer, masks, q, k, count, heads);
    const mixed = new Float64Array(count * heads * size);
    for (let head = 0; head < heads; head++)
      for (let i = 0; i < count; i++)
        for (let j = 0; j < count; j++) {
          const weight = weights[(head * count + i) * count + j];
          if (weight === 0) continue;
          for (let at = 0; at < size; at++)
            mixed[(i * heads + head) * size + at] += weight * v[(j * heads + head) * size + at];
        }
    return { added: linear(layer.o, null, mixed, count), weights };
  };

  const feedForward = (layer, x, count) => {
    const hidden = linear(layer.up, layer.upBias, x, count).map((value) => Math.max(value, 0));
    return linear(layer.down, layer.downBias, hidden, count);
  };

  /* ---- one network ---- */

  const load = (data) => {
    const { tokens, in_features: features, width, heads } = data;
    const count = tokens + Number(data.bos);
    const first = count - tokens;
    const begin = Object.fromEntries(
      Object.entries(data.begin).map(([name, part]) => [name, dense(part)]),
    );
    const layers = data.layers.map((layer) => ({
      attention: layer.attention && loadAttention(layer.attention, heads),
      feedforward: layer.feedforward && loadFeedForward(layer.feedforward),
    }));

    const entering = (x) => {
      let state = new Float64Array(count * width);
      for (let token = 0; token < tokens; token++) {
        const row = (first + token) * width;
        for (let at = 0; at < features; at++) state[row + at] = x[token * features + at];
        if (begin.constant) begin.constant.forEach((value, at) => { state[row + at] += value; });
      }
      if (begin.bos) state.set(begin.bos);
      if (begin.position) state = add(state, begin.position);
      if (begin.waves) state = add(state, begin.waves);
      return state;
    };

    /* Calls visit({layer, half, state, weights}) after each half. */
    const run = (x, visit = () => {}) => {
      let state = entering(x);
      visit({ layer: -1, half: "input", state });
      layers.forEach((layer, index) => {
        if (layer.attention) {
          const masks = data.masks[layer.attention.mask];
          const { added, weights } = attention(layer.attention, masks, state, count, heads);
          state = add(state, added);
          visit({ layer: index, half: "attention", state, weights, writes: layer.attention.writes });
        }
        if (layer.feedforward) {
          state = add(state, feedForward(layer.feedforward, state, count));
          visit({ layer: index, half: "feed-forward", state });
        }
      });
      const made = [];
      for (let at = first; at < count; at++)
        made.push(...state.subarray(at * width, at * width + data.out_features));
      return made;
    };

    const trace = (x) => {
      const steps = [];
      const outputs = run(x, (step) => steps.push(step));
      return { steps, outputs };
    };
    const target = (x) => window.Formula.outputs(data.target, x);
    /* The largest |f - T| at x. */
    const error = (x) => {
      const made = run(x);
      return Math.max(...target(x).map((wanted, at) => Math.abs(wanted - made[at])));
    };
    return { data, count, first, outputs: (x) => run(x), trace, target, error };
  };

  /* ---- the networks of the page ---- */

  const loaded = new Map();
  const listeners = [];
  const all = () => window.Networks;
  const named = (name) => {
    if (!loaded.has(name)) loaded.set(name, load(all().find((data) => data.name === name)));
    return loaded.get(name);
  };
  /* Adds a network, or puts it in the place of one of its name. */
  const put = (data) => {
    const at = all().findIndex((one) => one.name === data.name);
    all().splice(at < 0 ? all().length : at, at < 0 ? 0 : 1, data);
    loaded.delete(data.name);
    for (const listener of listeners) listener(data);
  };
  const onput = (listener) => listeners.push(listener);

  return { load, all, named, put, onput };
})();
