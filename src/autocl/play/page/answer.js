// What the learner says of the picture that is shown: bars, "none of these", and the nearest thing it was shown.

import { find, make, percent, replace, tell } from "./dom.js";
import { likeness, unpack } from "./pixels.js";

const SHOWN = 8; // bars
const FEWEST = 8; // own examples before they set the threshold
const LATEST = 40;

// Above which novelty a picture is like nothing that was shown: what nineteen of twenty of the person's own examples
// of known classes stayed below, just before they were taught. With too few of them, one half. The tour's examples are
// all of one hand, and would make somebody else's digits "none of these".
export function threshold(examples) {
  const seen = examples.filter((e) => !e.prepared && e.before.answers.some((a) => a.label === e.label)).slice(-LATEST);
  if (seen.length < FEWEST) return { value: 0.5, from: 0 };
  const sorted = seen.map((e) => e.before.novelty).sort((a, b) => a - b);
  return { value: sorted[Math.ceil(0.95 * sorted.length) - 1], from: sorted.length };
}

export function nearest(features, examples) {
  let best = null, most = -Infinity;
  for (const example of examples) {
    const like = likeness(features, example.features);
    if (like > most) [best, most] = [example, like];
  }
  return best;
}

export function showAnswer(answer, workspace, teach) {
  const bars = find("bars");
  const verdict = find("verdict");
  find("nearest").hidden = true;
  verdict.classList.remove("novel");
  if (!answer || !answer.answers.length) {
    replace(bars);
    tell(verdict, answer ? "It knows nothing yet: name this, and it will." : "Draw something, or show a picture.");
    return;
  }
  const [best] = answer.answers;
  const known = [...workspace.examples, ...workspace.held];
  const limit = threshold(known);
  const novel = answer.novelty > limit.value;
  tell(
    verdict,
    make("strong", {}, novel ? "None of these" : best.label),
    make("span", {}, novel ? `closest: ${best.label}, ${percent(best.probability)}` : `${percent(best.probability)} sure`),
  );
  verdict.classList.toggle("novel", novel);
  verdict.title = `Novelty ${answer.novelty.toFixed(2)}, threshold ${limit.value.toFixed(2)}` +
    (limit.from ? `, from your ${limit.from} latest examples.` : " until there are enough examples.") +
    (answer.novelty_by === "probability" ? " This learner has no measure of its own: it is one minus the highest probability." : "");
  const order = workspace.names.length <= SHOWN ? workspace.names : answer.answers.slice(0, SHOWN).map((a) => a.label);
  const share = new Map(answer.answers.map((a) => [a.label, a.probability]));
  replace(bars, ...order.filter((label) => share.has(label)).map((label) => bar(label, share.get(label), label === best.label && !novel, teach)));
  showNearest(answer, best.label, workspace);
}

function bar(label, share, best, teach) {
  const fill = make("span", { className: "fill" });
  fill.style.width = `${100 * share}%`;
  return make(
    "button",
    { className: best ? "bar best" : "bar", "data-key": label, "aria-label": `${label}, ${percent(share)}. Teach this picture as ${label}`, onclick: () => teach(label) },
    fill, make("span", { className: "label" }, label), make("span", { className: "share" }, percent(share)),
  );
}

function showNearest(answer, label, workspace) {
  const example = nearest(unpack(answer.features), workspace.of(label));
  if (!example) return;
  find("nearest").hidden = false;
  find("nearest-picture").src = example.thumbnail;
  find("nearest-picture").alt = `The ${label} that is most like it`;
  find("nearest-text").textContent = `The ${label} it was shown that is most like this one`;
}
