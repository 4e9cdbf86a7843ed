// The page: wires what is shown to what is asked.

import * as api from "./api.js";
import { showAnswer } from "./answer.js";
import { fromDrop, fromInput } from "./bulk.js";
import { reveal, showClasses } from "./classes.js";
import { complain, find, say, wait } from "./dom.js";
import { copyPython, exportPictures, saveState, showKeep } from "./keep.js";
import { Source } from "./source.js";
import { playTour } from "./tour.js";
import { showChart, Watch } from "./watch.js";
import { Workspace } from "./workspace.js";

const FRAME = 250; // milliseconds between two questions about the webcam, and between two frames that are taught

let health, workspace, watch, touring = false;
const source = new Source();

// Do something that may fail; what went wrong is said in the page.
const attempt = (work) => async (...given) => {
  try {
    complain(null);
    return await work(...given);
  } catch (error) {
    complain(error);
  }
};

// Asking: always about the newest picture, never two questions at once.

let asking = false, again = false;
let refused = null; // the picture that could not be read: asking again would hide what else went wrong since

async function ask() {
  if (asking) return void (again = true);
  asking = true;
  do {
    again = false;
    const started = performance.now();
    let picture = null;
    try {
      picture = await source.picture();
      if (picture && picture === refused) continue;
      const answer = picture && (await workspace.predict(picture));
      showAnswer(answer, workspace, teach);
      if (answer) {
        const took = performance.now() - started;
        find("timing").textContent = `answered in ${Math.round(took)} ms`;
        Object.assign(document.body.dataset, { answers: Number(document.body.dataset.answers ?? 0) + 1, milliseconds: took });
      }
    } catch (error) {
      refused = picture;
      complain(error);
    }
  } while (again);
  asking = false;
}

// Teaching.

async function showOne(picture, label) {
  const first = !workspace.count(label);
  if (first && watch.due) await watch.measure(); // a new class begins a new task
  const example = await workspace.show(picture, label);
  const [best] = example.before.answers;
  const believed = best ? `It had said ${best.label}.` : "";
  reveal(label);
  say(example.held ? `Held back, to measure with: not taught. ${believed}` : `Learned ${label}. ${believed}`);
}

const teach = attempt(async (label) => {
  label = label.normalize("NFC").trim();
  const picture = await source.picture();
  if (!label || !picture) return complain(new Error(label ? "Draw something, or show a picture, first." : "A class needs a name."));
  const started = performance.now();
  await showOne(picture, label);
  document.body.dataset.taught = performance.now() - started;
  source.taught();
});

const teachFolder = attempt(async (files) => {
  if (!files.length) throw new Error("There are no pictures in that folder.");
  const skipped = [];
  if (watch.due) await watch.measure();
  for (const [i, { file, label }] of files.entries()) {
    say(`Learning ${i + 1} of ${files.length}: ${label}`);
    try {
      await workspace.show(file, label);
    } catch (error) {
      skipped.push(`${file.name}: ${error.message}`);
    }
  }
  await watch.measure();
  refresh();
  say(`Learned ${files.length - skipped.length} pictures of ${new Set(files.map((f) => f.label)).size} classes.`);
  if (skipped.length) complain(new Error(`${skipped.length} files were passed over. ${skipped.slice(0, 3).join("; ")}`));
});

// While a button or a number key is held, frame after frame of the webcam; else once.
let holding = null;

async function hold(label) {
  if (source.kind !== "camera") return teach(label);
  if (holding) return;
  holding = label;
  while (holding === label) {
    const next = wait(FRAME);
    await teach(label);
    await next;
  }
}

const release = () => { holding = null; };

const actions = {
  holdable(button, label) {
    button.addEventListener("pointerdown", () => { if (source.kind === "camera") hold(label); });
    button.addEventListener("click", () => { if (source.kind !== "camera") teach(label); });
    button.addEventListener("keydown", (event) => { if (source.kind === "camera" && event.key === "Enter" && !event.repeat) hold(label); });
  },
  remove: attempt((example) => workspace.remove(example)),
  clear: attempt((label) => workspace.clear(label)),
  forget: attempt((label) => workspace.clear(label, { name: true })),
  async rename(label, to, input) {
    try {
      complain(null);
      if (!to) throw new Error("A class needs a name.");
      if (to === label) return;
      await workspace.rename(label, to);
      watch.rename(label, to);
      refresh();
    } catch (error) {
      input.value = label;
      complain(error);
    }
  },
};

// Showing.

let drawn = null; // the session and moment whose state is shown
let charted = null; // the measurements that the chart shows

async function showState() {
  const { session, summary } = workspace;
  const now = `${session} ${summary.moment}`;
  if (drawn === now) return;
  drawn = now;
  const image = find("state-picture");
  const blob = await api.picture(session);
  URL.revokeObjectURL(image.src);
  image.src = URL.createObjectURL(blob);
  find("state-text").textContent =
    `Its state after ${summary.classes.reduce((n, c) => n + c.examples, 0)} examples: ` +
    `${summary.state_bytes.toLocaleString("en")} bytes, all it keeps, dark where there is room left. No picture is in it.`;
}

function refresh() {
  showClasses(workspace, actions);
  showKeep(workspace, health);
  const measured = JSON.stringify([workspace.session, watch.rows.map((row) => [row.learned, ...row.accuracy.learner.keys()])]);
  if (charted !== measured) showChart(watch.rows);
  charted = measured;
  find("measure").disabled = !watch.due;
  showState().catch(complain);
  if (!touring) ask();
}

async function use(next, watched) {
  if (workspace) workspace.removeEventListener("change", refresh);
  workspace = next;
  workspace.holdBack = find("hold-back").checked;
  watch = watched ?? new Watch(workspace);
  workspace.addEventListener("change", refresh);
  sessionStorage.setItem("session", workspace.session);
  refresh();
}

// Tour: in a session of its own, so that it mixes with nothing.

const tour = attempt(async () => {
  const button = find("tour");
  if (touring) return void (touring = false);
  const mine = [workspace, watch];
  touring = true;
  button.replaceChildren("■ Stop the tour");
  find("watch").scrollIntoView({ block: "nearest" });
  try {
    await use(await new Workspace().open());
    const shown = (example) => {
      showAnswer(example.before, workspace, teach);
      reveal(example.label);
    };
    await playTour(workspace, watch, { shown, refresh, stopped: () => !touring });
    document.body.dataset.toured = watch.rows.length;
  } finally {
    touring = false;
    refresh();
    const had = mine[0].names.length > 0;
    button.replaceChildren(had ? "↩ Back to what you taught" : "▶ Tour again");
    if (had) {
      button.onclick = () => {
        use(...mine);
        button.onclick = tour;
        button.replaceChildren("▶ Take the tour");
      };
    }
  }
});

// Wiring.

source.addEventListener("change", () => { if (workspace) ask(); });
find("name-form").addEventListener("submit", (event) => {
  event.preventDefault();
  teach(find("name").value).then(() => { find("name").value = ""; });
});
find("hold-back").addEventListener("change", (event) => { workspace.holdBack = event.target.checked; });
find("measure").addEventListener("click", attempt(async () => { await watch.measure(); refresh(); }));
find("undo").addEventListener("click", attempt(() => workspace.goTo(workspace.at - 1)));
find("moment").addEventListener("change", attempt((event) => workspace.goTo(Number(event.target.value))));
find("save").addEventListener("click", attempt(() => saveState(workspace)));
find("export").addEventListener("click", attempt(() => exportPictures(workspace)));
find("copy").addEventListener("click", attempt(copyPython));
find("load").addEventListener("click", () => find("state-file").click());
find("state-file").addEventListener("change", attempt(async (event) => {
  const [file] = event.target.files;
  event.target.value = "";
  if (file) await workspace.load(file);
}));
find("choose-file").addEventListener("click", () => find("file").click());
find("file").addEventListener("change", (event) => { source.setFile(event.target.files[0] ?? null); event.target.value = ""; });
find("choose-folder").addEventListener("click", () => find("folder").click());
find("folder").addEventListener("change", (event) => teachFolder(fromInput(event.target.files)));

window.addEventListener("unhandledrejection", (event) => { complain(event.reason); event.preventDefault(); });
document.addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("dragging"); });
for (const end of ["dragleave", "drop"]) document.addEventListener(end, () => document.body.classList.remove("dragging"));
document.addEventListener("drop", attempt(async (event) => {
  event.preventDefault();
  const { folder, files } = await fromDrop(event.dataTransfer);
  if (folder.length) await teachFolder(folder);
  else if (files.length) source.setFile(files[0]);
}));
document.addEventListener("paste", (event) => {
  const [file] = event.clipboardData.files;
  if (file) source.setFile(file);
});
document.addEventListener("keydown", (event) => {
  if (event.target.matches("input, textarea") || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  const label = workspace?.names[Number(event.key) - 1];
  if (label !== undefined && event.key !== "0") hold(label);
});
for (const end of ["keyup", "pointerup", "pointercancel", "blur"]) window.addEventListener(end, release);
setInterval(() => { if (source.kind === "camera" && workspace && !holding) ask(); }, FRAME);

attempt(async () => {
  for (;;) {
    health = await api.health();
    if (health.ready) break;
    await wait(300);
  }
  find("learner").textContent = health.learner.split(/[\\/]/).at(-1);
  find("promise").textContent += health.local ? " Nothing leaves this machine." : "";
  const before = sessionStorage.getItem("session");
  const found = await new Workspace().open(before).catch(() => new Workspace().open());
  await use(found);
  find("tour").onclick = tour;
  find("tour").disabled = false;
  say("Ready. Draw something and name it.");
  document.body.dataset.ready = "yes";
})();
