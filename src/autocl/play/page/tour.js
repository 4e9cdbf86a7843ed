// The tour: a prepared stream of digits, two new classes at a time, taught as a visitor would teach them.

import * as api from "./api.js";
import { percent, say, wait } from "./dom.js";

const DURATION = 19_000; // milliseconds of all examples and measurements, if the machine is fast enough

// `shown` is called with every example that was taught, `refresh` after every task; it ends when `stopped()`.
export async function playTour(workspace, watch, { shown, refresh, stopped }) {
  const { tasks } = await api.tour();
  const total = tasks.reduce((n, task) => n + task.teach.length, 0);
  const started = performance.now();
  for (const [i, task] of tasks.entries()) {
    const title = task.classes.join(" and ");
    say(`Tour, task ${i + 1} of ${tasks.length}: it learns ${title}, and sees no old digit again.`);
    for (const example of task.teach) {
      if (stopped()) return;
      shown(await workspace.show(blob(example.image), example.label, { prepared: true }));
      const due = started + (DURATION * workspace.examples.length) / total;
      await wait(Math.max(0, due - performance.now()));
    }
    await workspace.reserve(task.held_back.map(({ image, label }) => ({ blob: blob(image), label })));
    await watch.measure(title.replace(" and ", "/"));
    refresh();
  }
  const { learner, sgd } = watch.rows.at(-1).accuracy;
  const first = (accuracy) => percent(tasks[0].classes.reduce((sum, label) => sum + accuracy.get(label), 0) / tasks[0].classes.length);
  say(`That was the tour. Of ${tasks[0].classes.join(" and ")}, learned first, it still gets ${first(learner)} right, the ordinary network ${first(sgd)}. Now draw a digit.`);
}

// fetch() of a data: address is forbidden to this page.
function blob(address) {
  const bytes = Uint8Array.from(atob(address.slice(address.indexOf(",") + 1)), (c) => c.charCodeAt(0));
  return new Blob([bytes], { type: "image/png" });
}
