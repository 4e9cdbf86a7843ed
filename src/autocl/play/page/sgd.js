// Two simple rivals that see the same pictures in the same order, as 32×32 grays.

// An ordinary network with one hidden layer, trained by plain SGD: one step for each example.
export class Network {
  constructor(inputs, { hidden = 64, rate = 0.05, seed = 1 } = {}) {
    Object.assign(this, { inputs, hidden, rate, seed, labels: [] });
    this.first = this.#random(inputs * hidden, 1 / Math.sqrt(inputs));
    this.second = new Float32Array(0); // grows by a row for each new class
  }

  learn(x, label) {
    if (!this.labels.includes(label)) this.#grow(label);
    const { h, shares } = this.#forward(x);
    const delta = shares.map((share, k) => share - (this.labels[k] === label ? 1 : 0));
    const back = new Float32Array(this.hidden);
    for (let k = 0; k < delta.length; k++) {
      for (let j = 0; j < this.hidden; j++) {
        back[j] += delta[k] * this.second[k * this.hidden + j];
        this.second[k * this.hidden + j] -= this.rate * delta[k] * h[j];
      }
    }
    for (let j = 0; j < this.hidden; j++) {
      if (h[j] <= 0) continue;
      const step = this.rate * back[j];
      for (let i = 0; i < this.inputs; i++) this.first[j * this.inputs + i] -= step * x[i];
    }
  }

  predict(x) {
    const { shares } = this.#forward(x);
    return this.labels[shares.indexOf(Math.max(...shares))];
  }

  #forward(x) {
    const h = new Float32Array(this.hidden);
    for (let j = 0; j < this.hidden; j++) {
      let sum = 0;
      for (let i = 0; i < this.inputs; i++) sum += this.first[j * this.inputs + i] * x[i];
      h[j] = Math.max(sum, 0);
    }
    const scores = this.labels.map((_, k) => h.reduce((sum, v, j) => sum + v * this.second[k * this.hidden + j], 0));
    const top = Math.max(...scores);
    const powers = scores.map((score) => Math.exp(score - top));
    const total = powers.reduce((a, b) => a + b, 0);
    return { h, shares: powers.map((power) => power / total) };
  }

  #grow(label) {
    this.labels.push(label);
    const grown = new Float32Array(this.labels.length * this.hidden);
    grown.set(this.second);
    grown.set(this.#random(this.hidden, 1 / Math.sqrt(this.hidden)), this.second.length);
    this.second = grown;
  }

  // Uniform within ±bound; the same in every browser (a linear congruential generator).
  #random(n, bound) {
    return Float32Array.from({ length: n }, () => {
      this.seed = (Math.imul(this.seed, 1664525) + 1013904223) >>> 0;
      return (this.seed / 2 ** 31 - 1) * bound;
    });
  }
}

// Nearest class mean of the pixels: forgets nothing either, but knows no better than pixels.
export class Means {
  constructor() {
    this.classes = new Map();
  }

  learn(x, label) {
    const { n = 0, mean = new Float32Array(x.length) } = this.classes.get(label) ?? {};
    this.classes.set(label, { n: n + 1, mean: mean.map((m, i) => m + (x[i] - m) / (n + 1)) });
  }

  predict(x) {
    let best, least = Infinity;
    for (const [label, { mean }] of this.classes) {
      const distance = mean.reduce((sum, m, i) => sum + (m - x[i]) ** 2, 0);
      if (distance < least) [best, least] = [label, distance];
    }
    return best;
  }
}
