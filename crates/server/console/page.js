// Elements, and nothing that reads a string as HTML: whatever a client wrote is shown as text.

/** An element with attributes and children; an attribute that is a function listens. */
export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(key, value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== undefined && value !== null) element.setAttribute(key, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export const section = (title, ...children) => h("section", {}, h("h2", {}, title), ...children);

export const figure = (value, name) => h("div", { class: "figure" }, h("b", {}, value), h("span", {}, name));

/** A table; a column is [title, cell of a row, class]. */
export function table(columns, rows, none) {
  if (rows.length === 0) return h("p", { class: "quiet" }, none);
  const head = h("tr", {}, columns.map(([title, , kind]) => h("th", { class: kind }, title)));
  const body = rows.map((row) => h("tr", {}, columns.map(([, cell, kind]) => h("td", { class: kind }, cell(row)))));
  return h("div", { class: "scroll" }, h("table", {}, h("thead", {}, head), h("tbody", {}, body)));
}

export const code = (text) => h("code", {}, text);

export const count = (number) => Number(number).toLocaleString("en");

export function time(milliseconds) {
  const date = new Date(milliseconds);
  return h("time", { datetime: date.toISOString(), title: date.toISOString() }, date.toLocaleTimeString("en-GB"));
}

/** Bytes as text where they are text, and in hexadecimal where they are not. */
export function bytes(base64) {
  const raw = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(raw);
    if (!/[\u0000-\u0008\u000e-\u001f]/.test(text)) return text;
  } catch { /* Not text. */ }
  return "0x" + Array.from(raw, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function problem(error) {
  return h("p", { class: "problem", role: "alert" }, error.message);
}
