// Elements without markup: whatever a person has named is text, never HTML.

export const find = (id) => document.getElementById(id);

// An element with properties (on* are listeners, aria-* and data-* attributes) and children (elements or text).
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name.includes("-") || name === "role") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children);
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

export function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// Put other children into an element. What has the focus keeps it, if something of the same name comes again.
export function replace(container, ...children) {
  const key = (element) => element.dataset.key ?? element.getAttribute("aria-label");
  const held = container.contains(document.activeElement) ? key(document.activeElement) : null;
  container.replaceChildren(...children);
  if (held) [...container.querySelectorAll("button, input")].find((e) => key(e) === held)?.focus();
}

// Change a text that is read aloud only if it is another one.
export function tell(element, ...children) {
  const next = make("p", {}, ...children);
  if (next.textContent !== element.textContent) element.replaceChildren(...next.childNodes);
}

// Hand a file to the person.
export function download(blob, name) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function say(text) {
  find("status").textContent = text;
}

// What went wrong, until the next thing goes right.
export function complain(error) {
  const box = find("message");
  box.textContent = error ? error.message ?? String(error) : "";
  box.hidden = !error;
}

export const percent = (share) => `${Math.round(100 * share)} %`;

export const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
