// The routes under /v1/ as functions. What is refused throws with the server's own words.

class Refused extends Error {
  constructor(status, body) {
    const violations = (body.violations ?? []).map((violation) => `${violation.field}: ${violation.problem}`);
    super([body.message ?? `the server answered ${status}`, ...violations].join("\n"));
    this.status = status;
    this.body = body;
  }
}

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, options);
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
  /** Events from an offset on, for ever. A break is resumed by the browser where it was. */
  follow(from, onEvent, onState) {
    const source = new EventSource(`${this.path}/events?from=${from}&follow=true`);
    source.onopen = () => onState("live");
    source.onmessage = (message) => onEvent(JSON.parse(message.data));
    source.onerror = () => onState(source.readyState === EventSource.CLOSED ? "ended" : "reconnecting");
    return () => source.close();
  }
}
