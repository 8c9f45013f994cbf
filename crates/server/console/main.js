// Which page is shown follows from the part of the address behind the hash: nothing, or namespace/workspace/tab.

import * as api from "./api.js";
import { show as showOverview } from "./overview.js";
import { h } from "./page.js";
import { show as showWorkspace } from "./workspace.js";

const page = document.getElementById("page");
let leave = () => {};

function route() {
  leave();
  const [namespace, number, tab] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  if (namespace && /^[0-9]+$/.test(number ?? "")) {
    document.title = `${namespace}/${number} · Gapless`;
    document.getElementById("where").value = `${namespace}/${number}`;
    leave = showWorkspace(page, namespace, number, tab || "events");
  } else {
    document.title = "Gapless";
    leave = showOverview(page);
  }
}

document.getElementById("go").addEventListener("submit", (event) => {
  event.preventDefault();
  const where = document.getElementById("where").value.trim();
  if (/^[a-z0-9_-]+\/[0-9]+$/.test(where)) location.hash = `#/${where}`;
});

/** What the node says of itself, in the corner of every page. */
async function showNode() {
  const corner = document.getElementById("node");
  try {
    const cluster = await api.cluster();
    const role = cluster.is_leader ? "leads" : "follows";
    corner.replaceChildren(
      h("span", { class: cluster.takes_writes ? "good" : "bad" }, `node ${cluster.node_id} ${role}`),
      h("span", {}, `term ${cluster.term}`),
      h("span", {}, cluster.version));
  } catch (error) {
    corner.replaceChildren(h("span", { class: "bad" }, error.message));
  }
}

/** A server that wants to know who asks is told by whoever looks at this page. */
const knock = document.getElementById("knock");
api.whenUnknown(() => { knock.hidden = false; });
knock.addEventListener("submit", (event) => {
  event.preventDefault();
  const token = document.getElementById("token");
  api.authenticate(token.value.trim());
  token.value = "";
  knock.hidden = true;
  route();
  showNode();
});

addEventListener("hashchange", route);
route();
showNode();
setInterval(showNode, 5000);
