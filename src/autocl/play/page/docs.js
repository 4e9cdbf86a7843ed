// The description of the API, for people; made from openapi.json.

import { find, make } from "./dom.js";

const described = await (await fetch("/openapi.json")).json();

find("about").textContent = described.info.description;
find("example").textContent = `SESSION=$(curl -sX POST ${location.origin}/sessions | python3 -c 'import json,sys; print(json.load(sys.stdin)["session"])')
curl -s "${location.origin}/sessions/$SESSION/learn?label=cat" -H "Content-Type: image/jpeg" --data-binary @cat.jpg
curl -s ${location.origin}/sessions/$SESSION/predict -H "Content-Type: image/jpeg" --data-binary @unknown.jpg
curl -s ${location.origin}/sessions/$SESSION/state -o state.safetensors`;

const named = (key, value) => (value?.$ref ? described.components.schemas[value.$ref.split("/").pop()] : value);
const shown = (schema) => make("pre", { tabIndex: 0 }, JSON.stringify(schema, named, 1));

for (const [path, methods] of Object.entries(described.paths)) {
  for (const [method, { summary, requestBody, responses }] of Object.entries(methods)) {
    const body = requestBody?.content["application/json"]?.schema;
    const answer = Object.values(responses)[0].content?.["application/json"]?.schema;
    find("endpoints").append(make(
      "section", { className: "endpoint", "aria-label": `${method} ${path}` },
      make("p", {}, make("code", {}, `${method.toUpperCase()} ${path}`)), make("p", { className: "hint" }, summary),
      ...(body ? [make("details", {}, make("summary", {}, "body (JSON)"), shown(body))] : []),
      ...(answer ? [make("details", {}, make("summary", {}, "answer"), shown(answer))] : []),
    ));
  }
}
