// What the learner says of the picture that is shown: bars, "none of these", and the nearest thing it was shown.

import { find, make, percent, replace, tell } from "./dom.js";
import { likeness, unpack } from "./pixels.js";

const SHOWN = 8; // bars
const FEWEST = 8; // own examples before they set the threshold
const LATEST = 40;

const EARLY = { novelty: 0.4, probability: 0.7, alone: 0.5 }; // `python -m benchmarks.drawn` measures these

// The novelty that nineteen of twenty of the person's own examples of known classes stayed below, just before they
// were taught; null with too few of them. The tour's examples are of other hands and do not count.
export function threshold(examples) {
  const seen = examples.filter((e) => !e.prepared && e.before.answers.some((a) => a.label === e.label)).slice(-LATEST);
  if (seen.length < FEWEST) return null;
  const sorted = seen.map((e) => e.before.novelty).sort((a, b) => a - b);
  return { value: sorted[Math.ceil(0.95 * sorted.length) - 1], from: sorted.length };
}

// Whether a picture is like nothing that was shown. As long as there is no threshold of the person's own, it must be
// both rather new and in doubt; of a single class there is no doubt, and it must be newer.
function isNovel({ novelty, answers }, limit) {
  if (limit) return novelty > limit.value;
  return answers.length === 1 ? novelty > EARLY.alone : novelty > EARLY.novelty && answers[0].probability < EARLY.probability;
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
  const novel = isNovel(answer, limit);
  tell(
    verdict,
    make("strong", {}, novel ? "None of these" : best.label),
    make("span", {}, novel ? `closest: ${best.label}, ${percent(best.probability)}` : `${percent(best.probability)} sure`),
  );
  verdict.classList.toggle("novel", novel);
  verdict.title = `Novelty ${answer.novelty.toFixed(2)}` +
    (limit ? `, threshold ${limit.value.toFixed(2)} from your ${limit.from} latest examples.` : "; there is no threshold yet: it takes eight examples of yours.") +
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
