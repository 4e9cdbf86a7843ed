// Cards of the classes: examples as thumbnails with what the learner believed just before, and a hint each.

import { find, make, percent, replace } from "./dom.js";
import { likeness } from "./pixels.js";

const SHOWN = 30; // thumbnails of a class
const ALIKE = 0.985; // likeness of features above which two pictures are nearly one

// Whether a class has been shown enough, and enough variety.
export function hint(examples) {
  const taught = examples.filter((e) => !e.held);
  if (taught.length === 0) return "show it once";
  if (taught.length < 3) return "live; a few more help";
  const last = taught.slice(-3);
  const alike = (e) => taught.some((other) => other !== e && likeness(e.features, other.features) > ALIKE);
  if (last.every(alike)) return "nearly the same again: vary it";
  const known = last.filter((e) => e.before.answers[0]?.label === e.label).length;
  return known === 3 ? "enough: it knew the last three" : `more helps: it knew ${known} of the last 3`;
}

export function showClasses(workspace, actions) {
  find("class-count").textContent = workspace.names.length ? `(${workspace.names.length})` : "";
  if (!workspace.names.length) {
    replace(find("cards"), make("p", { className: "hint" }, "None yet. Name what you show, as many classes as you like, at any time."));
    return;
  }
  replace(find("cards"), ...workspace.names.map((label, i) => card(workspace, label, i, actions)));
}

// Scroll the list, not the page, to a class.
export function reveal(label) {
  const cards = find("cards");
  const card = [...cards.children].find((each) => each.dataset.label === label);
  if (card) cards.scrollTop = card.offsetTop - cards.offsetTop;
}

function card(workspace, label, i, actions) {
  const examples = [...workspace.of(label), ...workspace.held.filter((e) => e.label === label)];
  const count = workspace.count(label);
  const name = make("input", { value: label, maxLength: 100, "aria-label": `Name of class ${i + 1}: ${label}`, onchange: (event) => actions.rename(label, event.target.value.trim(), event.target) });
  const hold = make("button", { "aria-label": `Teach the picture shown as ${label}${i < 9 ? `, key ${i + 1}` : ""}` }, "Teach");
  actions.holdable(hold, label);
  return make(
    "article", { className: "card", "data-label": label, "aria-label": `Class ${label}` },
    make("div", { className: "row" },
      make("span", { className: "key", "aria-hidden": "true" }, i < 9 ? String(i + 1) : "·"), name, hold,
      make("button", { className: "quiet", "aria-label": `Clear the examples of ${label}`, disabled: !examples.length && !count, onclick: () => actions.clear(label) }, "Clear"),
      make("button", { className: "quiet", "aria-label": `Forget class ${label}`, onclick: () => actions.forget(label) }, "Forget")),
    make("p", { className: "hint" }, `${count} ${count === 1 ? "example" : "examples"} · ${hint(examples)}`),
    make("ul", { className: "thumbs" }, ...examples.slice(-SHOWN).map((e) => thumb(e, actions))),
  );
}

const made = new WeakMap(); // thumbnails by example: pictures that stay are not decoded again

function thumb(example, actions) {
  const [best] = example.before.answers;
  const key = `${example.label} ${best?.label} ${example.held}`;
  if (made.get(example)?.key !== key) made.set(example, { key, element: makeThumb(example, best, actions) });
  return made.get(example).element;
}

function makeThumb(example, best, actions) {
  const right = best?.label === example.label;
  const belief = !best ? "first of all" : `${right ? "✓" : best.label} ${percent(best.probability)}`;
  const said = !best ? "the first of all" : `before, it said ${best.label}, ${percent(best.probability)}`;
  const what = example.held ? `held back to measure with; it said ${best ? best.label : "nothing"}` : said;
  return make(
    "li", { className: example.held ? "thumb held" : "thumb" },
    make("img", { src: example.thumbnail, alt: `Example of ${example.label}: ${what}`, width: 56, height: 56, title: what }),
    make("span", { className: right ? "belief right" : "belief", "aria-hidden": "true" }, example.held ? "held back" : belief),
    make("button", { className: "delete", "aria-label": `Delete this example of ${example.label}`, onclick: () => actions.remove(example) }, "×"),
  );
}
