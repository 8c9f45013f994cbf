// One workspace: its events as they come, what they made, and a form that writes.

import { Workspace } from "./api.js";
import { bytes, code, count, h, problem, section, table, time } from "./page.js";
import { verify } from "./proof.js";

/** Events that are shown at once; older ones are a page further down in the log. */
const SHOWN = 200;
const TABS = ["events", "entities", "records", "sequences"];

/** Shows a workspace until it is left; returns what to do then. */
export function show(page, namespace, number, tab = "events") {
  const workspace = new Workspace(namespace, number);
  const content = h("section");
  const tabs = h("nav", { class: "tabs" }, TABS.map((name) =>
    h("a", { href: `#/${namespace}/${number}/${name}`, "aria-current": name === tab ? "page" : false }, name)));
  const title = h("div", { class: "bar" }, h("h2", {}, `${namespace}/${number}`), tabs);
  const sequences = h("div", { class: "row" });
  page.replaceChildren(h("div", { class: "columns" }, content, writeForm(workspace, sequences)));
  fillSequences(workspace, sequences);
  if (tab === "events") return events(workspace, content, title);
  listing(workspace, tab).then(
    (list) => content.replaceChildren(title, list),
    (error) => content.replaceChildren(title, problem(error)),
  );
  return () => {};
}

/** The newest events, the newest first, and every one that comes. */
function events(workspace, content, title) {
  const state = h("span", { class: "quiet", "aria-live": "polite" }, "connecting");
  const body = h("tbody");
  const none = h("p", { class: "quiet" }, "No event yet. Write one with the form, or with gapless write.");
  const head = h("tr", {}, ["Offset", "Time", "Event", "Client", "Numbers", "Payload", ""].map((name) => h("th", {}, name)));
  const shown = h("div", { class: "scroll" }, h("table", {}, h("thead", {}, head), body));
  content.replaceChildren(title, state, none, shown);
  let stop = () => {};
  let left = false;
  workspace.state().then((now) => now.last_offset ?? 0, () => 0).then((last) => {
    if (left) return;
    const first = Math.max(1, last - SHOWN + 1);
    const come = (event) => {
      none.remove();
      body.prepend(eventRow(workspace, event, event.workspace_offset > last));
      while (body.children.length > SHOWN) body.lastChild.remove();
    };
    stop = workspace.follow(first, come, (name) => { state.textContent = name; });
  });
  return () => {
    left = true;
    stop();
  };
}

function eventRow(workspace, event, isNew) {
  const numbers = Object.entries(event.numbers ?? {}).map(([name, number]) => `${name} ${number}`);
  const ids = Object.entries(event.record_ids ?? {}).map(([raw, id]) => `record ${raw} is ${id}`);
  const proof = h("button", { class: "second", type: "button", click: () => prove(workspace, event, proof) }, "Verify");
  const payload = event.content_type === "application/json" ? JSON.stringify(event.payload) : bytes(event.payload ?? "");
  const more = h("details", {}, h("summary", {}, shorten(payload)), h("pre", {}, JSON.stringify(event, null, 2)));
  return h("tr", { class: isNew ? "new" : "", "data-offset": event.workspace_offset },
    h("td", { class: "number" }, count(event.workspace_offset)),
    h("td", {}, time(event.committed_at_ms)),
    h("td", {}, event.event_type),
    h("td", {}, `${event.client_id} ${event.assigned_sequence}`),
    h("td", {}, [...numbers, ...ids].join(", ")),
    h("td", {}, more),
    h("td", {}, proof));
}

const shorten = (text) => (text.length > 60 ? `${text.slice(0, 60)}…` : text);

/** Checks in the browser that the event is in the tree of its workspace. */
async function prove(workspace, event, button) {
  button.disabled = true;
  try {
    const { holds, root, size, steps } = await verify(await workspace.proof(event.workspace_offset));
    const said = holds ? `in the tree of ${count(size)}` : "NOT in the tree";
    button.replaceWith(h("span", { class: holds ? "pill good" : "pill bad", title: `root ${root}, ${steps} hashes` }, said));
  } catch (error) {
    button.disabled = false;
    button.title = error.message;
    button.textContent = "Try again";
  }
}

async function listing(workspace, tab) {
  if (tab === "sequences") {
    const { sequences } = await workspace.sequences();
    return table([
      ["Sequence", (row) => row.sequence],
      ["First", (row) => count(row.first_number), "number"],
      ["Last given", (row) => count(row.last_number ?? 0), "number"],
    ], sequences, "The kind of this workspace has no sequences of its own.");
  }
  const { items, more } = await workspace[tab]();
  const rest = more ? h("p", { class: "quiet" }, "There are more than are shown here.") : null;
  const list = tab === "entities"
    ? table([
      ["Key", (row) => code(bytes(row.key))],
      ["Value", (row) => code(bytes(row.value ?? ""))],
      ["Version", (row) => count(row.version), "number"],
      ["Expires", (row) => (row.expires_at_ms ? new Date(row.expires_at_ms).toISOString() : "")],
    ], items, "No entity is set.")
    : table([
      ["Record", (row) => String(row.record_id), "number"],
      ["Type", (row) => row.record_type],
      ["Fields", (row) => code(JSON.stringify(row.fields))],
      ["Parent", (row) => String(row.parent ?? "")],
      ["State", (row) => (row.active ? "active" : "inactive")],
    ], items, "No record was created.");
  return h("div", {}, list, rest);
}

/** A key for one intended write: 16 random bytes. */
function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The sequences of a workspace; of one that nobody wrote to, those that it will have. */
async function sequenceNames(workspace) {
  const { sequences } = await workspace.sequences();
  if (sequences.length > 0) return sequences.map(({ sequence }) => sequence);
  const { namespace } = await workspace.definition();
  const [, table = ""] = namespace.definition.split("[kinds.default.sequences]\n");
  const [lines] = table.split(/\n(?=\s*(?:\[|$))/);
  return lines.split("\n").map((line) => line.split(" = ")[0].trim()).filter((name) => name !== "");
}

async function fillSequences(workspace, into) {
  const chosen = new Set([...into.querySelectorAll("input:checked")].map((box) => box.value));
  const box = (name) => h("input", { type: "checkbox", name: "number", value: name, checked: chosen.has(name) });
  try {
    const names = await sequenceNames(workspace);
    into.replaceChildren(...names.map((name) => h("label", {}, h("span", {}, box(name), ` next ${name}`))));
  } catch { /* Then there are none to choose from; the list beside says why. */ }
}

/** A form that writes an event, and can send the same request again. */
function writeForm(workspace, sequences) {
  const type = h("input", { value: "ItemSold", "aria-label": "event type" });
  const client = h("input", { value: "console", "aria-label": "client" });
  const payload = h("textarea", { rows: 4, "aria-label": "payload", spellcheck: "false" });
  payload.value = '{"amount": 3}';
  const answer = h("div", { "aria-live": "polite" });
  let last;
  const send = async ({ key, request }) => {
    try {
      const success = await workspace.write(key, request);
      answer.replaceChildren(
        h("p", { class: "good" }, success.duplicate
          ? `Known already: the same key, so the first answer, offset ${count(success.workspace_offset)}.`
          : `Committed at offset ${count(success.workspace_offset)}.`),
        h("pre", {}, JSON.stringify(success, null, 2)));
      fillSequences(workspace, sequences);
    } catch (error) {
      answer.replaceChildren(problem(error));
    }
    again.disabled = false;
  };
  const again = h("button", { class: "second", type: "button", disabled: true, click: () => send(last) }, "Retry with the same key");
  const submit = (event) => {
    event.preventDefault();
    let value;
    try {
      value = JSON.parse(payload.value);
    } catch (error) {
      answer.replaceChildren(problem(new Error(`The payload is no JSON: ${error.message}`)));
      return;
    }
    const operations = [...sequences.querySelectorAll("input:checked")].map((box) => ({ next_number: { sequence: box.value } }));
    const request = { client_id: client.value, event_type: type.value, payload: value, operations };
    last = { key: newKey(), request };
    send(last);
  };
  const field = (name, input) => h("label", { class: "grow" }, name, input);
  return section("Write an event", h("form", { class: "write", submit },
    h("div", { class: "row" }, field("Event type", type), field("Client", client)),
    field("Payload", payload), sequences,
    h("div", { class: "row" }, h("button", {}, "Write"), again), answer));
}
