// A ZIP archive without compression (pictures are compressed already): one folder for each class.

const table = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let bit = 0; bit < 8; bit++) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
  return n;
});

export function crc32(bytes) {
  let crc = ~0;
  for (const byte of bytes) crc = table[(crc ^ byte) & 255] ^ (crc >>> 8);
  return ~crc >>> 0;
}

// files: [{ name, blob }], names with "/" between folders.
export async function zip(files) {
  const parts = [], index = [];
  let offset = 0;
  for (const { name, blob } of files) {
    const data = new Uint8Array(await blob.arrayBuffer());
    const path = new TextEncoder().encode(name);
    // version, flags (names are UTF-8), no compression, 1 January 2026, checksum, sizes, length of the name
    const common = [[20, 2], [0x800, 2], [0, 2], [0, 2], [0x5c21, 2], [crc32(data), 4], [data.length, 4], [data.length, 4], [path.length, 2], [0, 2]];
    const head = bytes([[0x04034b50, 4], ...common]);
    index.push(bytes([[0x02014b50, 4], [20, 2], ...common, [0, 2], [0, 2], [0, 2], [0, 4], [offset, 4]]), path);
    parts.push(head, path, data);
    offset += head.length + path.length + data.length;
  }
  const length = index.reduce((sum, part) => sum + part.length, 0);
  const end = bytes([[0x06054b50, 4], [0, 4], [files.length, 2], [files.length, 2], [length, 4], [offset, 4], [0, 2]]);
  return new Blob([...parts, ...index, end], { type: "application/zip" });
}

// Little-endian numbers, each with its width.
function bytes(numbers) {
  return Uint8Array.from(numbers.flatMap(([value, width]) => Array.from({ length: width }, (_, i) => (value >>> (8 * i)) & 255)));
}

// A class's name as that of a folder: no separators, no dots in front, nothing that Windows refuses.
export function folderName(label) {
  return label.replace(/[\\/:*?"<>|\u0000-\u001f]/g, "_").replace(/^[. ]+|[. ]+$/g, "_") || "_";
}
