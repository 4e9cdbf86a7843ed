// The server, as functions. Errors carry the message that the server gave.

const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? sessionStorage.getItem("token");
if (token) {
  sessionStorage.setItem("token", token);
  history.replaceState(null, "", location.pathname); // out of the address, which gets copied and shown
}

async function ask(method, path, body, type) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  if (body !== undefined && !(body instanceof Blob)) {
    body = JSON.stringify(body);
    type = "application/json";
  }
  if (type) headers["Content-Type"] = type;
  let answer;
  try {
    answer = await fetch(path, { method, body, headers });
  } catch {
    throw new Error("The server does not answer: is autocl play still running?");
  }
  if (!answer.ok) {
    const told = await answer.json().catch(() => ({ error: answer.statusText }));
    throw Object.assign(new Error(told.error), { status: answer.status });
  }
  return answer;
}

const json = async (...request) => (await ask(...request)).json();

export const health = () => json("GET", "/health");
export const tour = () => json("GET", "/tour");
export const create = () => json("POST", "/sessions");
export const describe = (session) => json("GET", `/sessions/${session}`);

export const learnOne = (session, blob, label) =>
  json("POST", `/sessions/${session}/learn?features=1&label=${encodeURIComponent(label)}`, blob, blob.type || "image/png");

export const predictOne = async (session, blob) =>
  (await json("POST", `/sessions/${session}/predict?features=1`, blob, blob.type || "image/png")).answers[0];

export async function predictMany(session, blobs) {
  const answers = [];
  for (let i = 0; i < blobs.length; i += 64) {
    const images = await Promise.all(blobs.slice(i, i + 64).map(base64));
    answers.push(...(await json("POST", `/sessions/${session}/predict`, { images, top: 1 })).answers);
  }
  return answers;
}

export const back = (session, moment) => json("POST", `/sessions/${session}/back`, { moment });
export const forget = (session, label) => json("POST", `/sessions/${session}/forget`, { label });
export const rename = (session, label, to) => json("POST", `/sessions/${session}/rename`, { label, to });
export const state = async (session) => (await ask("GET", `/sessions/${session}/state`)).blob();
export const putState = (session, file) => json("PUT", `/sessions/${session}/state`, file, "application/octet-stream");
export const picture = async (session) => (await ask("GET", `/sessions/${session}/picture`)).blob();

function base64(blob) {
  return new Promise((done, fail) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => fail(new Error("a picture cannot be read any more"));
    reader.readAsDataURL(blob);
  });
}
