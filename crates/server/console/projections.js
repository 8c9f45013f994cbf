// Projections: how far each domain is, and what it waits for.

import * as api from "./api.js";
import { code, count, h, table } from "./page.js";

/** Projections that are asked for; more would be a page that nobody reads. */
const MOST = 50;

/** The domains of all projections of these namespaces. */
export async function domains(namespaces) {
  const found = [];
  for (const { name } of namespaces) {
    for (const projection of (await api.projections(name)).slice(0, MOST - found.length)) found.push([name, projection.name]);
  }
  const described = await Promise.all(found.map(([namespace, name]) => api.projection(namespace, name)));
  return described.flatMap(({ domains }, at) => domains.map((domain) => ({ ...domain, name: found[at].join("/") })));
}

export function domainTable(rows) {
  const state = (row) => {
    const name = row.halted ? "halted" : row.state.replace("DOMAIN_STATE_", "").toLowerCase().replaceAll("_", " ");
    return h("span", { class: name === "serving" ? "pill good" : "pill bad", title: row.reason }, name);
  };
  const number = (title, field) => [title, (row) => count(row[field]), "number"];
  const counter = (title, field) => [title, (row) => count(row.counters[field] ?? 0), "number"];
  const blocking = ({ blocking: slot }) => slot
    ? h("span", { title: `token ${slot.token}` }, `${slot.slot} ${slot.stage}${slot.holder && ` by ${slot.holder}`}, attempt ${slot.attempt}`)
    : "";
  return table([
    ["Projection", (row) => code(`${row.name}/${row.partition}`)],
    ["State", state],
    number("Watermark", "watermark"), number("Tail", "tail"), number("Lag ms", "lag_ms"),
    counter("Active", "active"), counter("Waiting", "waiting"), counter("Dead letters", "dead_letters"),
    ["Blocked by", blocking],
    ["Alerts", (row) => row.alerts.join(", ")],
  ], rows, "There are none: a definition can have some, as [projections.NAME].");
}
