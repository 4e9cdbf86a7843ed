// Workspace: one session, the pictures that this page keeps for it, and its timeline.
//
// The learner keeps no pictures, only its state. The page keeps them, until it is closed: to show them, to export
// them, and to learn them again when an earlier one is deleted.

import * as api from "./api.js";
import { look, unpack } from "./pixels.js";

const HOLD_BACK = 4; // of every four pictures of a class one is held back, the third first

export class Workspace extends EventTarget {
  names = []; // classes in the order of appearance, also those that have no examples now
  held = []; // examples that are only asked about
  holdBack = true;
  #busy = Promise.resolve();

  // An entry of the history: what happened, the server's number for the moment, and the examples learned by then.
  // `base` is what was known before the first of them: nothing, or a loaded state.
  async open(session) {
    const known = session ? await api.describe(session) : await api.create();
    this.session = known.session;
    this.summary = known;
    this.names = known.classes.map((c) => c.label);
    this.history = [{ what: session && known.moment ? "found again" : "nothing learned yet", moment: known.moment, base: {}, examples: [] }];
    this.at = 0;
    this.#changed();
    return this;
  }

  get now() {
    return this.history[this.at];
  }

  get examples() {
    return this.now.examples;
  }

  of(label) {
    return this.examples.filter((e) => e.label === label);
  }

  count(label) {
    return this.summary.classes.find((c) => c.label === label)?.examples ?? 0;
  }

  addName(label) {
    if (!this.names.includes(label)) this.names.push(label);
  }

  // Teach a picture as a class, or hold it back; `prepared` ones are not the person's own. Resolves to the example.
  show(blob, label, { prepared = false } = {}) {
    return this.#inTurn(async () => {
      const example = { blob, label, prepared, ...(await look(blob)) };
      const shown = this.of(label).length + this.held.filter((e) => e.label === label).length;
      example.held = !prepared && this.holdBack && shown % HOLD_BACK === 2;
      this.addName(label);
      if (example.held) {
        const answer = await api.predictOne(this.session, blob);
        Object.assign(example, { before: answer, features: unpack(answer.features) });
        this.held.push(example);
      } else {
        await this.#teach(example);
      }
      return example;
    });
  }

  // Hold pictures back without a question about them, to measure with.
  reserve(pictures) {
    return this.#inTurn(async () => {
      const before = { answers: [], novelty: 1 };
      const looks = await Promise.all(pictures.map(({ blob }) => look(blob)));
      pictures.forEach(({ blob, label }, i) => this.held.push({ blob, label, held: true, prepared: true, before, ...looks[i] }));
    });
  }

  predict(blob) {
    return api.predictOne(this.session, blob);
  }

  goTo(index) {
    return this.#inTurn(async () => {
      const { moment, examples, base } = this.history[index];
      if (this.summary.moments.includes(moment)) {
        this.summary = await api.back(this.session, moment);
        this.at = index;
      } else {
        await this.#rebuild(examples, base);
      }
    });
  }

  remove(example) {
    return this.#inTurn(async () => {
      if (example.held) this.held = this.held.filter((e) => e !== example);
      else await this.#rebuild(this.examples.filter((e) => e !== example));
    });
  }

  // Take all examples of a class away; with its name, too, if asked.
  clear(label, { name = false } = {}) {
    return this.#inTurn(async () => {
      const rest = this.examples.filter((e) => e.label !== label);
      if (this.count(label)) {
        try {
          this.summary = await api.forget(this.session, label);
          this.#push(`forgot ${label}`, rest);
        } catch (error) {
          const kept = this.of(label).length === this.count(label);
          if (error.status !== 409 || !kept) throw error;
          await this.#rebuild(rest); // this learner cannot forget a class: it learns the others again
        }
      }
      this.held = this.held.filter((e) => e.label !== label);
      if (name) this.names = this.names.filter((n) => n !== label);
    });
  }

  rename(label, to) {
    return this.#inTurn(async () => {
      if (this.names.includes(to)) throw new Error(`There is a class “${to}” already.`);
      const known = this.history.some((entry) => entry.examples.some((e) => e.label === label)) || this.count(label);
      if (this.count(label)) this.summary = await api.rename(this.session, label, to);
      else if (known) throw new Error("Show this class once more before you rename it.");
      for (const e of new Set([...this.history.flatMap((entry) => entry.examples), ...this.held])) {
        if (e.label === label) e.label = to;
        for (const a of e.before.answers) if (a.label === label) a.label = to;
      }
      this.names = this.names.map((n) => (n === label ? to : n));
    });
  }

  load(file) {
    return this.#inTurn(async () => {
      this.summary = await api.putState(this.session, file);
      this.#push(`loaded ${file.name}`, [], {});
      this.names = this.summary.classes.map((c) => c.label);
      this.held = [];
    });
  }

  async #teach(example) {
    this.summary = await api.learnOne(this.session, example.blob, example.label);
    const [before] = this.summary.before;
    example.before ??= before;
    example.features = unpack(before.features);
    this.addName(example.label);
    this.#push(`learned ${example.label}`, [...this.examples, example]);
  }

  // Be as if only these examples had been learned: go back to the latest moment that is a beginning of them, and
  // learn the others again.
  async #rebuild(target, base = this.now.base) {
    let best = 0;
    this.history.forEach((entry, i) => {
      const begins = entry.base === base && entry.examples.every((e, k) => e === target[k]);
      if (begins && this.summary.moments.includes(entry.moment)) best = i;
    });
    if (this.history[best].base !== base) throw new Error("That moment is no longer kept, and cannot be learned again.");
    this.summary = await api.back(this.session, this.history[best].moment);
    this.at = best;
    this.history.length = best + 1;
    for (const example of target.slice(this.examples.length)) await this.#teach(example);
  }

  #push(what, examples, base = this.now.base) {
    this.history.length = this.at + 1;
    this.history.push({ what, moment: this.summary.moment, base, examples });
    this.at += 1;
    this.dispatchEvent(new Event("learned"));
  }

  // One thing after the other, whatever is clicked meanwhile.
  #inTurn(work) {
    const result = this.#busy.then(work).finally(() => this.#changed());
    this.#busy = result.catch(() => {});
    return result;
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }
}
