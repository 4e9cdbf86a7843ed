// Pictures as numbers: what the ordinary network sees, thumbnails, and likeness.

export const SIDE = 32;

// A thumbnail (address) and SIDE×SIDE grays of mean 0 and deviation 1, of an image file.
export async function look(blob) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(blob);
  } catch {
    throw new Error("That is not a picture this browser can show, or a damaged one.");
  }
  const small = new OffscreenCanvas(SIDE, SIDE).getContext("2d", { willReadFrequently: true });
  small.fillStyle = "white";
  small.fillRect(0, 0, SIDE, SIDE);
  small.drawImage(bitmap, 0, 0, SIDE, SIDE);
  const bytes = small.getImageData(0, 0, SIDE, SIDE).data;
  const canvas = new OffscreenCanvas(56, 56);
  const large = canvas.getContext("2d");
  const edge = Math.min(bitmap.width, bitmap.height);
  large.imageSmoothingEnabled = edge > 56;
  large.drawImage(bitmap, (bitmap.width - edge) / 2, (bitmap.height - edge) / 2, edge, edge, 0, 0, 56, 56);
  bitmap.close();
  return { grays: standardise(bytes), thumbnail: URL.createObjectURL(await canvas.convertToBlob()) };
}

function standardise(bytes) {
  const grays = new Float32Array(SIDE * SIDE);
  for (let i = 0; i < grays.length; i++) grays[i] = (bytes[4 * i] + bytes[4 * i + 1] + bytes[4 * i + 2]) / 765;
  const mean = grays.reduce((a, b) => a + b) / grays.length;
  const deviation = Math.sqrt(grays.reduce((a, b) => a + (b - mean) ** 2, 0) / grays.length);
  return grays.map((gray) => (gray - mean) / Math.max(deviation, 0.01));
}

// The learner's features, of unit length, from the server's base64.
export function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}

export function likeness(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}
