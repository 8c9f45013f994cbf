// The routes under /v1/ as functions. What is refused throws with the server's own words.

class Refused extends Error {
  constructor(status, body) {
    const violations = (body.violations ?? []).map((violation) => `${violation.field}: ${violation.problem}`);
    super([body.message ?? `the server answered ${status}`, ...violations].join("\n"));
    this.status = status;
    this.body = body;
  }
}

// Who asks, if the server wants to know. It is kept in this page and nowhere else.
let token = "";
let onUnknown = () => {};

/** From now on requests say this; `unknown` is called when the server does not believe it. */
export function authenticate(credential) {
  token = credential;
}
export function whenUnknown(called) {
  onUnknown = called;
}

/** A request with the token, if there is one. */
async function request(path, options = {}) {
  const headers = { ...options.headers, ...(token && { Authorization: `Bearer ${token}` }) };
  const response = await fetch(path, { ...options, headers });
  if (response.status === 401) onUnknown();
  return response;
}

async function ask(path, options = {}) {
  let response;
  try {
    response = await request(path, options);
  } catch {
    throw new Error("The server cannot be reached. Is it running?");
  }
  const text = await response.text();
  let body = {};
  try {
    body = JSON.parse(text);
  } catch {
    body = { message: text };
  }
  if (!response.ok) throw new Refused(response.status, body);
  return body;
}

/** All pages of a list. */
async function all(path, field, limit = 1000) {
  const items = [];
  for (let token = ""; ;) {
    const page = await ask(`${path}?page_size=500${token && `&page_token=${encodeURIComponent(token)}`}`);
    items.push(...page[field]);
    token = page.next_page_token;
    if (!token || items.length >= limit) return { items, more: Boolean(token) };
  }
}

export const cluster = () => ask("/v1/cluster");
export const namespaces = async () => (await all("/v1/namespaces", "namespaces")).items;
export const partitions = async () => (await all("/v1/partitions", "partitions", 10_000)).items;
export const projections = async (namespace) =>
  (await all(`/v1/namespaces/${encodeURIComponent(namespace)}/projections`, "projections")).items;
export const projection = (namespace, name) =>
  ask(`/v1/namespaces/${encodeURIComponent(namespace)}/projections/${encodeURIComponent(name)}`);
export const applyNamespace = (definition) => ask("/v1/namespaces", { method: "POST", body: definition });

/** One workspace. */
export class Workspace {
  constructor(namespace, number) {
    this.namespace = namespace;
    this.number = number;
    this.path = `/v1/namespaces/${encodeURIComponent(namespace)}/workspaces/${encodeURIComponent(number)}`;
  }
  state() { return ask(this.path); }
  definition() { return ask(`/v1/namespaces/${encodeURIComponent(this.namespace)}`); }
  entities() { return all(`${this.path}/entities`, "entities"); }
  records() { return all(`${this.path}/records`, "records"); }
  sequences() { return ask(`${this.path}/sequences`); }
  proof(offset) { return ask(`${this.path}/proofs/${offset}`); }
  root() { return ask(`${this.path}/root`); }
  write(key, request) {
    return ask(`${this.path}/events`, {
      method: "POST",
      headers: { "Idempotency-Key": key, "Content-Type": "application/json" },
      body: JSON.stringify(request),
    });
  }
  /** Events from an offset on, for ever. A break is resumed behind the last one that came. */
  follow(from, onEvent, onState) {
    const stopping = new AbortController();
    let last = "";
    const once = async () => {
      const headers = { Accept: "text/event-stream", ...(last && { "Last-Event-ID": last }) };
      const response = await request(`${this.path}/events?from=${from}&follow=true`, { headers, signal: stopping.signal });
      if (!response.ok) return "ended";
      onState("live");
      for await (const message of messages(response.body)) {
        if (message.id) last = message.id;
        if (message.event === "message") onEvent(JSON.parse(message.data));
      }
      return "reconnecting";
    };
    const go = async () => {
      while (!stopping.signal.aborted) {
        const state = await once().catch(() => "reconnecting");
        if (stopping.signal.aborted) return;
        onState(state);
        if (state === "ended") return;
        await new Promise((later) => setTimeout(later, 1000));
      }
    };
    go();
    return () => stopping.abort();
  }
}

/** Server-sent events, as they come. */
async function* messages(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const message = { event: "message", id: "", data: "" };
      for (const line of part.split("\n")) {
        const at = line.indexOf(": ");
        if (at > 0) message[line.slice(0, at)] = line.slice(at + 2);
      }
      yield message;
    }
  }
}
