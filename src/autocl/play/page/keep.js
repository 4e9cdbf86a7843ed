// Keep: the timeline, the state as a file, the pictures as folders, and six lines of Python.

import * as api from "./api.js";
import { download, find, say } from "./dom.js";
import { folderName, zip } from "./zip.js";

const FILE = "playground.safetensors";

export const PYTHON = `from autocl import ContinualClassifier
clf = ContinualClassifier.load("${FILE}")
print(clf.classes_, clf.n_seen_)
print(clf.predict(["picture.png"]), clf.novelty(["picture.png"]))
clf.partial_fit(["another.png"], [clf.classes_[0]])
clf.save("${FILE}")
`;

export async function saveState(workspace) {
  download(await api.state(workspace.session), FILE);
  say(`The state is in ${FILE}: no pictures, and all that was learned.`);
}

export async function exportPictures(workspace) {
  const all = [...workspace.examples, ...workspace.held];
  const files = all.map(({ label, blob }, i) => {
    const suffix = blob.type === "image/jpeg" ? "jpg" : (blob.type.split("/")[1] ?? "png");
    return { name: `playground/${folderName(label)}/${String(i + 1).padStart(4, "0")}.${suffix}`, blob };
  });
  download(await zip(files), "playground.zip");
  say(`${files.length} pictures, a folder for each class: autocl learn playground --state mine.safetensors`);
}

export async function copyPython() {
  find("python").textContent = PYTHON;
  find("python").hidden = false;
  await navigator.clipboard?.writeText(PYTHON).catch(() => {}); // shown in any case
  say(`Six lines of Python, copied and shown below; save the state as ${FILE} beside them.`);
}

export function showKeep(workspace, health) {
  const slider = find("moment");
  const { history, at } = workspace;
  slider.max = history.length - 1;
  slider.value = at;
  slider.disabled = history.length < 2;
  const text = at ? `${history[at].what} (${at} of ${history.length - 1})` : history[0].what;
  find("moment-text").textContent = text;
  slider.setAttribute("aria-valuetext", text);
  find("undo").disabled = at === 0;
  find("save").disabled = find("copy").disabled = workspace.summary.classes.length === 0;
  find("export").disabled = workspace.examples.length + workspace.held.length === 0;
  const kept = health.stored ? "in the folder given with --store" : "in the memory of the server, until it stops";
  const whose = health.local ? "Nothing leaves this machine." : "Everything stays on the server you are connected to.";
  find("where").textContent =
    `${whose} Your pictures are kept by this page only, until you close it. The learner keeps its state, ` +
    `${Math.ceil(workspace.summary.state_bytes / 1024).toLocaleString("en")} kB, ${kept}; ` +
    `earlier moments are kept by the server's memory, as many as fit. ` +
    "Where a moment or an example has to be taken out that it cannot undo, it learns the later ones again.";
}
