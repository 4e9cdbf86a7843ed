// Where pictures come from: the board, a file, or the webcam. One of them is on.

import { find } from "./dom.js";
import { Pad } from "./pad.js";

const KINDS = ["draw", "file", "camera"];

export class Source extends EventTarget {
  kind = "draw";
  #file = null;

  constructor() {
    super();
    this.pad = new Pad(find("pad"), find("width"));
    this.pad.addEventListener("change", () => this.#changed());
    find("undo-stroke").addEventListener("click", () => this.pad.undo());
    find("clear-pad").addEventListener("click", () => this.pad.clear());
    for (const kind of KINDS) {
      find(`tab-${kind}`).addEventListener("click", () => this.choose(kind));
      find(`tab-${kind}`).addEventListener("keydown", (event) => this.#arrow(event, kind));
    }
  }

  // The picture that is shown now, as an image file; null: none.
  async picture() {
    if (this.kind === "draw") return this.pad.empty ? null : this.pad.blob();
    return this.kind === "file" ? this.#file : this.#frame();
  }

  setFile(file) {
    this.#file = file;
    const image = find("picture");
    URL.revokeObjectURL(image.src);
    image.hidden = !file;
    find("drop-hint").hidden = Boolean(file);
    if (file) image.src = URL.createObjectURL(file);
    this.choose("file");
  }

  // After a picture has been taught: a fresh board, or ready for the next file.
  taught() {
    if (this.kind === "draw") this.pad.clear();
  }

  async choose(kind) {
    this.kind = kind;
    for (const each of KINDS) {
      const on = each === kind;
      find(`tab-${each}`).setAttribute("aria-selected", on);
      find(`tab-${each}`).tabIndex = on ? 0 : -1;
      find(`panel-${each}`).hidden = !on;
    }
    const video = find("video");
    if (kind !== "camera") {
      video.srcObject?.getTracks().forEach((track) => track.stop());
      video.srcObject = null;
    } else if (!video.srcObject) {
      try {
        video.srcObject = await navigator.mediaDevices.getUserMedia({ video: { width: 320, height: 240 } });
        await video.play();
      } catch (error) {
        this.choose("draw");
        throw new Error(`There is no webcam to use (${error.name}): draw, or choose a picture.`);
      }
    }
    this.#changed();
  }

  async #frame() {
    const video = find("video");
    if (!video.videoWidth) return null;
    const edge = Math.min(video.videoWidth, video.videoHeight);
    const canvas = new OffscreenCanvas(240, 240);
    const [left, top] = [(video.videoWidth - edge) / 2, (video.videoHeight - edge) / 2];
    canvas.getContext("2d").drawImage(video, left, top, edge, edge, 0, 0, 240, 240);
    return canvas.convertToBlob({ type: "image/jpeg", quality: 0.9 });
  }

  #arrow(event, kind) {
    const step = { ArrowRight: 1, ArrowLeft: KINDS.length - 1 }[event.key];
    if (!step) return;
    const next = KINDS[(KINDS.indexOf(kind) + step) % KINDS.length];
    find(`tab-${next}`).focus();
    find(`tab-${next}`).click();
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }
}
