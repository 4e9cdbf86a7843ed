// Watch it remember: the same examples train an ordinary network beside the learner; after every task all are asked
// about the pictures held back of every class so far.

import * as api from "./api.js";
import { draw, find, make, percent } from "./dom.js";
import { SIDE } from "./pixels.js";
import { Means, Network } from "./sgd.js";

export const RIVALS = [
  { key: "learner", name: "the learner" },
  { key: "sgd", name: "ordinary network, SGD" },
  { key: "means", name: "nearest mean of pixels" },
];

export class Watch {
  rows = []; // one for each task: { task, learned, accuracy: { learner: Map(label, share), sgd, means } }
  #taught = [];

  constructor(workspace) {
    this.workspace = workspace;
    workspace.addEventListener("change", () => this.follow());
    this.#restart();
  }

  // Let the rivals learn what the learner has learned since. They cannot go back: then they begin again.
  follow() {
    const { examples } = this.workspace;
    if (!this.#taught.every((e, i) => e === examples[i])) this.#restart();
    for (const e of examples.slice(this.#taught.length)) {
      this.sgd.learn(e.grays, e);
      this.means.learn(e.grays, e);
      this.#taught.push(e);
    }
    this.rows = this.rows.filter((row) => row.learned <= examples.length);
  }

  // Whether something was learned since the last time, and there is something to measure with.
  get due() {
    const { examples } = this.workspace;
    return examples.length > (this.rows.at(-1)?.learned ?? 0) && this.#asked().length > 0;
  }

  async measure(task) {
    this.follow();
    const { examples, session } = this.workspace;
    const asked = this.#asked();
    if (!asked.length) return;
    const answers = await api.predictMany(session, asked.map((e) => e.blob));
    const said = {
      learner: answers.map((a) => a.answers[0].label),
      sgd: asked.map((e) => this.sgd.predict(e.grays)),
      means: asked.map((e) => this.means.predict(e.grays)),
    };
    const accuracy = Object.fromEntries(RIVALS.map(({ key }) => [key, shares(asked, said[key])]));
    this.rows.push({ task: task ?? `task ${this.rows.length + 1}`, learned: examples.length, accuracy });
  }

  rename(label, to) {
    for (const { accuracy } of this.rows) {
      for (const { key } of RIVALS) accuracy[key] = new Map([...accuracy[key]].map(([name, share]) => [name === label ? to : name, share]));
    }
  }

  #asked() {
    const taught = new Set(this.workspace.examples.map((e) => e.label));
    return this.workspace.held.filter((e) => taught.has(e.label));
  }

  #restart() {
    this.sgd = new Named(new Network(SIDE * SIDE));
    this.means = new Named(new Means());
    this.#taught = [];
  }
}

// A rival that knows classes by their first example, so that renaming one is nothing to it.
class Named {
  #first = new Map();

  constructor(rival) {
    this.rival = rival;
  }

  learn(x, example) {
    for (const e of this.#first.values()) if (e.label === example.label) return this.rival.learn(x, e);
    this.#first.set(example, example);
    return this.rival.learn(x, example);
  }

  predict(x) {
    return this.rival.predict(x)?.label;
  }
}

function shares(asked, said) {
  const found = new Map();
  asked.forEach(({ label }, i) => {
    const { n = 0, right = 0 } = found.get(label) ?? {};
    found.set(label, { n: n + 1, right: right + (said[i] === label) });
  });
  return new Map([...found].map(([label, { n, right }]) => [label, right / n]));
}

export const mean = (accuracy) => [...accuracy.values()].reduce((a, b) => a + b, 0) / accuracy.size;

const HEIGHT = 250, LEFT = 44, RIGHT = 130, TOP = 14, BOTTOM = 34;

export function showChart(rows) {
  if (!rows.length) {
    find("chart").replaceChildren(make("p", { className: "empty" }, "Nothing measured yet."));
    find("chart-table").replaceChildren();
    return;
  }
  find("chart").replaceChildren(lines(rows), perClass(rows.at(-1)));
  find("chart-table").replaceChildren(table(rows));
  const last = rows.at(-1).accuracy;
  find("chart-text").textContent =
    `Mean accuracy on held-back pictures of all ${last.learner.size} classes so far: ` +
    RIVALS.map(({ key, name }) => `${name} ${percent(mean(last[key]))}`).join(", ") + ".";
}

function lines(rows) {
  // Drawn at about the size it is shown in, so that its words stay legible on a telephone.
  const WIDTH = window.innerWidth < 640 ? 330 : 640;
  const x = (i) => LEFT + (rows.length > 1 ? (i / (rows.length - 1)) * (WIDTH - LEFT - RIGHT) : 0);
  const y = (share) => TOP + (1 - share) * (HEIGHT - TOP - BOTTOM);
  const grid = [0, 0.25, 0.5, 0.75, 1].flatMap((share) => [
    draw("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(share), y2: y(share) }),
    draw("text", { class: "tick", x: LEFT - 8, y: y(share) + 4, "text-anchor": "end" }, percent(share)),
  ]);
  const every = Math.ceil(rows.length / 8);
  const tasks = rows.map((row, i) => (i % every ? "" : draw("text", { class: "tick", x: x(i), y: HEIGHT - 10, "text-anchor": i ? "middle" : "start" }, row.task)));
  // Names at the ends of the lines, moved apart where they would overlap.
  const ends = RIVALS.map(({ key, name }) => ({ key, name, at: y(mean(rows.at(-1).accuracy[key])) })).sort((a, b) => a.at - b.at);
  ends.forEach((end, i) => { if (i) end.at = Math.max(end.at, ends[i - 1].at + 26); });
  const marks = RIVALS.flatMap(({ key }) => {
    const points = rows.map((row, i) => [x(i), y(mean(row.accuracy[key]))]);
    return [
      draw("polyline", { class: `line ${key}`, points: points.map((p) => p.join()).join(" ") }),
      ...points.map(([cx, cy]) => draw("circle", { class: key, cx, cy, r: 4 })),
    ];
  });
  const names = ends.flatMap(({ key, name, at }) => [
    draw("text", { class: `name ${key}`, x: WIDTH - RIGHT + 10, y: at }, name.split(",")[0].split(" of ")[0]),
    draw("text", { class: `tick ${key}`, x: WIDTH - RIGHT + 10, y: at + 12 }, percent(mean(rows.at(-1).accuracy[key]))),
  ]);
  return draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": "Mean accuracy after every task; the numbers are in the table below" }, ...grid, ...tasks, ...marks, ...names);
}

// The latest measurement, class by class: where the ordinary network has forgotten.
function perClass(row) {
  const cells = [...row.accuracy.learner.keys()].map((label) =>
    make("li", {}, ...["learner", "sgd"].map((key) => {
      const bar = make("span", { className: `column ${key}`, "aria-hidden": "true" });
      bar.style.height = `${Math.max(2, 46 * row.accuracy[key].get(label))}px`;
      return bar;
    }), make("span", { className: "tick", title: `${label}: learner ${percent(row.accuracy.learner.get(label))}, SGD ${percent(row.accuracy.sgd.get(label))}` }, label)));
  return make("ul", { className: "per-class", "aria-label": "Accuracy of each class now: the learner's bar, then the ordinary network's" }, ...cells);
}

function table(rows) {
  const head = make("tr", {}, ...["after", "who", "mean", ...rows.at(-1).accuracy.learner.keys()].map((text) => make("th", { scope: "col" }, text)));
  const body = rows.flatMap((row) => RIVALS.map(({ key, name }) => make(
    "tr", {}, make("th", { scope: "row" }, row.task), make("td", {}, name), make("td", {}, percent(mean(row.accuracy[key]))),
    ...[...rows.at(-1).accuracy.learner.keys()].map((label) => make("td", {}, row.accuracy[key].has(label) ? percent(row.accuracy[key].get(label)) : "–")),
  )));
  return make("table", {}, make("thead", {}, head), make("tbody", {}, ...body));
}
