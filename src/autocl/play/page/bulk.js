// Folders of pictures, dropped or chosen: each picture's class is the name of the folder it lies in.

const IMAGE = /\.(png|jpe?g|webp|bmp|gif|tiff?|ppm|pgm)$/i;

// [{ file, label }], the classes taking turns.
export function fromInput(list) {
  return turns([...list].map((file) => ({ file, path: file.webkitRelativePath })));
}

// Files and folders that were dropped: { folder: [{ file, label }], files: [loose files] }.
export async function fromDrop(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.some((entry) => entry.isDirectory)) return { folder: [], files: [...transfer.files] };
  const found = [];
  for (const entry of entries) await walk(entry, found);
  return { folder: turns(found), files: [] };
}

async function walk(entry, found) {
  if (entry.isFile) {
    const file = await new Promise((done, fail) => entry.file(done, fail));
    found.push({ file, path: entry.fullPath.slice(1) });
    return;
  }
  const reader = entry.createReader();
  for (;;) {
    const some = await new Promise((done, fail) => reader.readEntries(done, fail));
    if (!some.length) return;
    for (const each of some) await walk(each, found);
  }
}

function turns(files) {
  const classes = new Map();
  for (const { file, path } of files.sort((a, b) => (a.path < b.path ? -1 : 1))) {
    const parts = path.split("/");
    if (!IMAGE.test(file.name) || parts.some((part) => part.startsWith("."))) continue;
    const label = parts.at(-2) ?? "folder";
    classes.set(label, [...(classes.get(label) ?? []), { file, label }]);
  }
  const longest = Math.max(0, ...[...classes.values()].map((each) => each.length));
  return Array.from({ length: longest }, (_, i) => [...classes.values()].map((each) => each[i]).filter(Boolean)).flat();
}
