// The drawing board: white chalk on black, by mouse, finger, pen or keyboard.

const EDGE = 96; // pixels a side of the picture that is sent
const STEP = 12; // of the pen, by arrow key

export class Pad extends EventTarget {
  #strokes = [];
  #pen = null; // position of the keyboard's pen
  #down = false;

  constructor(canvas, width) {
    super();
    this.canvas = canvas;
    this.width = width; // an <input type=range>
    canvas.addEventListener("pointerdown", (event) => this.#begin(event));
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => this.#end());
    canvas.addEventListener("keydown", (event) => this.#key(event));
    canvas.addEventListener("blur", () => { this.#pen = null; this.#paint(); });
    this.#paint();
  }

  get empty() {
    return this.#strokes.length === 0;
  }

  clear() {
    this.#strokes = [];
    this.#down = false;
    this.#changed();
  }

  undo() {
    this.#strokes.pop();
    this.#down = false;
    this.#changed();
  }

  // The ink alone, cut out with a margin and made EDGE pixels square: where and how large one draws does not matter.
  async blob() {
    const points = this.#strokes.flatMap(({ points, width }) => points.map(([x, y]) => [x, y, width / 2]));
    const left = Math.min(...points.map(([x, , r]) => x - r)), right = Math.max(...points.map(([x, , r]) => x + r));
    const top = Math.min(...points.map(([, y, r]) => y - r)), bottom = Math.max(...points.map(([, y, r]) => y + r));
    const side = Math.max(right - left, bottom - top) * 1.25;
    const canvas = new OffscreenCanvas(EDGE, EDGE);
    const context = canvas.getContext("2d");
    context.fillRect(0, 0, EDGE, EDGE);
    context.scale(EDGE / side, EDGE / side);
    context.translate(side / 2 - (left + right) / 2, side / 2 - (top + bottom) / 2);
    this.#ink(context);
    return canvas.convertToBlob();
  }

  #at(event) {
    const box = this.canvas.getBoundingClientRect();
    const scale = this.canvas.width / box.width;
    return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
  }

  #begin(event) {
    if (event.button) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.#stroke(this.#at(event));
  }

  #move(event) {
    if (!this.canvas.hasPointerCapture(event.pointerId)) return;
    for (const each of event.getCoalescedEvents?.() ?? [event]) this.#strokes.at(-1).points.push(this.#at(each));
    this.#changed();
  }

  #end() {
    this.#changed();
  }

  #stroke(point) {
    this.#strokes.push({ width: Number(this.width.value), points: [point] });
    this.#changed();
  }

  #key(event) {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const side = this.canvas.width;
    if (event.key in moves) {
      const [x, y] = this.#pen ?? [side / 2, side / 2];
      const [dx, dy] = moves[event.key];
      const inside = (v) => Math.min(Math.max(v, 0), side);
      this.#pen = [inside(x + STEP * dx), inside(y + STEP * dy)];
      if (this.#down) this.#strokes.at(-1).points.push(this.#pen);
    } else if (event.key === " ") {
      this.#pen ??= [side / 2, side / 2];
      this.#down = !this.#down;
      if (this.#down) this.#stroke(this.#pen);
    } else if (event.key === "Delete" || event.key === "Backspace") this.clear();
    else if (event.key === "z" && (event.ctrlKey || event.metaKey)) this.undo();
    else return;
    event.preventDefault();
    this.#changed();
  }

  #paint() {
    const context = this.canvas.getContext("2d");
    context.fillStyle = "#111318";
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    this.#ink(context);
    if (!this.#pen) return;
    context.beginPath();
    context.arc(...this.#pen, 9, 0, 7);
    context.lineWidth = 3;
    context.strokeStyle = this.#down ? "#ff9632" : "#7db4ff";
    context.stroke();
  }

  #ink(context) {
    context.strokeStyle = "white";
    context.lineCap = context.lineJoin = "round";
    for (const { width, points } of this.#strokes) {
      context.lineWidth = width;
      context.beginPath();
      context.moveTo(...points[0]);
      for (const point of points.length > 1 ? points.slice(1) : points) context.lineTo(...point);
      context.stroke();
    }
  }

  #changed() {
    this.#paint();
    this.dispatchEvent(new Event("change"));
  }
}
