// The first page: the node, its namespaces, its projections, its partitions.

import * as api from "./api.js";
import { domainTable, domains } from "./projections.js";
import { code, count, figure, h, problem, section, table } from "./page.js";

const SECOND = 1000;
/** Seconds that the curve shows. */
const CURVE = 120;

/** Shows the page until it is left; returns what to do then. */
export function show(page) {
  const figures = h("div", { class: "figures" });
  const curve = rateCurve();
  const alarms = h("div");
  const partitions = h("div");
  const spaces = h("div");
  const projections = h("div");
  page.replaceChildren(
    h("section", {}, figures, curve.element, alarms),
    section("Namespaces", spaces, definitionForm(() => refresh())),
    section("Partitions", partitions),
    section("Projections", projections),
  );
  let before;
  let known;
  let left = false;
  async function refresh() {
    try {
      const [cluster, rows, namespaces] = await Promise.all([api.cluster(), api.partitions(), api.namespaces()]);
      if (left) return;
      const outcomes = rows.reduce((sum, row) => sum + Number(row.applied_offset), 0);
      const now = performance.now();
      const rate = before ? Math.max(0, (outcomes - before.outcomes) * SECOND / (now - before.now)) : 0;
      before = { outcomes, now };
      curve.push(rate);
      figures.replaceChildren(
        figure(count(Math.round(rate)), "outcomes per second"),
        figure(count(outcomes), "outcomes applied"),
        figure(count(cluster.committed_index), "committed log index"),
        figure(count(cluster.committed_index - cluster.dispatched_index), "entries to dispatch"),
        figure(`${rows.filter((row) => row.state.endsWith("SERVING")).length} of ${rows.length}`, "partitions serve"),
      );
      alarms.replaceChildren(...(cluster.alarms ?? []).map((alarm) => h("p", { class: "problem" }, String(alarm.message ?? alarm))));
      // Only when they changed: a definition that somebody opened stays open.
      if (JSON.stringify(namespaces) !== known) spaces.replaceChildren(namespaceTable(namespaces));
      known = JSON.stringify(namespaces);
      partitions.replaceChildren(partitionTable(rows));
      const found = await domains(namespaces);
      if (!left) projections.replaceChildren(domainTable(found));
    } catch (error) {
      if (!left) alarms.replaceChildren(problem(error));
    }
  }
  refresh();
  const timer = setInterval(refresh, SECOND);
  return () => {
    left = true;
    clearInterval(timer);
  };
}

function namespaceTable(namespaces) {
  return table([
    ["Name", (row) => row.name],
    ["Partitions", (row) => count(row.partitions), "number"],
    ["Definition", (row) => h("details", {}, h("summary", {}, "TOML"), h("pre", {}, row.definition))],
    ["", (row) => h("a", { href: `#/${row.name}/1` }, "workspace 1")],
  ], namespaces, "There is none yet: define one below.");
}

function partitionTable(partitions) {
  const state = (row) => {
    const name = row.frozen ? "frozen" : row.state.replace("PARTITION_STATE_", "").toLowerCase().replaceAll("_", " ");
    return h("span", { class: name === "serving" ? "pill good" : "pill bad", title: row.reason }, name);
  };
  const number = (title, field) => [title, (row) => count(row[field]), "number"];
  return table([
    ["Partition", (row) => code(`${row.namespace}/${row.partition}`)],
    ["State", state],
    number("Highest", "highest_offset"), number("Durable", "durable_offset"), number("Applied", "applied_offset"),
    number("Synced", "synced_offset"), number("Checkpoint", "checkpoint_offset"),
    number("Backlog", "backlog_entries"), number("Age ms", "backlog_age_ms"),
  ], partitions, "There are none before there is a namespace.");
}

/** Applies a definition; what the server finds wrong with it is shown, all of it. */
function definitionForm(done) {
  const definition = h("textarea", { rows: 7, "aria-label": "definition", spellcheck: "false" });
  definition.value = 'name = "shop"\npartitions = 8\n\n[kinds.default.sequences]\ninvoice = 1\n';
  const answer = h("div");
  const apply = async (event) => {
    event.preventDefault();
    try {
      await api.applyNamespace(definition.value);
      answer.replaceChildren(h("p", { class: "good" }, "Applied."));
      done();
    } catch (error) {
      answer.replaceChildren(problem(error));
    }
  };
  const form = h("form", { class: "write", submit: apply }, definition, h("div", {}, h("button", {}, "Apply")), answer);
  return h("details", {}, h("summary", {}, "Define or change a namespace"), form);
}

function rateCurve() {
  const values = [];
  const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  const element = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  element.setAttribute("class", "rate");
  element.setAttribute("viewBox", `0 0 ${CURVE} 56`);
  element.setAttribute("preserveAspectRatio", "none");
  element.append(line);
  const push = (value) => {
    values.push(value);
    if (values.length > CURVE) values.shift();
    const most = Math.max(1, ...values);
    const points = values.map((each, index) => `${CURVE - values.length + index},${(54 - 52 * each / most).toFixed(1)}`);
    line.setAttribute("points", points.join(" "));
  };
  return { element, push };
}
